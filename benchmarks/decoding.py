"""Decoding one ApiVersions v4 response, beside kio (generated, in Rust) and kafka-python (interpreted schemas).

And records of coordinators, which no other library decodes in Python: for information, as records per second.
"""

from __future__ import annotations

from pathlib import Path

from kafka.protocol.metadata.api_versions import ApiVersionsResponse as KafkaPythonResponse
from kio.schema.api_versions.v4.response import ApiVersionsResponse as KioResponse
from kio.serial import entity_reader
from measuring import Row, Sample, Section, at_least, at_most, each, loop, take_turns

from featuregate.records import CONSUMER_OFFSETS, TRANSACTION_STATE, CoordinatorRecord
from featuregate.records.schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)
from featuregate.wire.api_versions import ApiVersionsResponse

FRAMES = Path(__file__).parents[1] / "tests" / "data" / "frames"
VERSION = 4
CORRELATION_ID_SIZE = 4
APIS = 75
MEMBER = GroupMetadataValue.MemberMetadata(
    member_id="consumer-1-7f4b2f9e-6f0e-4f0c-9a52-2f8f5d8a1c11",
    client_id="consumer-1",
    client_host="/10.0.0.17",
    rebalance_timeout=300_000,
    session_timeout=45_000,
    subscription=bytes(40),
    assignment=bytes(60),
)
RECORDS = {
    "a committed offset": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(
            OffsetCommitKey(group="billing", topic="orders", partition=7),
            OffsetCommitValue(offset=123_456, leader_epoch=3, metadata="", commit_timestamp=1_732_240_000_000),
            3,
        ),
    ),
    "a classic group with 5 members": (
        CONSUMER_OFFSETS,
        CoordinatorRecord(
            GroupMetadataKey(group="billing"),
            GroupMetadataValue(
                protocol_type="consumer", generation=9, protocol="range", leader=MEMBER.member_id, members=(MEMBER,) * 5
            ),
            3,
        ),
    ),
    "a transaction over 3 partitions": (
        TRANSACTION_STATE,
        CoordinatorRecord(
            TransactionLogKey(transactional_id="billing-0"),
            TransactionLogValue(
                producer_id=1_000,
                producer_epoch=12,
                transaction_timeout_ms=60_000,
                transaction_status=1,
                transaction_partitions=(TransactionLogValue.PartitionsSchema(topic="bills", partition_ids=(0, 1, 2)),),
                transaction_last_update_timestamp_ms=1_732_240_000_000,
                transaction_start_timestamp_ms=1_732_240_000_000,
                client_transaction_version=2,
            ),
            1,
        ),
    ),
}


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


def records(rounds: int) -> tuple[Row, ...]:
    """Read records, key and value, as an audit of the internal topics does."""
    contestants = {}
    for what, (log, record) in RECORDS.items():
        key, value = log.encode(record)
        contestants[what] = loop(f"x({key!r}, {value!r})", log.decode, repeat=10)
    took = take_turns("records", rounds, contestants, "us", 1e-3)
    rates = (
        Sample(what, "records/s", tuple(1e6 / each_took for each_took in took[what].values)) for what in contestants
    )
    return tuple(each(None, f"decode {rate.name}", rate) for rate in rates)


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
            *records(rounds),
        ),
        notes=(f"The response is {len(body)} bytes, recorded from {origin}. kio decodes in Rust; we are pure Python.",),
    )
