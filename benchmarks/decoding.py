"""Decoding one ApiVersions v4 response, beside kio (generated, in Rust) and kafka-python (interpreted schemas)."""

from __future__ import annotations

from pathlib import Path

from kafka.protocol.metadata.api_versions import ApiVersionsResponse as KafkaPythonResponse
from kio.schema.api_versions.v4.response import ApiVersionsResponse as KioResponse
from kio.serial import entity_reader
from measuring import Section, at_least, at_most, loop, take_turns

from featuregate.wire.api_versions import ApiVersionsResponse

__all__ = ["run"]

FRAMES = Path(__file__).parents[1] / "tests" / "data" / "frames"
VERSION = 4
CORRELATION_ID_SIZE = 4
APIS = 75


def golden() -> tuple[str, bytes]:
    """Give the body of a recorded frame with 75 APIs, of a real broker where there is one, and who said it."""
    found = {}
    for path in sorted(FRAMES.glob(f"ApiVersions-v{VERSION}-response-*.hex")):
        lines = path.read_text().splitlines()
        body = bytes.fromhex("".join(line for line in lines if not line.startswith("#")))[CORRELATION_ID_SIZE:]
        origin = path.stem.rpartition("response-")[2]
        if len(ApiVersionsResponse.decode(VERSION, body).api_ranges) == APIS:
            found[origin] = body
    origin = min(found, key=lambda name: (not name[0].isdigit(), name))
    return origin, found[origin]


def run(rounds: int) -> Section:
    origin, body = golden()
    kio = entity_reader(KioResponse)
    contestants = {
        "featuregate": loop(f"x.decode({VERSION}, body)".replace("body", repr(body)), ApiVersionsResponse, repeat=10),
        "kio": loop(f"x({body!r}, 0)", kio, repeat=10),
        "kafka-python": loop(f"x.decode({body!r}, version={VERSION})", KafkaPythonResponse, repeat=10),
    }
    took = take_turns("decode", rounds, contestants, "us", 1e-3)
    what = f"decode ApiVersions v{VERSION}, {APIS} APIs"
    return Section(
        name="decode",
        title="Decoding",
        rows=(
            at_most(2.5, what, took["featuregate"], took["kio"]),
            at_least(3.0, what, took["featuregate"], took["kafka-python"]),
        ),
        notes=(f"The response is {len(body)} bytes, recorded from {origin}. kio decodes in Rust; we are pure Python.",),
    )
