"""Whether a broker is ready, asked with the oldest requests: every broker since 0.10.0 answers v0 of both."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from featuregate.errors import RemoteWireError
from featuregate.wire.frames import frame
from featuregate.wire.readers import ClassicReader

if TYPE_CHECKING:
    import ssl

PROBE_TIMEOUT = 5.0
"""Seconds for one connection and one answer."""

METADATA, API_VERSIONS = 3, 18


class ReportedCluster(NamedTuple):
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
    except (OSError, RemoteWireError):
        return None


def parse_membership(body: bytes) -> ReportedCluster:
    """Parse a Metadata v0 response: brokers, then topics with their partitions."""
    reader = ClassicReader(body, "Metadata")
    brokers, lagging = set(), set[int]()
    for _ in range(reader.count("brokers", 10)):
        brokers.add(reader.int32("node_id"))
        reader.string("host")
        reader.int32("port")
    for _ in range(reader.count("topics", 8)):
        reader.int16("error_code")
        reader.string("name")
        for _ in range(reader.count("partitions", 18)):
            reader.take(10, "partition")
            replicas = {reader.int32("replica") for _ in range(reader.count("replicas", 4))}
            lagging |= replicas - {reader.int32("in_sync") for _ in range(reader.count("in_sync", 4))}
    return ReportedCluster(frozenset(brokers), frozenset(lagging))


def _ask(host: str, port: int, api_key: int, body: bytes, tls: ssl.SSLContext | None) -> bytes:
    """Send one request in v0 on a new connection, and return the body of the answer. Raises `OSError`."""
    with socket.create_connection((host, port), timeout=PROBE_TIMEOUT) as plain:
        connection = tls.wrap_socket(plain, server_hostname=host) if tls else plain
        with connection, connection.makefile("rb") as answer:
            connection.sendall(frame(struct.pack(">hhih", api_key, 0, 1, -1) + body))
            size = int.from_bytes(answer.read(4))
            if len(read := answer.read(size)) < max(size, 4):
                raise ConnectionError(f"{host}:{port} closed the connection before its answer was whole")
            return read[4:]
