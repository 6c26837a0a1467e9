"""What an older coordinator does not read of a newer one's records, in the cases of KIP-915."""

from itertools import cycle

import pytest

from featuregate.errors import RemoteWireError
from featuregate.records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecord,
    CoordinatorTopic,
)
from featuregate.records.losses import find_losses
from featuregate.records.schemas import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)

TARGET = ConsumerGroupTargetAssignmentMetadataKey(group_id="g")
GROUP = CONSUMER_OFFSETS.encode(
    CoordinatorRecord(
        GroupMetadataKey(group="g"),
        GroupMetadataValue(
            protocol_type="consumer", generation=3, protocol="range", leader="m", current_state_timestamp=8, members=()
        ),
        3,
    )
)
OFFSET = OffsetCommitValue(offset=7, leader_epoch=5, metadata="", commit_timestamp=9, topic_id="AQIDBAUGBwgJCgsMDQ7-_w")
LOG = [
    GROUP,
    CONSUMER_OFFSETS.encode(
        CoordinatorRecord(
            ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=4, metadata_hash=77), 0
        )
    ),
    CONSUMER_OFFSETS.encode(CoordinatorRecord(OffsetCommitKey(group="g", topic="t", partition=0), OFFSET, 4)),
    CONSUMER_OFFSETS.encode(
        CoordinatorRecord(TARGET, ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4), 0)
    ),
    CONSUMER_OFFSETS.encode(CoordinatorRecord(TARGET, None)),
]


@pytest.mark.parametrize(
    ("release", "losses"),
    [
        ("3.4.0", [(1, "stops", ()), (2, "stops", ()), (3, "stops", ()), (4, "stops", ())]),
        ("3.9.2", [(1, "skips", ()), (2, "ignores", ("topic_id",)), (3, "skips", ())]),
        ("4.0.1", [(1, "ignores", ("metadata_hash",)), (2, "ignores", ("topic_id",))]),
        ("4.1.0", []),
    ],
)
def test_each_record_that_a_release_does_not_read_whole_is_named(
    release: str, losses: list[tuple[int, str, tuple[str, ...]]]
) -> None:
    """Before KIP-915 (3.4.1) the first unknown record ends the reading; the records after it are lost, too."""
    found = [(lost.position, lost.loss.kind, lost.loss.fields) for lost in find_losses(LOG, CONSUMER_OFFSETS, release)]
    assert found == losses


def test_a_log_of_any_length_is_read_as_it_comes() -> None:
    """A topic may be larger than memory."""
    assert next(find_losses(cycle(LOG), CONSUMER_OFFSETS, "3.9.2")).position == 1


def test_a_transaction_in_a_flexible_version_stops_the_coordinators_before_kip_915() -> None:
    """The next transactional id of the partition is lost with it."""
    value = TransactionLogValue(
        producer_id=1000,
        producer_epoch=2,
        transaction_timeout_ms=60_000,
        transaction_status=0,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=9,
        transaction_start_timestamp_ms=8,
        next_producer_id=1001,
    )
    record = TRANSACTION_STATE.encode(CoordinatorRecord(TransactionLogKey(transactional_id="x"), value, 1))
    (lost,) = find_losses([record], TRANSACTION_STATE, "3.4.0")
    assert (lost.loss.kind, lost.record.key) == ("stops", TransactionLogKey(transactional_id="x"))
    (lost,) = find_losses([record], TRANSACTION_STATE, "3.9.2")
    assert (lost.loss.kind, lost.loss.fields) == ("ignores", ("next_producer_id",))


@pytest.mark.parametrize(("release", "topic"), [("3.9.2", SHARE_GROUP_STATE), ("0.10.2", TRANSACTION_STATE)])
def test_a_release_without_such_a_coordinator_is_refused(release: str, topic: CoordinatorTopic) -> None:
    """Share coordinators came with 4.0, transaction coordinators with 0.11."""
    with pytest.raises(LookupError, match=rf"Kafka {release} has no coordinator that keeps {topic.topic}"):
        find_losses([], topic, release)


def test_the_coordinator_of_kip_848_reads_its_preview() -> None:
    """In 3.9 a broker has two group coordinators; which one runs decides what is lost."""
    assert [lost.loss.kind for lost in find_losses(LOG[:2], CONSUMER_OFFSETS, "3.9.2")] == ["skips"]
    lost = list(find_losses(LOG[:2], CONSUMER_OFFSETS, "3.9.2", consumer_protocol=True))
    assert [each.loss.kind for each in lost] == ["ignores"]


def test_bytes_that_are_no_record_are_found_by_their_place() -> None:
    """The error names the position of the record."""
    with pytest.raises(RemoteWireError) as caught:
        list(find_losses([GROUP, (b"\0", None)], CONSUMER_OFFSETS, "4.2.0"))
    assert caught.value.__notes__ == ["in record 1, counted from 0"]
