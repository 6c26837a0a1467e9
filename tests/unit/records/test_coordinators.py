"""What coordinators of each release read, and what an older one loses (KIP-915)."""

import pytest
from hypothesis import given
from record_strategies import LOGS, records

from featuregate.records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecord,
    CoordinatorTopic,
    Value,
    tagged_fields,
)
from featuregate.records.releases import CoordinatorRelease, Loss, coordinator_release, coordinator_releases
from featuregate.records.schemas import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)

TOPIC_ID = "AQIDBAUGBwgJCgsMDQ7-_w"
OFFSET = OffsetCommitValue(offset=7, metadata="", commit_timestamp=9, topic_id=TOPIC_ID)
PRODUCER = TransactionLogValue(
    producer_id=1000,
    producer_epoch=2,
    transaction_timeout_ms=60_000,
    transaction_status=0,
    transaction_partitions=None,
    transaction_last_update_timestamp_ms=9,
    transaction_start_timestamp_ms=8,
    previous_producer_id=999,
    client_transaction_version=2,
    unknown_tags={77: b""},
)


def loss(reader: CoordinatorRelease, log: CoordinatorTopic, record: CoordinatorRecord) -> Loss | None:
    tagged = tagged_fields(record.value) if isinstance(record.value, Value) else ()
    return reader.loss(log.topic, record.record_type, record.version, tagged)


@pytest.mark.parametrize(
    ("release", "consumer_protocol", "row", "kip_915"),
    [
        ("0.10.0.1", None, "0.10.0", False),
        ("0.10.2.2", None, "0.10.1", False),
        ("2.0.1", None, "0.11.0", False),
        ("2.8.2", None, "2.3", False),
        ("3.3.2", None, "2.3", False),
        ("3.4", None, "2.3", False),
        ("3.4.0", None, "2.3", False),
        ("3.4.1", None, "3.4.1", True),
        ("3.5.0", None, "3.4.1", True),
        ("3.9.2", None, "3.4.1", True),
        ("3.9.2", True, "3.9", True),
        ("4.0.0", None, "4.0", True),
        ("4.3.1", None, "4.3", True),
        ("9.9", None, "4.4", True),
    ],
)
def test_a_release_reads_as_the_newest_row_before_it(
    *, release: str, consumer_protocol: bool | None, row: str, kip_915: bool
) -> None:
    """KIP-915 is in 3.4.1 and in 3.5.0, and in no release before."""
    found = coordinator_release(release, consumer_protocol=consumer_protocol)
    assert (found.release, found.skips_unknown_types) == (row, kip_915)
    assert "of" in found.read_from


@pytest.mark.parametrize(
    ("release", "consumer_protocol"), [("0.9.0", None), ("3.7.2", True), ("2.8.2", True), ("4.0.0", False)]
)
def test_a_coordinator_that_a_release_does_not_have_is_refused(*, release: str, consumer_protocol: bool | None) -> None:
    """The consumer protocol of releases before 3.8 was an early access, with another schema."""
    with pytest.raises(LookupError, match=rf"^Kafka {release} has no known coordinator"):
        coordinator_release(release, consumer_protocol=consumer_protocol)


@pytest.mark.parametrize("log", LOGS, ids=repr)
def test_the_newest_coordinators_read_what_this_package_reads(log: CoordinatorTopic) -> None:
    """The same types, versions and tagged fields; but they read only the first version of legacy offsets."""
    newest = coordinator_releases()[-1].reads[log.topic]
    assert {number: reading.versions for number, reading in newest.items()} == {
        number: (0, 0) if key.__name__ == "LegacyOffsetCommitKey" else value.VERSIONS
        for number, (key, value) in log.records.items()
    }
    assert not any(reading.early_access for reading in newest.values())


