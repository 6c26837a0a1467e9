"""A Kafka Streams app in a streams group (KIP-1071): its records in tables, and what a verdict says of it."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from fleet_clients import joined, reads_on, transaction
from waiting import BOUND, eventually

from featuregate import Admin
from featuregate.admin.updates import disable
from featuregate.cli import main
from featuregate.jars.maven import Download, cache_folder, fetched
from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.commands import Installation, write_logging
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(900)]

RELEASE = "4.2.0"
APP = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
WORDS, COUNTS = "streams-plaintext-input", "streams-wordcount-output"
GROUP, CLIENT = "word-count", "counter"
IN_MEMORY = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"
KINDS = {
    "StreamsGroupMetadata": 17,
    "StreamsGroupMemberMetadata": 19,
    "StreamsGroupTargetAssignmentMetadata": 20,
    "StreamsGroupTargetAssignmentMember": 21,
    "StreamsGroupCurrentMemberAssignment": 22,
    "StreamsGroupTopology": 23,
}
"""All types of records that coordinators of 4.2 write for such a group."""


def kafka_streams() -> Path:
    """Return the folder with Kafka Streams and its example apps, without RocksDB, which has 73 MB."""
    examples = (f"org.apache.kafka:kafka-streams-examples:{RELEASE}",)
    wanted = Download("Kafka Streams", examples, lambda name: name.startswith("kafka-streams"))
    return fetched(wanted, cache_folder() / "kafka-streams" / RELEASE)


@contextmanager
def word_count(kafka: LocalKafka, folder: Path) -> Iterator[Path]:
    topics = [NewTopic(topic, 2, 1) for topic in (WORDS, COUNTS)]
    admin = AdminClient(kafka.client_config())
    for created in admin.create_topics(topics, operation_timeout=BOUND).values():
        created.result(BOUND)
    config = {
        "bootstrap.servers": kafka.bootstrap,
        "application.id": GROUP,
        "client.id": CLIENT,
        "group.protocol": "streams",
        "dsl.store.suppliers.class": IN_MEMORY,
        "state.dir": folder / "state",
        "commit.interval.ms": 100,
    }
    (folder / "app.properties").write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    write_logging(folder, "WARN")
    log = folder / "app.log"
    command = Installation.of(RELEASE, folder).tool(APP, [folder / "app.properties"])
    class_path = command.index("-cp") + 1
    command[class_path] = f"{command[class_path]}{os.pathsep}{kafka_streams()}/*"
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as app:
        try:
            yield log
        finally:
            app.kill()


def counts(kafka: LocalKafka, word: str) -> None:
    producer = Producer(kafka.client_config({"log_level": 0}))
    producer.produce(WORDS, word.encode())
    assert producer.flush(BOUND) == 0
    config = {"group.id": "reader", "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    with closing(Consumer(kafka.client_config(config))) as consumer:
        consumer.subscribe([COUNTS])
        eventually(lambda: (found := consumer.poll(0.2)) and found.key() == word.encode(), f"{word} is not counted")


def members(kafka: LocalKafka) -> set[tuple[str, ...]]:
    """Return group, member id and client id of each member, as Kafka's own tool prints them."""
    options = ("--bootstrap-server", kafka.bootstrap, "--describe", "--group", GROUP, "--members")
    printed = kafka.run_tool("org.apache.kafka.tools.streams.StreamsGroupCommand", *options)
    assert printed.returncode == 0, printed.stderr
    rows = [line.split() for line in printed.stdout.splitlines() if line.startswith(GROUP)]
    assert rows
    return {(group, member, client) for group, member, _process, client, *_ in rows}


@pytest.mark.usefixtures("jvm")
def test_a_streams_app_is_a_group_of_its_protocol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of its records are understood; a level that the app needs blocks, and without that level it alone stops."""
    place = ["--tables", str(tmp_path / "tables"), "--cluster", "c"]
    (tmp_path / "logs").mkdir()
    with LocalKafka(RELEASE) as kafka, ExitStack() as stack:
        transaction(kafka, b"one")
        classic = joined(stack, kafka, "classic-group")
        log = stack.enter_context(word_count(kafka, tmp_path))
        counts(kafka, "before")
        run = ["fleet", "run", "--once", "--logs", str(tmp_path / "logs"), "--bootstrap-server", kafka.bootstrap]
        assert main([*run, *place]) == 0
        with local_session() as spark:
            rows = EvidenceTable(spark, tmp_path / "tables", "c").rows("record").collect()
        its = [row for row in rows if row.group == GROUP]
        assert not [row for row in rows if row.reason]
        assert {row.kind: row.record_type for row in its if row.protocol == "streams"} == KINDS
        assert {row.kind for row in its if row.protocol != "streams"} == {"OffsetCommit"}
        told = {(row.group, one.member_id, one.client_id) for row in its for one in row.members or ()}
        assert told == members(kafka)
        assert {client.startswith(CLIENT) for _, _, client in told} == {True}

        capsys.readouterr()
        assert main(["readiness", *place, "--finalize", "streams.version=0", "--output", "json"]) == 1
        blocked = [row for row in json.loads(capsys.readouterr().out)["rows"] if row["verdict"] == "block"]
        assert {(row["check"], row["subject"]) for row in blocked} == {("protocols", f"group {GROUP!r}")}
        assert {row["client_id"] for row in blocked} == {client for _, _, client in told}

        Admin(kafka.client_config()).update(disable("streams.version"))
        stopped = "StreamsGroupHeartbeatRequest failed due to UNSUPPORTED_VERSION"
        eventually(lambda: stopped in log.read_text(), "the app that was named goes on")
        transaction(kafka, b"two")
        assert reads_on(classic)
