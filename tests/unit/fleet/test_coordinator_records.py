"""Records of coordinators become rows: what a row says, and what becomes of unknown bytes."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from featuregate.records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecord,
    CoordinatorTopic,
)
from featuregate.records.schemas import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)
from featuregate_fleet.evidence import topic_records
from featuregate_fleet.evidence.columns import ROWS
from featuregate_fleet.evidence.topic_records import RECORDS, decode_batches

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
OFFSET = OffsetCommitKey(group="payments", topic="orders", partition=3)


def rows_of(log: CoordinatorTopic, *records: tuple[bytes | None, bytes | None]) -> list[dict[str, Any]]:
    return decoded([batch_of(log, enumerate(records))])


def batch_of(
    log: CoordinatorTopic, records: Iterable[tuple[int, tuple[bytes | None, bytes | None]]], schema: pa.Schema = RECORDS
) -> pa.RecordBatch:
    rows = [(log.topic, 0, offset, NOW, key, value) for offset, (key, value) in records]
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def decoded(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    found = list(decode_batches(batches))
    assert all(batch.schema == ROWS for batch in found)
    return [row for batch in found for row in batch.column("record").to_pylist()]


def commit(offset: int, metadata: str = "", version: int = 4) -> tuple[bytes, bytes | None]:
    value = OffsetCommitValue(offset=offset, metadata=metadata, commit_timestamp=1)
    return CONSUMER_OFFSETS.encode(CoordinatorRecord(OFFSET, value, version))


def test_the_last_record_of_a_key_is_the_row():
    """As compaction has it; a tombstone and another version are rows of their own."""
    rows = rows_of(CONSUMER_OFFSETS, commit(1, version=3), commit(2), commit(3, "fg1;model=v2|x"), (commit(1)[0], None))
    assert [(row["version"], row["offset"], row["count"], row["model"], row["tombstone"]) for row in rows] == [
        (3, 0, 1, None, False),
        (4, 2, 2, "v2", False),
        (None, 3, 1, None, True),
    ]
    assert {(row["kind"], row["group"], row["reason"]) for row in rows} == {("OffsetCommit", "payments", None)}


def test_members_of_classic_and_consumer_groups():
    """With their client ids and the model that a tag promises."""
    member = GroupMetadataValue.MemberMetadata(
        member_id="m", client_id="app#fg=bridge", client_host="/h", session_timeout=1, subscription=b"", assignment=b""
    )
    classic = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol="range", leader="m", members=(member,)
    )
    modern = ConsumerGroupMemberMetadataValue(
        instance_id="static#fg=v2",
        rack_id=None,
        client_id="app",
        client_host="/h",
        subscribed_topic_names=(),
        subscribed_topic_regex=None,
        server_assignor=None,
    )
    keys = GroupMetadataKey(group="old"), ConsumerGroupMemberMetadataKey(group_id="new", member_id="n")
    encoded = (
        CONSUMER_OFFSETS.encode(CoordinatorRecord(keys[0], classic, 3)),
        CONSUMER_OFFSETS.encode(CoordinatorRecord(keys[1], modern, 0)),
    )
    rows = rows_of(CONSUMER_OFFSETS, *encoded)
    assert [(row["group"], row["protocol"]) for row in rows] == [("old", "classic"), ("new", "consumer")]
    assert [[(of["member_id"], of["client_id"], of["model"]) for of in row["members"]] for row in rows] == [
        [("m", "app#fg=bridge", "bridge")],
        [("n", "app", "v2")],
    ]


@pytest.mark.parametrize(("status", "state"), [(4, "CompleteCommit"), (1, "Ongoing"), (99, "99")])
def test_the_state_of_a_transaction(status: int, state: str):
    """By Kafka's name, as a number where it has none."""
    value = TransactionLogValue(
        producer_id=1,
        producer_epoch=0,
        transaction_timeout_ms=1,
        transaction_status=status,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=1,
        transaction_start_timestamp_ms=1,
        next_producer_id=7,
    )
    record = CoordinatorRecord(TransactionLogKey(transactional_id="app"), value, 1)
    (row,) = rows_of(TRANSACTION_STATE, TRANSACTION_STATE.encode(record))
    assert (row["transactional_id"], row["state"], row["tagged_fields"]) == ("app", state, ["next_producer_id"])


