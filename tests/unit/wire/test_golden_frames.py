"""Frames that real brokers sent: decoded, and encoded again."""

from golden_frames import Golden

from featuregate.wire.api_versions import ApiVersionsResponse
from featuregate.wire.frames import read_request_header, read_response_body, write_request, write_response
from featuregate.wire.message import Request, Response


def body_of(golden: Golden) -> bytes:
    """Return the bytes behind the header."""
    if issubclass(golden.message, Request):
        return read_request_header(golden.frame, {golden.message.API_KEY: golden.message})[1]
    assert issubclass(golden.message, Response)
    return read_response_body(golden.frame, golden.message, golden.version)


def test_it_is_decoded_and_encoded_to_the_same_bytes(captured: Golden) -> None:
    """The encoder writes the bytes that Kafka wrote."""
    message = captured.message.decode(captured.version, body_of(captured))
    if isinstance(message, Request):
        header, _ = read_request_header(captured.frame, {message.API_KEY: type(message)})
        written = write_request(message, captured.version, header.correlation_id, header.client_id)
    else:
        assert isinstance(message, Response)
        written = write_response(message, captured.version, int.from_bytes(captured.frame[:4], "big"))
    assert written[4:] == captured.frame


def test_error_35_is_read_as_v0_whatever_was_asked(captured: Golden) -> None:
    """The decoder recognises error 35 by the first two bytes of each captured response."""
    if captured.message is not ApiVersionsResponse:
        return
    body = body_of(captured)
    asked = 5 if body.startswith(b"\0\x23") else captured.version
    response, version = ApiVersionsResponse.decode_answer(asked, body)
    assert version == captured.version
    assert (response.error_code == 35) == (asked != version)
