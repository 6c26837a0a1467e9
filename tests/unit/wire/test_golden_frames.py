"""Frames that real brokers sent: decoded, encoded again, cut and mutated."""

import contextlib
import tracemalloc
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.errors import RemoteWireError
from featuregate.wire.api_versions import ApiVersionsResponse
from featuregate.wire.frames import read_request_header, read_response_body, write_request, write_response
from featuregate.wire.message import Message, Request, Response


class Golden(Protocol):
    """One file of tests/data/frames, as conftest.py reads it."""

    kafka: str
    message: type[Message]
    version: int
    frame: bytes


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


def test_it_is_refused_when_cut_at_any_byte(captured: Golden) -> None:
    """The decoder refuses an incomplete body."""
    body = body_of(captured)
    for size in range(len(body)):
        with pytest.raises(RemoteWireError):
            captured.message.decode(captured.version, body[:size])


patches = st.binary(max_size=5) | st.sampled_from([b"\xff" * 4, b"\x7f\xff\xff\xff"])
"""Bytes that come into a frame: any, or a length that no frame has."""


@given(mutations=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 3), patches), min_size=1, max_size=5))
def test_invariant_7_its_mutations_neither_crash_nor_bloat(
    captured: Golden, mutations: list[tuple[int, int, bytes]]
) -> None:
    """The decoder parses or refuses mutated bytes, with memory in proportion to their number."""
    frame = bytearray(captured.frame)
    for place, removed, patch in mutations:
        at = place % (len(frame) + 1)
        frame[at : at + removed] = patch
    body = bytes(frame[4:])
    tracemalloc.start()
    try:
        with contextlib.suppress(RemoteWireError):
            captured.message.decode(captured.version, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024 + 200 * len(body)


def test_error_35_is_read_as_v0_whatever_was_asked(captured: Golden) -> None:
    """The decoder recognises error 35 by the first two bytes of each captured response."""
    if captured.message is not ApiVersionsResponse:
        return
    body = body_of(captured)
    asked = 5 if body.startswith(b"\0\x23") else captured.version
    response, version = ApiVersionsResponse.decode_answer(asked, body)
    assert version == captured.version
    assert (response.error_code == 35) == (asked != version)


def test_there_are_golden_frames(golden_count: int) -> None:
    """Without captured frames the tests above would pass and prove nothing."""
    assert golden_count > 0
