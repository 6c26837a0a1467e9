"""Which records of topics a batch reads: none twice, none left out, and those of another topic never."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

import pyarrow as pa

from featuregate_fleet.errors import ClusterUnread, TablesBroken
from featuregate_fleet.evidence.columns import SOURCE
from featuregate_fleet.evidence.paths import LineCounts
from featuregate_fleet.runs import topics
from featuregate_fleet.runs.internal_topics import TopicEnds
from featuregate_fleet.runs.known_sources import _KEPT, KnownSources, TopicRead
from featuregate_fleet.runs.topics import check_same, new_reads, reads_of, records_of, source_rows

LOGS = TopicEnds("logs", {0: (5, 10), 1: (0, 0), 2: (0, 3)}, "id-1")
ENDS = st.dictionaries(
    st.integers(0, 9), st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)).map(sorted).map(tuple), max_size=5
)


class Reader:
    """Takes the options of a batch read as Spark does."""

    def __init__(self) -> None:
        self.taken: dict[str, str] = {}
        self.read = self

    def format(self, name: str) -> "Reader":
        assert name == "kafka"
        return self

    def options(self, **options: str) -> "Reader":
        self.taken |= options
        return self

    def load(self) -> dict[str, str]:
        return self.taken


def test_a_batch_begins_after_what_was_read():
    """At the first offset of a partition that was not read; one that has nothing new is left out."""
    reads, more = new_reads([LOGS], {"kafka:logs/2": TopicRead("id-1", 3)}, 100)
    assert ([(each.partition, each.begin, each.end) for each in reads], more) == ([(0, 5, 10)], False)
    reads, _ = new_reads([LOGS], {"kafka:logs/0": TopicRead("id-1", 8), "kafka:logs.b/2": TopicRead("", 3)}, 100)
    assert [(each.partition, each.begin, each.end) for each in reads] == [(0, 8, 10), (2, 0, 3)]
    assert new_reads([TopicEnds("logs", {})], {}, 100) == ([], False)


@given(ENDS, st.integers(1, 1000))
def test_batches_read_each_offset_once(ends: dict[int, tuple[int, int]], most: int):
    """Whatever the bound is, which a batch exceeds by no more than the number of partitions."""
    most = max(most, *(end - begin for begin, end in ends.values()), 1) // 7 + 1 if ends else most
    found, read, more = [TopicEnds("t", ends, "id")], dict[str, TopicRead](), True
    at = {partition: begin for partition, (begin, _) in ends.items()}
    while more:
        reads, more = new_reads(found, read, most)
        assert sum(each.end - each.begin for each in reads) <= most + len(reads)
        for each in reads:
            assert (each.begin, each.begin < each.end <= ends[each.partition][1]) == (at[each.partition], True)
            at[each.partition] = each.end
        rows: list[dict[str, Any]] = source_rows("logs", reads)
        read |= {row["uri"]: TopicRead(row["source"], row["position"]) for row in rows}
    assert at == {partition: end for partition, (_, end) in ends.items()}


def test_spark_reads_committed_records_between_two_offsets():
    """By partitions that are assigned: as a subscriber Spark would write to the topics of coordinators."""
    reader: Any = Reader()
    reads, _ = new_reads([LOGS, TopicEnds("other", {7: (1, 2)})], {}, 100)
    records_of(reader, {"bootstrap.servers": "b:1"}, reads, failOnDataLoss="true")
    said = reader.taken
    assert said["kafka.isolation.level"] == "read_committed"
    assert (said["kafka.bootstrap.servers"], said["kafka.allow.auto.create.topics"]) == ("b:1", "false")
    assert json.loads(said["assign"]) == {"logs": [0, 2], "other": [7]}
    assert json.loads(said["startingOffsets"]) == {"logs": {"0": 5, "2": 0}, "other": {"7": 1}}
    assert json.loads(said["endingOffsets"]) == {"logs": {"0": 10, "2": 3}, "other": {"7": 2}}


def test_the_table_says_how_far_a_partition_is_read():
    """Whatever the order of the rows of a batch is: its counts have a row for each broker."""
    reads, _ = new_reads([LOGS], {}, 100)
    ends = source_rows("logs", reads)
    counts: list[dict[str, Any]] = [row | {"broker": broker, "position": 0} for row in ends for broker in (None, "1")]
    for rows in ([*ends, *counts], [*counts, *ends]):
        known = KnownSources(_KEPT.empty_table(), LineCounts(0, 0, 0))
        known.add(pa.Table.from_pylist(rows, SOURCE), 0)
        assert known.topics() == {"kafka:logs/0": TopicRead("id-1", 10), "kafka:logs/2": TopicRead("id-1", 3)}


def test_partitions_are_those_of_one_topic():
    """The name of one topic may begin with that of another."""
    read = {"kafka:a/0": TopicRead("x", 1), "kafka:a.b/0": TopicRead("y", 2), "file:///logs/a/1": TopicRead("z", 3)}
    assert reads_of("a", read) == {0: TopicRead("x", 1)}


def test_a_topic_that_was_created_again_is_another_one():
    """Also where it has more records than were read. Brokers before 2.8 have no ids."""
    for known in ({"kafka:logs/0": TopicRead("id-1", 8), "kafka:other/0": TopicRead("id-0", 8)}, {}):
        check_same(LOGS, known, keeps_all=True)
    check_same(LOGS, {"kafka:logs/0": TopicRead("", 8)}, keeps_all=True)
    with pytest.raises(TablesBroken, match="logs was deleted and created again: its id was id-0, and is id-1 now"):
        check_same(LOGS, {"kafka:logs/0": TopicRead("id-0", 8)}, keeps_all=False)


@pytest.mark.parametrize("keeps_all", [True, False])
@pytest.mark.parametrize("position", [4, 5, 10, 11])
def test_records_of_logs_that_were_deleted_before_they_were_read_are_an_error(position: int, *, keeps_all: bool):
    """And so is each topic that ends before what was read. Reports and records of coordinators are deleted in time."""
    read = {"kafka:logs/0": TopicRead("id-1", position)}
    if position == 11 or (position == 4 and keeps_all):
        with pytest.raises(TablesBroken, match=f"logs-0 was read up to offset {position}, and has those from 5 to 10"):
            check_same(LOGS, read, keeps_all=keeps_all)
    else:
        check_same(LOGS, read, keeps_all=keeps_all)


def test_a_partition_that_is_gone_is_one_of_another_topic():
    """Topics get more partitions, and never fewer."""
    with pytest.raises(TablesBroken, match="logs-7 was read up to offset 1, and has those from 0 to 0 now"):
        check_same(LOGS, {"kafka:logs/7": TopicRead("id-1", 1)}, keeps_all=False)


def test_a_topic_of_logs_has_to_exist():
    """A run that reads nothing may not succeed. Apps that report nothing have no topic."""
    with pytest.raises(TablesBroken, match="the topic logs does not exist, or this client may not describe it"):
        check_same(TopicEnds("logs", {}), {}, keeps_all=True)
    check_same(TopicEnds("logs", {}), {}, keeps_all=False)


def test_a_topic_that_may_not_be_described_says_so():
    """Others are read."""
    unread = TopicEnds("logs", {}, failure=ClusterUnread("the topic logs cannot be read"))
    with pytest.raises(ClusterUnread):
        unread.known()
    assert LOGS.known() is LOGS


OF_COORDINATORS = [
    TopicEnds("__share_group_state", {0: (5, 5)}),
    TopicEnds("__consumer_offsets", {0: (5, 5), 1: (2, 9)}),
]


def check(monkeypatch: pytest.MonkeyPatch, *, in_spark: bool, in_kafka: bool) -> None:
    records = SimpleNamespace(isEmpty=lambda: not in_spark)
    monkeypatch.setattr(topics, "records_of", lambda *_, **__: records)
    monkeypatch.setattr(topics, "has_records", lambda *_: in_kafka)
    topics._check_not_empty(None, {}, OF_COORDINATORS)


def test_a_topic_with_records_that_gives_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark leaves internal topics out, and the batch would note them as read."""
    check(monkeypatch, in_spark=True, in_kafka=True)
    check(monkeypatch, in_spark=False, in_kafka=False)  # all transactions were aborted
    with pytest.raises(TablesBroken, match="__consumer_offsets has 7 offsets, and Spark returned no record of it"):
        check(monkeypatch, in_spark=False, in_kafka=True)
