"""Whether a broker is ready, asked with a few of the oldest requests.

Independent of `featuregate.wire` on purpose: its tests use the brokers that this module waits for. Every broker since
0.10.0 answers ApiVersions v0 and Metadata v0.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

PROBE_TIMEOUT = 5.0
"""Seconds for one connection and one answer."""

METADATA, API_VERSIONS = 3, 18


@dataclass(frozen=True, slots=True)
class ReportedCluster:
    """The cluster, as one broker reports it."""

    brokers: frozenset[int]
    """The brokers that are up: with KRaft those that are registered and not fenced."""
    lagging: frozenset[int]
    """Brokers with a replica of a partition that is not in sync."""


def serves(host: str, port: int, tls: ssl.SSLContext | None = None) -> bool:
    """Return whether this port answers ApiVersions, before authentication as for clients."""
    try:
        return len(_ask(host, port, API_VERSIONS, b"", tls)) > 2  # noqa: PLR2004 - more than an error code
    except OSError:
        return False


def membership(host: str, port: int) -> ReportedCluster | None:
    """Ask a plaintext listener of a broker for its cluster; None if it does not answer."""
    try:
        return parse_membership(_ask(host, port, METADATA, struct.pack(">i", 0), None))
    except (OSError, struct.error):
        return None


def cluster_id(host: str, port: int) -> str | None:
    """Ask a plaintext listener for its cluster id (Metadata v2); None if there is none."""
    try:
        reader = _Reader(_ask(host, port, METADATA, struct.pack(">i", 0), None, version=2))
        for _ in range(reader.int32()):
            reader.int32()
            reader.string()
            reader.int32()
            reader.string()
        return reader.string()
    except (OSError, struct.error):
        return None


def parse_membership(body: bytes) -> ReportedCluster:
    """Parse a Metadata v0 response: brokers, then topics with their partitions."""
    reader = _Reader(body)
    brokers = set()
    for _ in range(reader.int32()):
        brokers.add(reader.int32())
        reader.string()
        reader.int32()
    lagging: set[int] = set()
    for _ in range(reader.int32()):
        reader.int16()
        reader.string()
        for _ in range(reader.int32()):
            reader.int16()
            reader.int32()
            reader.int32()
            replicas = {reader.int32() for _ in range(reader.int32())}
            lagging |= replicas - {reader.int32() for _ in range(reader.int32())}
    return ReportedCluster(frozenset(brokers), frozenset(lagging))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return int(value)

    def int16(self) -> int:
        return self._take(">h")

    def int32(self) -> int:
        return self._take(">i")

    def string(self) -> str | None:
        length = self.int16()
        if length < 0:
            return None
        self._at += length
        return self._data[self._at - length : self._at].decode()


def _ask(host: str, port: int, api_key: int, body: bytes, tls: ssl.SSLContext | None, version: int = 0) -> bytes:
    """Send one request on a new connection, and return the body of the answer."""
    request = struct.pack(">hhih", api_key, version, 1, -1) + body
    with socket.create_connection((host, port), timeout=PROBE_TIMEOUT) as plain:
        connection = tls.wrap_socket(plain, server_hostname=host) if tls else plain
        with connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            size = struct.unpack(">i", _read(connection, 4))[0]
            return _read(connection, size)[4:]


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 65536))
        if not piece:
            raise ConnectionError("the connection was closed before the end of the answer")
        data += piece
    return data
