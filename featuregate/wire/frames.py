"""Frames: a four-byte length, a header with a correlation id, a body.

Source: ``RequestHeader.json`` and ``ResponseHeader.json`` of Apache Kafka 4.4.0. Requests with classic bodies have
header v1, flexible ones header v2, which adds tagged fields; the client id stays classic in both, so that any broker
can read it. Responses have header v0 or v1, again without and with tagged fields; ApiVersions always v0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.budgets import MAX_FRAME
from featuregate.errors import LocalWireError, RemoteWireError
from featuregate.wire.readers import ClassicReader, FlexibleReader, Reader
from featuregate.wire.writers import ClassicWriter, FlexibleWriter, Writer

if TYPE_CHECKING:
    from featuregate.wire.message import Request, Response

_LENGTH: Final = struct.Struct(">i")
_LONGEST: Final = 2**31 - 1
_FIRST_BYTES: Final = (
    (b"HTTP", "this looks like an HTTP server, not a Kafka listener"),
    (b"\x15\x03", "this looks like a TLS listener: set security.protocol to SSL or SASL_SSL"),
    (b"\x16\x03", "this looks like a TLS listener: set security.protocol to SSL or SASL_SSL"),
    (b"SSH-", "this looks like an SSH server, not a Kafka listener"),
)
"""First bytes of peers that are not Kafka listeners: an HTTP error, a TLS alert or handshake record, an SSH banner."""


class FrameReader:
    """Splits a stream of bytes into frames, without their length prefixes.

    It holds only bytes that were received and not taken yet: a length above ``max_frame`` is refused, and no memory is
    allocated before the bytes have arrived.
    """

    __slots__ = ("_buffer", "max_frame")

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        if not 0 < max_frame <= _LONGEST:
            raise LocalWireError(f"a frame limit of {max_frame} bytes is not between 1 and {_LONGEST}")
        self.max_frame = max_frame
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take in received bytes, and iterate over the complete frames.

        The call takes the bytes in at once. The iteration raises `RemoteWireError` after the frames before a bad
        length.
        """
        self._buffer += data
        return iter(self.next_frame, None)

    def next_frame(self) -> bytes | None:
        """Return the next complete frame; None where more bytes are needed."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if not 0 <= length <= self.max_frame:
            raise RemoteWireError(self._explain(length), "frame length", 0)
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        with memoryview(self._buffer) as view:
            taken = bytes(view[_LENGTH.size : end])
        del self._buffer[:end]
        return taken

    def _explain(self, length: int) -> str:
        for first, meaning in _FIRST_BYTES:
            if self._buffer.startswith(first):
                return meaning
        if length < 0:
            return f"negative length {length}"
        return f"{length} bytes are more than the limit of {self.max_frame}"


class RequestHeader(NamedTuple):
    """The header before the body of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    """Chosen by the client, and repeated in the response."""
    client_id: str | None
    unknown_tags: Mapping[int, bytes] = MappingProxyType({})
    """Tagged fields of header v2: none has been defined yet."""


def frame(payload: bytes) -> bytes:
    """Put the length prefix before the payload."""
    if len(payload) > _LONGEST:
        raise LocalWireError(f"a frame of {len(payload)} bytes: Kafka allows {_LONGEST}")
    return _LENGTH.pack(len(payload)) + payload


def write_request(request: Request[Any], version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Write a request as a whole frame, length and header included."""
    writer = ClassicWriter("request header")
    writer.int16(request.API_KEY, "api_key")
    writer.int16(version, "api_version")
    writer.int32(correlation_id, "correlation_id")
    writer.nullable_string(client_id, "client_id")
    no_tags = b"\0" if request.is_flexible(version) else b""
    return frame(bytes(writer.out) + no_tags + request.encode(version))


def read_request_header(payload: bytes, apis: Mapping[int, type[Request[Any]]]) -> tuple[RequestHeader, bytes]:
    """Read the header of a request, as a server does, and return it with the body.

    ``apis`` has the requests that the server supports, by API key; they decide the version of the header. A version
    that is too new has the header of the newest one, so that a server can answer error 35. The header of an unknown API
    is read as v1, and its tagged fields count as body.
    """
    reader: Reader = ClassicReader(payload, "request header")
    api_key = reader.int16("api_key")
    api_version = reader.int16("api_version")
    correlation_id = reader.int32("correlation_id")
    client_id = reader.nullable_string("client_id")
    if api_key in apis and api_version >= apis[api_key].FLEXIBLE_FROM:
        reader = FlexibleReader(payload, reader.message, reader.at)
    header = RequestHeader(
        api_key=api_key,
        api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
        unknown_tags=reader.tags(),
    )
    return header, reader.rest()


def write_response(response: Response, version: int, correlation_id: int) -> bytes:
    """Write a response as a whole frame, length and header included, as a server does."""
    header = _response_header_kind(response, version)[1]("response header")
    header.int32(correlation_id, "correlation_id")
    header.tags({})
    return frame(bytes(header.out) + response.encode(version))


def read_correlation_id(payload: bytes) -> int:
    """Read the correlation id of a response: its first four bytes in every version of the header."""
    return ClassicReader(payload, "response header").int32("correlation_id")


def read_response_body(payload: bytes, response: type[Response], version: int) -> bytes:
    """Return the body after the header of a response; tagged fields of the header are skipped, none is defined yet."""
    reader = _response_header_kind(response, version)[0](payload, "response header")
    reader.int32("correlation_id")
    reader.tagged()
    return reader.rest()


def _response_header_kind(response: type[Response] | Response, version: int) -> tuple[type[Reader], type[Writer]]:
    """Return the reader and writer of a header: classic for v0, flexible for v1."""
    return (FlexibleReader, FlexibleWriter) if response.header_version(version) else (ClassicReader, ClassicWriter)
