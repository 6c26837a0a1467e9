"""Frames: lengths, headers, correlation ids, and peers that are not Kafka listeners."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.errors import LocalWireError, RemoteWireError
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.frames import (
    MAX_FRAME,
    FrameReader,
    RequestHeader,
    frame,
    read_correlation_id,
    read_request_header,
    read_response_body,
    write_request,
    write_response,
)
from featuregate.wire.metadata import MetadataRequest, MetadataResponse

APIS = {18: ApiVersionsRequest, 3: MetadataRequest}
HELLO = ApiVersionsRequest(client_software_name="app", client_software_version="1")


@given(payloads=st.lists(st.binary(max_size=40)), data=st.data())
def test_frames_come_whole_however_the_stream_is_cut(payloads: list[bytes], data: st.DataObject) -> None:
    """TCP may cut the stream anywhere; the reader returns the frames that were sent, in order."""
    stream = b"".join(map(frame, payloads))
    reader = FrameReader()
    taken: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        taken += reader.feed(stream[:size])
        stream = stream[size:]
    assert taken == payloads


def test_a_negative_length_is_refused() -> None:
    """A frame cannot have fewer than no bytes."""
    with pytest.raises(RemoteWireError, match=r"^frame length at byte 0: negative length -1$"):
        list(FrameReader().feed(b"\xff\xff\xff\xff"))


def test_a_length_above_the_cap_is_refused_at_once() -> None:
    """The reader does not wait for the bytes of such a frame."""
    reader = FrameReader(100)
    assert list(reader.feed(frame(bytes(100)))) == [bytes(100)]
    with pytest.raises(RemoteWireError, match=r"^frame length at byte 0: 101 bytes are more than the limit of 100$"):
        list(reader.feed(b"\0\0\0\x65"))


def test_invariant_7_a_length_allocates_nothing() -> None:
    """The reader allocates no memory for a frame before its bytes arrive."""
    tracemalloc.start()
    try:
        reader = FrameReader()
        assert list(reader.feed(MAX_FRAME.to_bytes(4, "big"))) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


@pytest.mark.parametrize("cap", [0, -1, 2**31])
def test_a_cap_that_no_frame_can_have_is_refused(cap: int) -> None:
    """A length is a signed integer of four bytes."""
    with pytest.raises(LocalWireError, match="is not between 1 and 2147483647"):
        FrameReader(cap)


@pytest.mark.parametrize(
    ("first", "meaning"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP server"),
        (b"\x15\x03\x03\x00\x02\x02\x0a", "TLS listener: set security.protocol to SSL"),
        (b"\x16\x03\x01\x00\x2a", "TLS listener: set security.protocol to SSL"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH server"),
    ],
)
def test_a_peer_that_speaks_something_else_is_named(first: bytes, meaning: str) -> None:
    """The reader recognises the protocol of the peer by its first bytes, and the error names it."""
    with pytest.raises(RemoteWireError, match=meaning):
        list(FrameReader().feed(first))


def test_a_frame_that_has_no_length_is_refused() -> None:
    """The check needs no frame of two gigabytes, because the test overrides the length."""

    class Huge(bytes):
        __slots__ = ()

        def __len__(self) -> int:
            return 2**31

    with pytest.raises(LocalWireError, match="Kafka allows 2147483647"):
        frame(Huge())


def test_a_classic_request_has_header_v1() -> None:
    """The header has the key, the version, the correlation id and the client id, and no tags."""
    written = write_request(MetadataRequest(), 1, 7, "app")
    assert written == bytes.fromhex("00000011 0003 0001 00000007 0003 617070 00000000")
    assert read_request_header(written[4:], APIS) == (
        RequestHeader(api_key=3, api_version=1, correlation_id=7, client_id="app"),
        bytes(4),
    )


def test_a_flexible_request_has_header_v2_with_a_classic_client_id() -> None:
    """The tags follow the client id, which keeps its classic encoding."""
    written = write_request(HELLO, 3, 7, "app")
    assert written[4:] == bytes.fromhex("0012 0003 00000007 0003 617070 00") + HELLO.encode(3)
    header, body = read_request_header(written[4:], APIS)
    assert header == RequestHeader(api_key=18, api_version=3, correlation_id=7, client_id="app")
    assert ApiVersionsRequest.decode(3, body) == HELLO


def test_the_header_of_a_version_that_is_too_new_can_be_read() -> None:
    """A server must read the header before it can answer error 35."""
    header, body = read_request_header(bytes.fromhex("0012 0063 00000007 ffff 01 05 01 aa") + b"body", APIS)
    assert (header.api_version, header.unknown_tags, body) == (99, {5: b"\xaa"}, b"body")


def test_the_header_of_an_unknown_api_is_read_as_v1() -> None:
    """The server cannot know whether the header of an unknown API has tags."""
    header, body = read_request_header(bytes.fromhex("0063 0000 00000007 ffff 00") + b"body", APIS)
    assert (header.api_key, body) == (99, b"\0body")


@pytest.mark.parametrize("size", range(14))
def test_a_request_header_that_is_cut_is_refused(size: int) -> None:
    """The reader refuses a header without its last bytes."""
    whole = write_request(HELLO, 3, 7, "app")[4:]
    with pytest.raises(RemoteWireError, match=r"^request header: "):
        read_request_header(whole[:size], APIS)


@pytest.mark.parametrize("version", range(6))
def test_an_answer_to_api_versions_always_has_header_v0(version: int) -> None:
    """A client that sent a version too new must be able to read the response."""
    response = ApiVersionsResponse(error_code=0, api_ranges={})
    assert write_response(response, version, 9)[4:] == b"\0\0\0\x09" + response.encode(version)


def test_a_flexible_answer_has_header_v1() -> None:
    """The tags follow the correlation id."""
    response = MetadataResponse(brokers=())
    assert write_response(response, 9, 9)[4:] == b"\0\0\0\x09\0" + response.encode(9)
    assert write_response(response, 8, 9)[4:] == b"\0\0\0\x09" + response.encode(8)


@pytest.mark.parametrize(("version", "tags"), [(8, ""), (9, "00"), (9, "01 03 02 aabb")])
def test_a_response_is_taken_apart(version: int, tags: str) -> None:
    """The reader returns the correlation id and the body, and skips the tags of the header."""
    payload = bytes.fromhex("00000009" + tags) + b"body"
    assert read_correlation_id(payload) == 9
    assert read_response_body(payload, MetadataResponse, version) == b"body"
