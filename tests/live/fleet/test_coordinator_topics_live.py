"""Records of real coordinators, in tables, held against what Kafka's own formatters print of the same topics."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from fleet_batches import batches, commit
from fleet_clients import TOPIC, commit_offsets
from fleet_reference import messages
from printed_records import as_printed, camel_case, documents
from waiting import BOUND

from featuregate.group_marks import read_mark
from featuregate.records.schemas import TransactionState
from featuregate.testing import LocalKafka
from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.evidence.topic_records import TOPICS
from featuregate_fleet.runs import topics
from featuregate_fleet.runs.internal_topics import topic_ends
from featuregate_fleet.runs.known_sources import KnownSources, Part
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.runs.topics import Topics
from featuregate_fleet.tables.evidence_table import EvidenceTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

FORMATTERS = {
    "__consumer_offsets": ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"),
    "__transaction_state": ("TransactionLogMessageFormatter",),
}


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    """Start a broker of a release: tests that share one write to its topics, of which all is read here."""
    with LocalKafka(request.param) as started:
        yield started


def formatted(kafka: LocalKafka, topic: str, formatter: str, records: int) -> list[tuple[Any, Any]]:
    options = ["--bootstrap-server", kafka.bootstrap, "--topic", topic, "--from-beginning"]
    options += ["--max-messages", str(records), "--timeout-ms", "60000", "--isolation-level", "read_committed"]
    tool = "org.apache.kafka.tools.consumer"
    printed = kafka.run_tool(f"{tool}.ConsoleConsumer", *options, "--formatter", f"{tool}.{formatter}")
    assert printed.returncode == 0, printed.stderr
    found = list(documents(printed.stdout))
    assert found
    return found


def identity(key: Any, value: Any) -> tuple[Any, ...]:
    """Return what a row of the table says, too: number of the key, version of the value, group or id."""
    name = key["data"].get("group") or key["data"]["transactionalId"]
    return int(key.get("type", key.get("version"))), None if value is None else int(value["version"]), name


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("kafka", ["3.9.2", "4.2.0", "4.3.1"], indirect=True)
def test_tables_have_what_kafkas_own_formatters_print(kafka: LocalKafka, tmp_path: Path) -> None:
    """Record by record, with all values: what was overwritten is counted, and what was not committed is left out."""
    commit_offsets(kafka)
    with local_session() as spark:
        rows = drained(spark, EvidenceTable(spark, tmp_path, "c"), kafka)
    assert all(row.kind for row in rows)
    (mark,) = [row for row in rows if row.group == "records-group" and row.kind == "OffsetCommit"]
    assert (mark.model, mark.version) == ("v2", 3 if kafka.node(1).version.startswith("3.") else 4)
    ends: dict[tuple[str, int], int] = {}
    for row in rows:
        ends[row.topic, row.partition] = max(ends.get((row.topic, row.partition), -1), row.offset)
    values = decoded_values(kafka, ends)
    for topic, formatters in FORMATTERS.items():
        ours: Counter[tuple[Any, ...]] = Counter()
        for row in rows:
            if row.topic == topic:
                ours[row.record_type, row.version, row.group or row.transactional_id] += row["count"]
        for formatter in formatters:
            printed = formatted(kafka, topic, formatter, ours.total())
            theirs = Counter(identity(key, value) for key, value in printed)
            types = {kind for kind, _, _ in theirs}
            assert {found: count for found, count in ours.items() if found[0] in types} == theirs
            for text, found in by_key(printed).items():
                assert [as_printed(mine, other) for mine, other in zip(values[text], found, strict=True)] == found
            last = {json.dumps(key): value and value["data"] for key, value in printed}
            for key, value in last.items():
                assert value is None or says_the_same(rows, json.loads(key)["data"], value), (key, value)


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("kafka", ["3.9.2", "4.2.0"], indirect=True)
def test_records_count_once(kafka: LocalKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few a batch takes. By its defaults Spark reads no record of an internal topic."""
    commit_offsets(kafka)
    with local_session() as spark:
        table = EvidenceTable(spark, tmp_path, "c")
        first = drained(spark, table, kafka)
        again = drained(spark, table, kafka)
        assert counted(again) == counted(first)
        in_many_batches = EvidenceTable(spark, tmp_path, "many")
        monkeypatch.setattr(topics, "_RECORDS", 4)
        assert records(drained(spark, in_many_batches, kafka)) == records(again)
        assert batches(in_many_batches) > 2
        assert not [row.group for row in again if (row.group or "").startswith("spark-")], "reading leaves no group"

        spark.conf.unset(topics._DEPRECATED_FETCHING)
        monkeypatch.setattr(topics, "_DEPRECATED_FETCHING", "spark.featuregate.unused")
        with pytest.raises(TablesBroken, match="the records of coordinators cannot be read: "):
            drained(spark, EvidenceTable(spark, tmp_path, "without-the-setting"), kafka)


