"""Records of real coordinators, in tables, held against what Kafka's own formatters print of the same topics."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from featuregate.cli import main
from featuregate.cli.plugin import UNKNOWN
from featuregate.records.transactions import TransactionState
from featuregate_fleet.evidence.coordinator_records import kinds, model_of_mark
from featuregate_fleet.stream import coordinator_topics
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.delta import DeltaTables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

TOPIC = "records-in-tables"
FORMATTERS = {
    "__consumer_offsets": ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"),
    "__transaction_state": ("TransactionLogMessageFormatter",),
}


def work(kafka: LocalKafka) -> None:
    """Commit offsets as a member of a group with a mark, in a transaction that is committed, and in one that is not."""
    producer = Producer(kafka.client_config({"transactional.id": "records-app", "log_level": 0}))
    producer.init_transactions(240)
    producer.begin_transaction()
    producer.produce(TOPIC, b"one")
    producer.commit_transaction(240)
    names = {"group.id": "records-group", "client.id": "records-client#fg=v2", "auto.offset.reset": "earliest"}
    consumer = Consumer(kafka.client_config({**names, "enable.auto.commit": False, "log_level": 0}))
    consumer.subscribe([TOPIC])
    message = consumer.poll(240)
    assert message is not None
    assert not message.error()
    for metadata, commit in (("fg1;model=v2|of the app", True), ("aborted", False)):
        producer.begin_transaction()
        offsets = [TopicPartition(TOPIC, 0, 1, metadata)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 240)
        (producer.commit_transaction if commit else producer.abort_transaction)(240)
    consumer.close()


def formatted(kafka: LocalKafka, topic: str, formatter: str, records: int) -> list[tuple[Any, Any]]:
    """Return keys and values as Kafka's own tool prints those of a topic."""
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


def documents(text: str) -> Iterator[tuple[Any, Any]]:
    """Yield keys and values of JSON objects, between which there may be no line break."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        record, end = decoder.raw_decode(text, at)
        yield record["key"], record["value"]
        at = text.find("{", end)


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("kafka", ["3.9.2", "4.2.0"], indirect=True)
def test_tables_have_what_kafkas_own_formatters_print(
    kafka: LocalKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Record by record: what was overwritten is counted, and what a transaction did not commit is left out.

    Neither a lost commit of Spark's nor a lost checkpoint loses or doubles a record. By its defaults Spark reads none.
    """
    work(kafka)
    (tmp_path / "logs").mkdir()
    command = ["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), "--bootstrap-server", kafka.bootstrap]
    command += ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    assert main(command) == 0
    rows = in_table(tmp_path)
    assert all(row.kind == kinds()[row.topic][row.record_type] for row in rows)
    old = kafka.node(1).version.startswith("3.")
    (mark,) = [row for row in rows if row.group == "records-group" and row.kind == "OffsetCommit"]
    assert (mark.model, mark.version) == ("v2", 3 if old else 4)
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
            last = {json.dumps(key): value and value["data"] for key, value in printed}
            for key, value in last.items():
                assert value is None or says_the_same(rows, json.loads(key)["data"], value), (key, value)
    if old:
        return
    checkpoint = tmp_path / "tables" / "_checkpoints" / "c" / "coordinator_records"
    for lost in (checkpoint / "commits").iterdir():
        lost.unlink()
    assert main(command) == 0
    shutil.rmtree(checkpoint)
    assert main(command) == 0
    again = in_table(tmp_path)
    assert counted(again) == counted(rows)
    assert not [row.group for row in again if (row.group or "").startswith("spark-")], "reading leaves no group behind"
    monkeypatch.setattr(coordinator_topics, "_DEPRECATED_FETCHING", "spark.featuregate.unused")
    assert main([*command, "--cluster", "without-the-setting"]) == UNKNOWN
    assert "and Spark returned no record of it" in capsys.readouterr().err


def says_the_same(rows: list[Any], key: Any, value: Any) -> bool:
    """Return whether a row says what the value of a record says, as far as a row keeps it."""
    if "transactionStatus" in value:
        state = TransactionState(value["transactionStatus"]).name.replace("_", "").lower()
        return any(row.transactional_id == key["transactionalId"] and row.state.lower() == state for row in rows)
    of_group = [row for row in rows if row.group == key["group"] and not row.tombstone]
    if "metadata" in value:
        return any(row.kind == "OffsetCommit" and row.model == model_of_mark(value["metadata"]) for row in of_group)
    clients = {member["clientId"] for member in value["members"]}
    return any(row.kind == "GroupMetadata" and {of.client_id for of in row.members} == clients for row in of_group)


def counted(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    """Count the records of the group and the transactional id of this test, which writes none any more."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        if "records-group" in (row.group or "") or row.transactional_id == "records-app":
            found[row.topic, bytes(row.key), row.version, row.offset] += row["count"]
    return found


def in_table(folder: Path) -> list[Any]:
    """Return the rows of the table."""
    with local_session() as spark:
        return DeltaTables(spark, folder / "tables", "c").read("coordinator_records").collect()
