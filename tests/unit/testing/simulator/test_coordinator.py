"""What an older coordinator reads of a newer one's records, in the cases of KIP-915."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from record_strategies import KINDS, LOGS, records

from featuregate.errors import RemoteWireError
from featuregate.records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecord,
    CoordinatorTopic,
    Value,
    keep_tagged_fields,
    tagged_fields,
)
from featuregate.records.classic_groups import GroupMetadataKey, GroupMetadataValue
from featuregate.records.consumer_groups import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from featuregate.records.offsets import OffsetCommitKey, OffsetCommitValue
from featuregate.records.releases import coordinator_releases
from featuregate.records.share_groups import ShareGroupMetadataKey, ShareGroupMetadataValue
from featuregate.records.transactions import TransactionLogKey, TransactionLogValue
from featuregate.testing.simulator import LoadResult, LogRecord, ScriptError, SimulatedCoordinator, compact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from featuregate.records import Key

TOPIC_ID = "AQIDBAUGBwgJCgsMDQ7-_w"
ALL_ON = {"group.version": 1, "share.version": 1, "streams.version": 1, "transaction.version": 2}
NEWEST = coordinator_releases()[-1].release

GROUP = GroupMetadataKey(group="g")
GENERATION = GroupMetadataValue(
    protocol_type="consumer", generation=3, protocol="range", leader="m", current_state_timestamp=8, members=()
)
COMMIT = OffsetCommitKey(group="g", topic="t", partition=0)
OFFSET = OffsetCommitValue(offset=7, leader_epoch=5, metadata="", commit_timestamp=9)
OFFSET_WITH_ID = OffsetCommitValue(offset=7, leader_epoch=5, metadata="", commit_timestamp=9, topic_id=TOPIC_ID)
OTHER_COMMIT = OffsetCommitKey(group="g", topic="t", partition=1)
PATTERN = ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="t.*")
TOPICS = ConsumerGroupRegularExpressionValue(topics=("t",), version=1, timestamp=2)
PRODUCER = TransactionLogKey(transactional_id="x")
OTHER_PRODUCER = TransactionLogKey(transactional_id="y")


def transaction(**says: int) -> TransactionLogValue:
    """Return the state of a producer."""
    return TransactionLogValue(
        producer_id=1000,
        producer_epoch=2,
        transaction_timeout_ms=60_000,
        transaction_status=0,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=9,
        transaction_start_timestamp_ms=8,
        **says,
    )


def newest(log: CoordinatorTopic = CONSUMER_OFFSETS) -> SimulatedCoordinator:
    """Return the newest coordinator, with all features on."""
    return SimulatedCoordinator(NEWEST, log.topic, ALL_ON)


def version(record: LogRecord) -> int:
    """Return the version at the beginning of a value."""
    _, value = record
    assert value is not None
    return int.from_bytes(value[:2])


def kinds(loaded: LoadResult) -> list[tuple[int, str]]:
    """Return the positions and kinds of the losses."""
    return [(lost.position, lost.loss.kind) for lost in loaded.losses]


# ---------------------------------------------------------------- motivation: there was no way back


def test_before_kip_915_an_unknown_record_type_ends_a_group_coordinators_load() -> None:
    """The coordinator then serves the partition as if it were empty, although it had read a record."""
    by = newest()
    log = [by.write(GROUP, GENERATION), by.write(PATTERN, TOPICS), by.write(OTHER_COMMIT, OFFSET)]
    loaded = SimulatedCoordinator("3.4.0").load(log)
    assert loaded.stopped is not None
    assert (loaded.stopped.position, loaded.stopped.record.key) == (1, PATTERN)
    assert loaded.stopped.loss.why == "record type 16 is unknown"
    assert (loaded.state, loaded.available) == ({}, True)


def test_before_kip_915_a_newer_version_of_a_known_record_ends_the_load() -> None:
    """Brokers write OffsetCommitValue 4 from 4.1, even without its new field."""
    loaded = SimulatedCoordinator("3.4.0").load([SimulatedCoordinator("4.1").write(COMMIT, OFFSET)])
    assert loaded.stopped is not None
    assert loaded.stopped.loss.why == "value version 4 is not one of 0 to 3"


def test_before_kip_915_a_transaction_coordinator_keeps_what_it_had_read() -> None:
    """The coordinator does not know the records after the one at which it stopped."""
    old, new = SimulatedCoordinator("3.4.0", TRANSACTION_STATE.topic), newest(TRANSACTION_STATE)
    said = transaction()
    log = [old.write(OTHER_PRODUCER, said), new.write(PRODUCER, said), old.write(OTHER_PRODUCER)]
    loaded = old.load(log)
    assert (loaded.state, loaded.available, kinds(loaded)) == ({OTHER_PRODUCER: said}, True, [(1, "stops")])


def test_even_a_tombstone_of_an_unknown_type_ends_the_load_before_kip_915_until_it_is_compacted_away() -> None:
    """The coordinator reads the type first."""
    by = newest()
    log = [by.write(GROUP, GENERATION), by.write(PATTERN)]
    assert SimulatedCoordinator("3.4.0").load(log).stopped is not None
    assert SimulatedCoordinator("3.4.0").load(compact(log)) == LoadResult({GROUP: GENERATION})


# ---------------------------------------------------------------- proposed changes


@pytest.mark.parametrize("release", ["3.4.1", "3.5.0", "3.9.2"])
def test_unknown_record_types_are_skipped_and_the_rest_of_the_partition_is_loaded(release: str) -> None:
    """Coordinators skip them from 3.5 on, and in the backport."""
    by = newest()
    loaded = SimulatedCoordinator(release).load([by.write(PATTERN, TOPICS), by.write(GROUP, GENERATION)])
    assert (loaded.state, kinds(loaded), loaded.stopped) == ({GROUP: GENERATION}, [(0, "skips")], None)


def test_skipped_records_stay_in_the_log_until_the_coordinators_are_upgraded_again() -> None:
    """KIP-915: a coordinator cannot write tombstones for unknown keys."""
    by, older = newest(), SimulatedCoordinator("3.9.2")
    log = [by.write(PATTERN, TOPICS), by.write(GROUP, GENERATION)]
    with pytest.raises(ScriptError, match="writes no ConsumerGroupRegularExpressionKey"):
        older.write(PATTERN)
    assert by.load(older.rewrite(log)).state == {PATTERN: TOPICS, GROUP: GENERATION}


@pytest.mark.parametrize(
    ("key", "value", "log"),
    [
        (GROUP, GENERATION, CONSUMER_OFFSETS),
        (COMMIT, OFFSET, CONSUMER_OFFSETS),
        (PRODUCER, transaction(), TRANSACTION_STATE),
    ],
)
def test_each_of_the_three_bumped_values_is_read_flexible_and_written_as_before(
    key: Key, value: Value, log: CoordinatorTopic
) -> None:
    """KIP-915 reads the flexible version, and writes the highest that is not, for a later rollback."""
    flexible = type(value).FLEXIBLE_FROM
    bumped = log.encode(CoordinatorRecord(key, value, flexible))
    before, since = SimulatedCoordinator("3.4.0", log.topic), SimulatedCoordinator("3.5.0", log.topic)
    assert before.load([bumped]).stopped is not None
    assert since.load([bumped]) == LoadResult({key: value})
    assert version(since.write(key, value)) == flexible - 1
    assert before.load([since.write(key, value)]) == LoadResult({key: value})


def test_a_compatible_change_is_a_tagged_field_that_the_older_coordinator_ignores() -> None:
    """The topic id of KIP-848 is tagged because of KIP-915."""
    loaded = SimulatedCoordinator("4.0.1").load([newest().write(COMMIT, OFFSET_WITH_ID)])
    assert (loaded.state, kinds(loaded)) == ({COMMIT: OFFSET}, [(0, "ignores")])
    assert loaded.losses[0].loss.fields == ("topic_id",)
    assert loaded.losses[0].record.value == OFFSET_WITH_ID


def test_an_ignored_field_is_lost_for_good_once_the_older_coordinator_writes_its_record_again() -> None:
    """Until then the field is in the log, and a newer coordinator finds it."""
    by, older = newest(), SimulatedCoordinator("4.0.1")
    log = [by.write(COMMIT, OFFSET_WITH_ID)]
    assert by.load(log).state == {COMMIT: OFFSET_WITH_ID}
    assert by.load(older.rewrite(log)).state == {COMMIT: OFFSET}
    assert older.permanent_losses(log) == {COMMIT: ("topic_id",)}
    assert by.permanent_losses(log) == {}


def test_what_a_newer_record_has_replaced_is_not_lost_for_good() -> None:
    """An older coordinator ignores the field in each record, but only the last record counts."""
    by, older = newest(), SimulatedCoordinator("4.0.1")
    log = [by.write(COMMIT, OFFSET_WITH_ID), by.write(COMMIT, OFFSET)]
    assert kinds(older.load(log)) == [(0, "ignores")]
    assert older.permanent_losses(log) == {}


def test_an_incompatible_change_needs_the_two_steps_of_the_kip() -> None:
    """(a) knows no tagged fields, (b) ignores them, (c) writes them; a rollback from (c) must end at (b)."""
    a, b, c = (
        SimulatedCoordinator(release, TRANSACTION_STATE.topic, ALL_ON) for release in ("3.4.0", "3.4.1", "4.2.0")
    )
    log = [c.write(PRODUCER, transaction(client_transaction_version=2))]
    assert a.load(log).stopped is not None
    assert b.load(log).state == {PRODUCER: transaction()}
    assert b.permanent_losses(log) == {PRODUCER: ("client_transaction_version",)}
    assert a.load(b.rewrite(log)) == LoadResult({PRODUCER: transaction()})


def test_a_field_that_is_not_tagged_needs_a_new_version_which_even_tolerant_coordinators_refuse() -> None:
    """KIP-915 does not cover this; the coordinator of KIP-848 does not serve the partition."""
    key, _ = newest().write(COMMIT, OFFSET)
    log = [newest().write(GROUP, GENERATION), (key, b"\0\5what is newer")]
    loaded = newest().load(log)
    assert (loaded.state, loaded.available, kinds(loaded)) == ({}, False, [(1, "stops")])
    assert newest().rewrite(log) == tuple(log)
    assert newest().permanent_losses(log) == {}


def test_transaction_coordinators_from_4_3_on_skip_a_newer_version_and_go_by_what_was_said_before() -> None:
    """Share coordinators of 4.2 stop."""
    said = newest(TRANSACTION_STATE).write(PRODUCER, transaction())
    log = [said, (said[0], b"\0\2what is newer")]
    assert kinds(SimulatedCoordinator("4.2.0", TRANSACTION_STATE.topic).load(log)) == [(1, "stops")]
    loaded = newest(TRANSACTION_STATE).load(log)
    assert (loaded.state, kinds(loaded)) == ({PRODUCER: transaction()}, [(1, "skips")])
    assert newest(TRANSACTION_STATE).permanent_losses(log) == {PRODUCER: ()}
    assert newest(TRANSACTION_STATE).permanent_losses(log[1:]) == {}


def test_misread_bytes_are_in_no_state() -> None:
    """The preview in 3.9 ignores the version; the simulation leaves misread values out."""
    preview = SimulatedCoordinator("3.9.2", levels=ALL_ON, consumer_protocol=True)
    said = preview.write(COMMIT, OFFSET)
    log = [said, (said[0], b"\0\5what is newer"), preview.write(GROUP, GENERATION)]
    loaded = preview.load(log)
    assert (loaded.state, kinds(loaded)) == ({GROUP: GENERATION}, [(1, "misreads")])


# ---------------------------------------------------------------- what coordinators write


@pytest.mark.parametrize(
    ("release", "offset", "group"),
    [("2.0.1", 1, 1), ("2.8.2", 3, 3), ("3.9.2", 3, 3), ("4.0.1", 3, 3), ("4.2.0", 4, 3)],
)
def test_versions_by_release(release: str, offset: int, group: int) -> None:
    """The versions are those of GroupMetadataManager and GroupCoordinatorRecordHelpers."""
    writes = SimulatedCoordinator(release).writes
    assert writes == {1: offset, 2: group}


def test_an_expiry_is_written_in_the_only_version_that_can_say_it() -> None:
    """Only commits of old clients have an expiry time."""
    said = OffsetCommitValue(offset=7, metadata="", commit_timestamp=9, expire_timestamp=99)
    record = newest().write(COMMIT, said)
    assert version(record) == 1
    assert newest().load([record]).state == {COMMIT: said}


def test_a_level_decides_what_is_written_and_not_what_is_read() -> None:
    """transaction.version 1 enables the flexible version; without it, tagged fields are not written."""
    off, on = (
        SimulatedCoordinator("4.2.0", TRANSACTION_STATE.topic, {"transaction.version": level}) for level in (0, 1)
    )
    said = transaction(previous_producer_id=999)
    assert [version(by.write(PRODUCER, said)) for by in (off, on)] == [0, 1]
    assert off.load([on.write(PRODUCER, said)]).state == {PRODUCER: said}
    assert off.permanent_losses([on.write(PRODUCER, said)]) == {PRODUCER: ("previous_producer_id",)}


@pytest.mark.parametrize(
    ("feature", "types"),
    [
        ("group.version", {3, 5, 6, 7, 8, 16}),
        ("share.version", {10, 11, 12, 13, 14, 15}),
        ("streams.version", {17, 19, 20, 21, 22, 23}),
    ],
)
def test_new_kinds_of_groups_are_written_while_their_feature_is_on(feature: str, types: set[int]) -> None:
    """The features are those of KIP-848, KIP-932 and KIP-1071."""
    assert set(SimulatedCoordinator("4.2.0", levels={feature: 1}).writes) == types | {1, 2}
    assert set(SimulatedCoordinator("4.2.0", SHARE_GROUP_STATE.topic, {feature: 1}).writes) == (
        {0, 1} if feature == "share.version" else set()
    )


def test_the_metadata_of_topics_is_written_up_to_4_0_and_deleted_after_it() -> None:
    """From 4.1 on a hash replaces the metadata."""
    key = ConsumerGroupPartitionMetadataKey(group_id="g")
    value = ConsumerGroupPartitionMetadataValue(topics=())
    older, newer = (SimulatedCoordinator(release, levels=ALL_ON) for release in ("4.0.1", "4.1.0"))
    log = [older.write(key, value)]
    with pytest.raises(ScriptError, match="writes no ConsumerGroupPartitionMetadataKey"):
        newer.write(key, value)
    assert newer.load([*log, newer.write(key)]) == LoadResult({})
    assert newer.rewrite(log) == tuple(log)


def test_a_layout_of_an_early_access_is_not_written() -> None:
    """In 4.0, share groups had other records with the same numbers."""
    early = SimulatedCoordinator("4.0.1", levels=ALL_ON)
    assert not {9, 11, 15} & set(early.writes)
    with pytest.raises(ScriptError, match="writes no ShareGroupMetadataKey"):
        early.write(ShareGroupMetadataKey(group_id="g"), ShareGroupMetadataValue(epoch=1, metadata_hash=2))


def test_a_layout_of_an_early_access_is_not_read() -> None:
    """A coordinator of 4.0 reads a share group of 4.1 in another layout, even if the bytes fit."""
    key, value = ShareGroupMetadataKey(group_id="g"), ShareGroupMetadataValue(epoch=1, metadata_hash=2)
    log = [SimulatedCoordinator("4.1.0", levels=ALL_ON).write(key, value)]
    loaded = SimulatedCoordinator("4.0.1", levels=ALL_ON).load(log)
    assert (loaded.state, kinds(loaded)) == ({}, [(0, "misreads")])


@pytest.mark.parametrize(("release", "log"), [("3.9.2", SHARE_GROUP_STATE), ("0.10.2", TRANSACTION_STATE)])
def test_a_release_without_such_a_coordinator_is_refused(release: str, log: CoordinatorTopic) -> None:
    """Share coordinators came with 4.0, transaction coordinators with 0.11."""
    with pytest.raises(LookupError, match=rf"Kafka {release} has no coordinator that keeps {log.topic}"):
        SimulatedCoordinator(release, log.topic)


def test_a_coordinator_is_a_value_that_prints_as_code() -> None:
    """Evaluating the repr gives an equal coordinator."""
    by = SimulatedCoordinator("3.9.2", levels={"group.version": 1}, consumer_protocol=True)
    assert repr(by) == "SimulatedCoordinator('3.9.2', levels={'group.version': 1}, consumer_protocol=True)"
    assert eval(repr(by)) == by
    assert pickle.loads(pickle.dumps(by)) == by


# ---------------------------------------------------------------- the operator's question


def test_records_that_are_not_understood_are_given_one_by_one_as_they_are_read() -> None:
    """A topic may have any length, and records may follow one that stops the coordinator."""
    by = newest()
    epoch = ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=4, metadata_hash=77)
    target = ConsumerGroupTargetAssignmentMetadataKey(group_id="g")
    log = [
        by.write(GROUP, GENERATION),
        by.write(*epoch),
        by.write(COMMIT, OFFSET_WITH_ID),
        by.write(target, ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4)),
        by.write(target),
    ]
    found = {
        release: [
            (lost.position, lost.loss.kind, lost.loss.fields) for lost in SimulatedCoordinator(release).find_losses(log)
        ]
        for release in ("3.4.0", "3.9.2", "4.0.1", "4.1.0")
    }
    assert found == {
        "3.4.0": [(1, "stops", ()), (2, "stops", ()), (3, "stops", ()), (4, "stops", ())],
        "3.9.2": [(1, "skips", ()), (2, "ignores", ("topic_id",)), (3, "skips", ())],
        "4.0.1": [(1, "ignores", ("metadata_hash",)), (2, "ignores", ("topic_id",))],
        "4.1.0": [],
    }

    def without_end() -> object:
        while True:
            yield from log

    assert next(SimulatedCoordinator("3.9.2").find_losses(without_end())).position == 1  # type: ignore[arg-type]


def test_bytes_that_are_no_record_are_found_by_their_place() -> None:
    """The error names the position of the record."""
    with pytest.raises(RemoteWireError) as caught:
        newest().load([newest().write(GROUP, GENERATION), (b"\0", None)])
    assert caught.value.__notes__ == ["in record 1, counted from 0"]


# ---------------------------------------------------------------- compaction


def test_compaction_keeps_the_last_of_each_key_in_the_order_of_the_log() -> None:
    """Compaction removes tombstones and deleted records."""
    log = [(b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"a", b"2"), (b"b", None)]
    assert compact(log) == ((b"c", b"1"), (b"a", b"2"))
    assert compact(compact(log)) == compact(log)


# ---------------------------------------------------------------- whatever was written


OF_TOPIC = {
    log.topic: st.lists(st.one_of([drawn for of, drawn in KINDS.values() if of is log]), min_size=1, max_size=4)
    for log in LOGS
}

every = st.sampled_from(
    [
        SimulatedCoordinator(found.release, log.topic, ALL_ON, consumer_protocol=found.consumer_protocol)
        for found in coordinator_releases()
        for log in LOGS
        if log.topic in found.reads
    ]
)


def drawn_log(data: st.DataObject, by: SimulatedCoordinator) -> tuple[CoordinatorTopic, list[LogRecord]]:
    """Draw a log for this coordinator, with several records of the same keys."""
    log = next(log for log in LOGS if log.topic == by.topic)
    drawn = data.draw(OF_TOPIC[by.topic])
    again = data.draw(st.lists(st.tuples(st.sampled_from(drawn), st.sampled_from(drawn)), max_size=4))
    drawn += [
        CoordinatorRecord(one.key, other.value, other.version) if one.record_type == other.record_type else one
        for one, other in again
    ]
    return log, [log.encode(record) for record in drawn]


def last_of_each(log: CoordinatorTopic, records: Sequence[LogRecord]) -> dict[Key, Value]:
    """Return the content of a log, computed in the simplest way."""
    said = {}
    for key, value in records:
        record = log.decode(key, value)
        said[record.key] = record.value
    return {key: value for key, value in said.items() if value is not None}  # type: ignore[misc]


@given(by=every, data=st.data())
def test_a_coordinator_loses_exactly_what_it_says(by: SimulatedCoordinator, data: st.DataObject) -> None:
    """The loaded state and the losses together are the log."""
    log, encoded = drawn_log(data, by)
    loaded = by.load(encoded)
    assert list(loaded.losses) == [
        lost for lost in by.find_losses(encoded) if not loaded.stopped or lost.position <= loaded.stopped.position
    ]
    if loaded.stopped is not None:
        assert loaded.losses[-1] is loaded.stopped
        return
    gone = {lost.record.key for lost in loaded.losses if lost.loss.kind in ("skips", "misreads")}
    whole = last_of_each(log, encoded)
    assert loaded.state.keys() == whole.keys() - gone
    ignored = {lost.position: lost.loss.fields for lost in loaded.losses if lost.loss.kind == "ignores"}
    last_at = {log.decode(*record).key: at for at, record in enumerate(encoded)}
    for key, value in loaded.state.items():
        fields = set(tagged_fields(whole[key]))
        assert set(tagged_fields(value)) == fields - set(ignored.get(last_at[key], ()))
        assert keep_tagged_fields(value, ()) == keep_tagged_fields(whole[key], ())


@given(by=every, data=st.data())
def test_compaction_changes_nothing_for_a_coordinator_that_reads_to_the_end(
    by: SimulatedCoordinator, data: st.DataObject
) -> None:
    """The coordinator keeps the last value of each key."""
    _, encoded = drawn_log(data, by)
    loaded = by.load(encoded)
    assume(loaded.stopped is None)
    assert by.load(compact(encoded)).state == loaded.state


@given(by=every, data=st.data())
def test_what_is_lost_for_good_is_what_the_newest_coordinator_misses_afterwards(
    by: SimulatedCoordinator, data: st.DataObject
) -> None:
    """All other keys and fields survive a rollback."""
    log, encoded = drawn_log(data, by)
    before = last_of_each(log, encoded)
    after = last_of_each(log, by.rewrite(encoded))
    lost = by.permanent_losses(encoded)
    assert after.keys() - before.keys() <= {key for key, names in lost.items() if not names}
    assert not before.keys() - after.keys()
    for key, value in before.items():
        if lost.get(key) != ():
            assert set(tagged_fields(value)) - set(tagged_fields(after[key])) == set(lost.get(key, ()))
            assert keep_tagged_fields(after[key], ()) == keep_tagged_fields(value, ())
        else:
            assert after[key] != value


@given(by=every, data=st.data())
def test_no_whole_value_is_lost_to_a_coordinator_that_reads_to_the_end(
    by: SimulatedCoordinator, data: st.DataObject
) -> None:
    """Only a coordinator that stops and serves what it had read writes old values over newer ones."""
    _, encoded = drawn_log(data, by)
    assume(by.load(encoded).stopped is None)
    assert () not in by.permanent_losses(encoded).values()


def test_a_coordinator_of_transactions_that_stops_brings_back_what_was_true_before() -> None:
    """Older values overwrite those after the record at which it stopped, tombstones too."""
    topic = TRANSACTION_STATE.topic
    old, new = SimulatedCoordinator("2.8.2", topic), SimulatedCoordinator("4.2.0", topic, ALL_ON)
    ids = [TransactionLogKey(transactional_id=name) for name in ("moved-on", "expired", "stops")]
    values = [replace(transaction(), producer_id=number) for number in (1, 2, 3, 4)]
    records = [
        old.write(ids[0], values[0]),
        old.write(ids[1], values[1]),
        new.write(ids[2], values[2]),
        old.write(ids[0], values[3]),
        old.write(ids[1]),
    ]
    assert old.permanent_losses(records) == {ids[0]: (), ids[1]: ()}
    after = last_of_each(TRANSACTION_STATE, old.rewrite(records))
    assert (after[ids[0]], after[ids[1]], after[ids[2]]) == (values[0], values[1], values[2])


@given(drawn=records)
def test_the_newest_coordinator_writes_again_all_that_this_package_knows(
    drawn: tuple[CoordinatorTopic, CoordinatorRecord],
) -> None:
    """Unnamed tagged fields are the exception."""
    log, record = drawn
    assert all(
        "tag " in name for fields in newest(log).permanent_losses([log.encode(record)]).values() for name in fields
    )
