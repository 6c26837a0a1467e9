"""Records of real coordinators, in tables, held against what Kafka's own formatters print of the same topics."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from featuregate.cli import main
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


def formatted(kafka: LocalKafka, topic: str, formatter: str, records: int) -> Counter[tuple[Any, ...]]:
    """Count what Kafka's own tool prints of a topic: number of the key, version of the value, group or id."""
    options = ["--bootstrap-server", kafka.bootstrap, "--topic", topic, "--from-beginning"]
    options += ["--max-messages", str(records), "--timeout-ms", "60000", "--isolation-level", "read_committed"]
    tool = "org.apache.kafka.tools.consumer"
    printed = kafka.run_tool(f"{tool}.ConsoleConsumer", *options, "--formatter", f"{tool}.{formatter}")
    assert printed.returncode == 0, printed.stderr
    found: Counter[tuple[Any, ...]] = Counter()
    for key, value in documents(printed.stdout):
        said = key["data"]
        version = None if value is None else int(value["version"])
        found[int(key.get("type", key.get("version"))), version, said.get("group") or said["transactionalId"]] += 1
    return found


def documents(text: str) -> Iterator[tuple[Any, Any]]:
    """Yield keys and values of JSON objects, between which there may be no line break."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        record, end = decoder.raw_decode(text, at)
        yield record["key"], record["value"]
        at = text.find("{", end)


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("kafka", ["3.9.2", "4.2.0"], indirect=True)
def test_tables_have_what_kafkas_own_formatters_print(kafka: LocalKafka, tmp_path: Path) -> None:
    """Record by record: what was overwritten is counted, and what a transaction did not commit is left out."""
    work(kafka)
    (tmp_path / "logs").mkdir()
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    command = [
        "fleet",
        "run",
        "--once",
        "--logs",
        str(tmp_path / "logs"),
        *place,
        "--bootstrap-server",
        kafka.bootstrap,
    ]
    assert main(command) == 0
    rows = in_table(tmp_path)
    for topic, formatters in FORMATTERS.items():
        ours: Counter[tuple[Any, ...]] = Counter()
        for row in rows:
            if row.topic == topic:
                ours[row.record_type, row.version, row.group or row.transactional_id] += row["count"]
        for formatter in formatters:
            printed = formatted(kafka, topic, formatter, ours.total())
            types = {kind for kind, _, _ in printed}
            assert printed
            assert {found: count for found, count in ours.items() if found[0] in types} == printed


@pytest.mark.usefixtures("jvm")
def test_no_restart_loses_or_doubles_a_record(kafka: LocalKafka, tmp_path: Path) -> None:
    """Neither a lost commit of Spark's, nor a lost checkpoint."""
    work(kafka)
    (tmp_path / "logs").mkdir()
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    command = [
        "fleet",
        "run",
        "--once",
        "--logs",
        str(tmp_path / "logs"),
        *place,
        "--bootstrap-server",
        kafka.bootstrap,
    ]
    assert main(command) == 0
    before = counted(tmp_path)
    checkpoint = tmp_path / "tables" / "_checkpoints" / "c" / "coordinator_records"
    for lost in (checkpoint / "commits").iterdir():
        lost.unlink()
    assert main(command) == 0
    assert counted(tmp_path) == before
    shutil.rmtree(checkpoint)
    assert main(command) == 0
    assert counted(tmp_path) == before


def counted(folder: Path) -> Counter[tuple[Any, ...]]:
    """Count the records of the group and the transactional id of this test."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in in_table(folder):
        if "records-group" in (row.group or "") or row.transactional_id == "records-app":
            found[row.topic, bytes(row.key), row.version, row.offset] += row["count"]
    return found


def in_table(folder: Path) -> list[Any]:
    """Return the rows of the table."""
    with local_session() as spark:
        return DeltaTables(spark, folder / "tables", "c").read("coordinator_records").collect()