@pytest.mark.usefixtures("jvm")
def test_a_topic_of_aborted_transactions_alone_is_read_to_its_end(tmp_path: Path) -> None:
    """It has offsets, and no record that anybody sees: neither Spark nor a plain consumer."""
    with LocalKafka("4.2.0") as kafka, local_session() as spark:
        member = Consumer(kafka.client_config({"group.id": "aborted", "log_level": 0}))
        producer = Producer(kafka.client_config({"transactional.id": "aborted", "log_level": 0}))
        try:
            producer.init_transactions(BOUND)
            producer.begin_transaction()
            producer.produce(TOPIC, b"one")
            assert producer.flush(BOUND) == 0
            offsets, metadata = [TopicPartition(TOPIC, 0, 1)], member.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, metadata, BOUND)
            producer.abort_transaction(BOUND)
        finally:
            member.close()
        table = EvidenceTable(spark, tmp_path, "c")
        assert {row.topic for row in drained(spark, table, kafka)} == {"__transaction_state"}
        positions = KnownSources.of(table).topics()
        assert any(each.position for uri, each in positions.items() if "__consumer_offsets/" in uri)


def says_the_same(rows: list[Any], key: Any, value: Any) -> bool:
    """Return whether a row says what the value of a record says, as far as a row keeps it."""
    if "transactionStatus" in value:
        state = TransactionState(value["transactionStatus"]).name.replace("_", "").lower()
        return any(row.transactional_id == key["transactionalId"] and row.state.lower() == state for row in rows)
    of_group = [row for row in rows if row.group == key["group"] and not row.tombstone]
    if "metadata" in value:
        return any(row.kind == "OffsetCommit" and row.model == read_mark(value["metadata"])[0] for row in of_group)
    names = ("memberId", "groupInstanceId", "clientId", "clientHost")
    members = {tuple(member[name] for name in names) for member in value["members"]}
    return any(row.kind == "GroupMetadata" and {tuple(of)[:4] for of in row.members} == members for row in of_group)


def by_key(printed: list[tuple[Any, Any]]) -> dict[str, list[Any]]:
    """Return what was printed of the values of each key, in order; None of a tombstone."""
    found = defaultdict[str, list[Any]](list)
    for key, value in printed:
        found[json.dumps(key["data"])].append(value and value["data"])
    return found


def decoded_values(kafka: LocalKafka, ends: Mapping[tuple[str, int], int]) -> dict[str, list[Any]]:
    """Decode what a plain consumer reads; return the values of each key, in order."""
    found = defaultdict[str, list[Any]](list)
    for message in messages(kafka, ends):
        record = TOPICS[message.topic()].decode(message.key(), message.value())
        found[
            json.dumps({camel_case(field.name): getattr(record.key, field.name) for field in fields(record.key)})
        ].append(record.value)
    return found


def counted(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    """Count the records of the group and the transactional id of this test, which writes none any more."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        if "records-group" in (row.group or "") or row.transactional_id == "records-app":
            found[row.topic, bytes(row.key), row.version, row.offset] += row["count"]
    return found


def records(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for (*key, _), count in counted(rows).items():
        found[tuple(key)] += count
    return found


def drained(spark: SparkSession, table: EvidenceTable, kafka: LocalKafka) -> list[Any]:
    """Read the topics of coordinators to their ends; return the rows of the table."""
    part, java = Part(more=True), {"bootstrap.servers": kafka.bootstrap}
    while part.more:
        read, asked_at = KnownSources.of(table).topics(), datetime.now(UTC)
        part = Topics(spark, java, read).coordinators(topic_ends(spark, java, list(TOPICS)), asked_at)
        assert part.more != ("records_read" in part.run)
        commit(spark, table, part)
    return table.rows("record").collect()
