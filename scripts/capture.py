"""Capture what real brokers say: golden frames for the tests, and API ranges for the catalog.

Starts each release on this machine (see ``LocalKafka``), one node in combined mode or beside a ZooKeeper, and writes

- ``tests/data/frames/*.hex``: whole response frames, in the format that the README.md there describes;
- ``featuregate/catalog/data/api_ranges.json``: per release, the API ranges and features that its nodes advertise.

Run it with a release or more to capture these alone, without to capture all: ``python scripts/capture.py 4.2.0``.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.releases import recipe_for
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.cluster import DescribeClusterRequest
from featuregate.wire.frames import read_response_body, write_request
from featuregate.wire.metadata import MetadataRequest
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from featuregate.wire.update_features import FeatureUpdate, UpdateFeaturesRequest

if TYPE_CHECKING:
    from featuregate.testing.local_kafka.nodes import NodeInfo
    from featuregate.wire.message import Request

ROOT = Path(__file__).parent.parent
FRAMES = ROOT / "tests" / "data" / "frames"
API_RANGES = ROOT / "featuregate" / "catalog" / "data" / "api_ranges.json"

RELEASES = (
    *("0.10.0.1", "0.10.1.1", "0.10.2.2", "0.11.0.3"),
    *("1.0.2", "1.1.1"),
    *("2.0.1", "2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2"),
    *("3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2"),
    *("4.0.0", "4.1.1", "4.2.0", "4.3.1", "4.4.0"),
)
"""One of each release since 0.10.0, oldest first."""

ASK = ApiVersionsRequest(client_software_name="featuregate", client_software_version="0.1.0")
SOMEBODY_ELSE = replace(ASK, cluster_id="another-cluster", node_id=1)
HANDSHAKE = SaslHandshakeRequest(mechanism="PLAIN")
WRONG_HANDSHAKE = SaslHandshakeRequest(mechanism="NOT-A-MECHANISM")
NO_SUCH_FEATURE = (FeatureUpdate(feature="featuregate.no-such-feature", max_version_level=1),)
DRY_RUN = UpdateFeaturesRequest(updates=NO_SUCH_FEATURE, validate_only=True)
KEEP_LEVEL = UpdateFeaturesRequest(
    updates=(FeatureUpdate(feature="metadata.version", max_version_level=21),), validate_only=True
)


@dataclass(frozen=True)
class Wanted:
    """Frames of one kind that are worth keeping."""

    request: Request[Any]
    versions: Mapping[str, tuple[int, ...]]
    """By release, which versions."""
    special: str = ""
    """What the name of the file says beside."""
    role: str = "broker"
    sasl: bool = False
    """Ask on the listener that wants SASL."""
    note: str = ""
    spoiled: tuple[bytes, bytes] = (b"", b"")
    """Bytes of the request, and what is sent in their place: for requests that our own writer refuses to write."""


WANTED = (
    Wanted(
        ASK,
        {
            "0.10.0.1": (0,),
            "1.0.2": (1,),
            "2.4.1": (0, 2, 3),
            "2.6.3": (3,),
            "2.8.2": (3,),
            "3.3.2": (3,),
            "3.9.2": (3, 4),
            "4.2.0": (0, 1, 2, 3, 4),
            "4.3.1": (3, 4),
            "4.4.0": (3, 4, 5),
        },
    ),
    Wanted(ASK, {"3.9.2": (4,), "4.2.0": (3, 4), "4.3.1": (4,)}, "controller", role="controller"),
    Wanted(
        ASK,
        dict.fromkeys(("0.10.0.1", "1.0.2", "2.4.1", "3.9.2", "4.3.1"), (5,)),
        "error35",
        note="asked at version 5, which this release does not speak",
    ),
    Wanted(
        ASK,
        {"4.2.0": (4,)},
        "error42",
        spoiled=(b"featuregate", b"feature\0ate"),
        note="asked with a client software name that Kafka does not accept",
    ),
    Wanted(
        SOMEBODY_ELSE,
        {"4.4.0": (5,)},
        "error129",
        note="asked for a node of another cluster",
    ),
    Wanted(
        MetadataRequest(),
        {
            "0.10.0.1": (1,),
            "1.0.2": (2, 5),
            "2.4.1": (7, 8, 9),
            "2.6.3": (9,),
            "2.8.2": (11,),
            "3.9.2": (12,),
            "4.2.0": (1, 8, 10, 13),
        },
    ),
    Wanted(DescribeClusterRequest(), {"2.8.2": (0,), "3.9.2": (1,), "4.2.0": (0, 1, 2)}),
    Wanted(
        DescribeClusterRequest(endpoint_type=2),
        {"3.9.2": (1,), "4.2.0": (2,)},
        "controller",
        role="controller",
        note="asked for controllers",
    ),
    Wanted(HANDSHAKE, {"0.10.0.1": (0,), "4.2.0": (0, 1)}, sasl=True),
    Wanted(WRONG_HANDSHAKE, {"2.4.1": (1,), "4.2.0": (1,)}, "error33", sasl=True),
    Wanted(UpdateFeaturesRequest(updates=NO_SUCH_FEATURE), {"3.9.2": (0,), "4.2.0": (0,)}, "no-such-feature"),
    Wanted(DRY_RUN, {"3.9.2": (1,), "4.2.0": (1, 2)}, "no-such-feature", note="a dry run"),
    Wanted(KEEP_LEVEL, {"3.9.2": (1,)}, note="a dry run of the level that is finalized"),
)

AUTHENTICATE = {"1.0.2": (0,), "2.4.1": (1,), "4.2.0": (2,)}
"""Which versions of SaslAuthenticate, right and wrong password each."""


def main(arguments: list[str]) -> None:
    """Capture some or all releases; the rows of the others stay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", nargs="*", help=f"such as 4.2.0; by default {' '.join(RELEASES)}")
    releases = parser.parse_args(arguments).release or RELEASES
    table = json.loads(API_RANGES.read_text()) if API_RANGES.exists() else {}
    for release in releases:
        with LocalKafka(release, security="SASL_PLAINTEXT", sasl_mechanism="PLAIN") as kafka:
            for old in FRAMES.glob(f"*-{release}*.hex"):
                old.unlink()
            count = sum(1 for _ in capture_frames(release, kafka))
            row = capture_ranges(release, kafka.node(1))
            table[recipe_for(release).release] = row
            print(f"Kafka {release}: {count} frames, {len(row['apis'])} APIs")
    ordered = sorted(table.items(), key=lambda row: [int(number) for number in row[0].split(".")])
    API_RANGES.parent.mkdir(exist_ok=True)
    API_RANGES.write_text(json_lines(dict(ordered)))