@pytest.mark.parametrize(
    ("key", "value", "reason", "group", "numbers"),
    [
        (b"\x00\x63newer", b"\x00\x00", "unknown-type", None, (99, 0)),
        (commit(1)[0], b"\x00\x63newer", "unknown-version", "payments", (1, 99)),
        (commit(1)[0], b"\x00\x04", "unreadable", "payments", (1, 4)),
        (commit(1)[0], b"", "unreadable", "payments", (1, None)),
        (commit(1)[0][:7], b"\x00\x04", "unreadable", None, (1, 4)),
        (b"\x00", None, "unreadable", None, (None, None)),
        (None, b"\x00", "unreadable", None, (None, None)),
        (b"\xff\xff", None, "unknown-type", None, (-1, None)),
    ],
)
def test_an_unknown_record_is_a_row(
    key: bytes | None, value: bytes | None, reason: str, group: str | None, numbers: tuple[int | None, int | None]
):
    """The row has a reason, its numbers, the kind that its type has, and the group where the key says it."""
    (row,) = rows_of(CONSUMER_OFFSETS, (key, value))
    assert (row["reason"], row["group"], (row["record_type"], row["version"])) == (reason, group, numbers)
    assert row["kind"] == ("OffsetCommit" if numbers[0] == 1 else None)


def test_a_session_may_be_in_another_time_zone():
    """Spark hands timestamps over in the zone of its session."""
    at = RECORDS.get_field_index("timestamp")
    schema = RECORDS.set(at, pa.field("timestamp", pa.timestamp("us", tz="Europe/Berlin")))
    (found,) = decoded([batch_of(CONSUMER_OFFSETS, [(7, commit(1))], schema)])
    assert (found["at"], found["offset"], found["count"]) == (NOW, 7, 1)


def test_a_key_in_many_batches_has_its_last_record(monkeypatch: pytest.MonkeyPatch):
    """Rows may be held back, and joined any number of times: the memory of a task is bounded."""
    monkeypatch.setattr(topic_records, "_MOST", 5)
    log, keys = CONSUMER_OFFSETS, [OffsetCommitKey(group="payments", topic="orders", partition=n) for n in range(3)]
    batches = []
    for offset in range(40):
        value = OffsetCommitValue(offset=offset, metadata="fg1;model=v2" if offset >= 37 else "", commit_timestamp=1)
        batches.append(batch_of(log, [(offset, log.encode(CoordinatorRecord(keys[offset % 3], value, 4)))]))
    rows = decoded(batches)
    assert sum(row["count"] for row in rows) == 40
    last = {row["key"]: row for row in rows}  # a later row of a key has the later record
    assert sorted(row["offset"] for row in last.values()) == [37, 38, 39]
    assert {row["model"] for row in last.values()} == {"v2"}


@pytest.mark.parametrize(
    ("log", "number", "kind"),
    [
        (SHARE_GROUP_STATE, 1, "ShareUpdate"),
        (TRANSACTION_STATE, 0, "TransactionLog"),
        (CONSUMER_OFFSETS, 5, "ConsumerGroupMemberMetadata"),
    ],
)
def test_each_topic_of_coordinators_has_kinds(log: CoordinatorTopic, number: int, kind: str):
    """The kinds have the names of Kafka's schemas."""
    (row,) = rows_of(log, (number.to_bytes(2, "big"), None))
    assert (row["record_type"], row["kind"]) == (number, kind)


def test_properties_are_those_of_java():
    """Spark's spelling has a prefix, and other options beside it."""
    pytest.importorskip("pyspark")
    from featuregate_fleet.runs.internal_topics import TopicEnds, java_properties  # noqa: PLC0415 - see above

    assert java_properties({"kafka.bootstrap.servers": "b:1", "subscribe": "t"}) == {"bootstrap.servers": "b:1"}
    assert java_properties({"bootstrap.servers": "b:1"}) == {"bootstrap.servers": "b:1"}
    assert TopicEnds("t", {0: (2, 5), 1: (0, 0)}).offsets == 3