@given(drawn=records)
def test_the_newest_coordinators_lose_only_unknown_fields(drawn: tuple[CoordinatorTopic, CoordinatorRecord]) -> None:
    """Every tagged field of ours is in the table, under the name that `tagged_fields` gives it."""
    log, record = drawn
    lost = loss(coordinator_releases()[-1], log, record)
    if record.record_type == 0 and log is CONSUMER_OFFSETS and record.version:
        assert lost == Loss(kind="stops", why=f"value version {record.version} is not one of 0 to 0")
    elif lost is not None:
        assert lost.kind == "ignores"
        assert all("tag " in name for name in lost.fields)


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("3.4.0", Loss(kind="stops", why="value version 4 is not one of 0 to 3")),
        ("3.9.2", Loss(kind="ignores", why="tagged fields are unknown: topic_id", fields=("topic_id",))),
        ("4.0.1", Loss(kind="ignores", why="tagged fields are unknown: topic_id", fields=("topic_id",))),
        ("4.1.0", None),
    ],
)
def test_an_offset_with_a_topic_id(release: str, expected: Loss | None) -> None:
    """Brokers from 4.1 on write it."""
    record = CoordinatorRecord(OffsetCommitKey(group="g", topic="t", partition=0), OFFSET, 4)
    assert loss(coordinator_release(release), CONSUMER_OFFSETS, record) == expected


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("3.4.0", Loss(kind="stops", why="value version 1 is not one of 0 to 0")),
        (
            "3.9.2",
            Loss(
                kind="ignores",
                why="tagged fields are unknown: previous_producer_id, client_transaction_version, tag 77",
                fields=("previous_producer_id", "client_transaction_version", "tag 77"),
            ),
        ),
        ("4.0.0", Loss(kind="ignores", why="tagged fields are unknown: tag 77", fields=("tag 77",))),
    ],
)
def test_a_transaction_of_kip_890(release: str, expected: Loss | None) -> None:
    """Brokers write it while transaction.version is 1 or more."""
    record = CoordinatorRecord(TransactionLogKey(transactional_id="x"), PRODUCER, 1)
    assert loss(coordinator_release(release), TRANSACTION_STATE, record) == expected


def test_a_type_that_a_coordinator_does_not_know_is_skipped_since_kip_915() -> None:
    """Before, nothing behind it was loaded; and a tombstone that is skipped is no loss."""
    key = ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="t.*")
    record = CoordinatorRecord(key, ConsumerGroupRegularExpressionValue(topics=("t",), version=1, timestamp=2), 0)
    assert loss(coordinator_release("3.3.2"), CONSUMER_OFFSETS, record) == Loss(
        kind="stops", why="record type 16 is unknown"
    )
    assert loss(coordinator_release("3.9.2"), CONSUMER_OFFSETS, record) == Loss(
        kind="skips", why="record type 16 is unknown"
    )
    assert loss(coordinator_release("4.0.0"), CONSUMER_OFFSETS, record) is None
    tombstone = CoordinatorRecord(key, None)
    assert loss(coordinator_release("3.3.2"), CONSUMER_OFFSETS, tombstone) == Loss(
        kind="stops", why="record type 16 is unknown"
    )
    assert loss(coordinator_release("3.9.2"), CONSUMER_OFFSETS, tombstone) is None
    assert loss(coordinator_release("4.0.0"), CONSUMER_OFFSETS, tombstone) is None


@pytest.mark.parametrize(
    ("release", "consumer_protocol", "log", "kind"),
    [
        ("3.9.2", False, CONSUMER_OFFSETS, "stops"),
        ("3.9.2", True, CONSUMER_OFFSETS, "misreads"),
        ("3.9.2", True, TRANSACTION_STATE, "stops"),
        ("4.2.0", True, CONSUMER_OFFSETS, "stops"),
        ("4.2.0", True, SHARE_GROUP_STATE, "stops"),
        ("4.2.0", True, TRANSACTION_STATE, "stops"),
        ("4.3.1", True, TRANSACTION_STATE, "skips"),
        ("4.3.1", True, CONSUMER_OFFSETS, "stops"),
    ],
)
def test_a_newer_version_of_a_value_is_skipped_by_the_newest_coordinators_of_transactions_alone(
    *, release: str, consumer_protocol: bool, log: CoordinatorTopic, kind: str
) -> None:
    """KIP-915 has nothing for it, the preview of KIP-848 did not notice, and 4.3 warns and goes on."""
    lost = coordinator_release(release, consumer_protocol=consumer_protocol).loss(log.topic, min(log.records), 9)
    assert lost is not None
    assert (lost.kind, lost.why[:29]) == (kind, "value version 9 is not one of")


def test_the_schema_of_an_early_access_is_another_one() -> None:
    """4.0 wrote share groups under the numbers and versions of 4.1, with other fields."""
    assert coordinator_release("4.0.0").loss(CONSUMER_OFFSETS.topic, 11, 0) == Loss(
        kind="misreads", why="record type 11 had another schema in 4.0"
    )
    assert coordinator_release("4.1.0").loss(CONSUMER_OFFSETS.topic, 11, 0) is None


def test_a_topic_that_a_release_does_not_have_has_only_unknown_types() -> None:
    """Share coordinators came with 4.0, transactions with 0.11."""
    assert coordinator_release("3.9.2").loss(SHARE_GROUP_STATE.topic, 0, 0) == Loss(
        kind="skips", why="record type 0 is unknown"
    )
    assert coordinator_release("0.10.1").loss(TRANSACTION_STATE.topic, 0, 0) is not None