# ---------------------------------------------------------------- frames


def capture_frames(release: str, kafka: LocalKafka) -> Iterator[Path]:
    """Ask everything that is wanted of a release; give each file that was written."""
    node = kafka.node(1)
    for wanted in WANTED:
        port = node.port if wanted.sasl else node.internal_port
        if wanted.role == "controller" and node.controller_port:
            port = node.controller_port
        for version in wanted.versions.get(release, ()):
            with connect(port) as connection:
                answer = ask(connection, wanted.request, version, wanted.spoiled)
                yield save(release, wanted, version, answer)
    config = kafka.client_config()
    for version in AUTHENTICATE.get(release, ()):
        for special, password in (("", str(config["sasl.password"])), ("error58", "wrong")):
            request = SaslAuthenticateRequest(auth_bytes=f"\0{config['sasl.username']}\0{password}".encode())
            with connect(node.port) as connection:
                ask(connection, HANDSHAKE, 1)
                yield save(release, Wanted(request, {}, special), version, ask(connection, request, version))


def connect(port: int) -> socket.socket:
    """Open a connection to this machine."""
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def ask(
    connection: socket.socket, request: Request[Any], version: int, spoiled: tuple[bytes, bytes] = (b"", b"")
) -> bytes:
    """Send one request, read one response: its frame without the length prefix."""
    written = write_request(request, version, correlation_id=1, client_id="capture")
    connection.sendall(written.replace(*spoiled, 1))
    (size,) = struct.unpack(">i", read(connection, 4))
    return read(connection, size)


def read(connection: socket.socket, size: int) -> bytes:
    """Read exactly so many bytes."""
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += piece
    return data


def save(release: str, wanted: Wanted, asked: int, frame: bytes) -> Path:
    """Write one golden frame; an answer with error 35 to ApiVersions is in version 0, whatever was asked."""
    name = wanted.request.NAME
    version = asked
    if wanted.request is ASK:
        body = read_response_body(frame, ApiVersionsResponse, asked)
        version = ApiVersionsResponse.decode_answer(asked, body)[1]
    header = {"kafka": release, "api": name, "version": version, "direction": "response"}
    if asked != version:
        header["asked"] = asked
    if wanted.role != "broker":
        header["role"] = wanted.role
    if wanted.note:
        header["note"] = wanted.note
    suffix = f"-{wanted.special}" if wanted.special else ""
    path = FRAMES / f"{name}-v{version}-response-{release}{suffix}.hex"
    lines = [f"# {key}: {value}" for key, value in header.items()] + textwrap.wrap(frame.hex(), 96)
    path.write_text("\n".join(lines) + "\n")
    return path


# ---------------------------------------------------------------- API ranges


def capture_ranges(release: str, node: NodeInfo) -> dict[str, Any]:
    """Ask a node, as a broker and as a controller, at the newest version that it speaks."""
    broker = newest_answer(node.internal_port)
    row: dict[str, Any] = {
        "apis": {str(key): list(broker.api_ranges[key]) for key in sorted(broker.api_ranges)},
        "features": {name: list(broker.supported[name]) for name in sorted(broker.supported)},
    }
    if node.controller_port:
        controller = newest_answer(node.controller_port)
        row["controller_apis"] = {str(key): list(controller.api_ranges[key]) for key in sorted(controller.api_ranges)}
        mode = "in combined mode, formatted for its own release; broker listener and controller listener"
    else:
        mode = "with ZooKeeper; broker listener"
    row["captured_from"] = f"Apache Kafka {release}, a cluster of one node {mode}"
    return row


def newest_answer(port: int) -> ApiVersionsResponse:
    """Ask at the newest version that we speak, and again at the newest that the node speaks."""
    version = ApiVersionsRequest.VERSIONS[1]
    while True:
        with connect(port) as connection:
            body = read_response_body(ask(connection, ASK, version), ApiVersionsResponse, version)
        answer, _ = ApiVersionsResponse.decode_answer(version, body)
        if answer.error_code == 0:
            return answer
        version = answer.api_ranges.get(ApiVersionsRequest.API_KEY, (0, 0))[1]


def json_lines(table: Mapping[str, Any]) -> str:
    """Write JSON with one line for each field of a row: short enough to read, long enough for small diffs."""
    rows = []
    for release, row in table.items():
        fields = ",\n".join(f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in row.items())
        rows.append(f"  {json.dumps(release)}: {{\n{fields}\n  }}")
    return "{\n" + ",\n".join(rows) + "\n}\n"


if __name__ == "__main__":
    main(sys.argv[1:])
