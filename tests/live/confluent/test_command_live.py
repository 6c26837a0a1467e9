"""``featuregate group`` on real brokers: what it shows, what it refuses, and what a rollback does."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from topics import create_topics

from featuregate.cli import main
from featuregate.testing import LocalKafka
from featuregate_confluent.client.group import GroupReader
from featuregate_confluent.client.latch_topic import LatchTopic
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.member.membership import leave_group
from featuregate_confluent.models import Model
from featuregate_confluent.operator.rollback import Rollback, RollbackRefused

pytestmark = pytest.mark.live

BOUND = 60.0
LATCHED = (("fg1;model=v2|theirs", 5), ("fg1;model=v2", 6), ("of the app", 7))
"""The text and the offset of each partition."""


@pytest.fixture(scope="module", params=[pytest.param("2.8.2", marks=pytest.mark.proof("switch")), "4.2.0"])
def kafka(request: pytest.FixtureRequest, shared_kafka: Callable[[str], LocalKafka]) -> LocalKafka:
    return shared_kafka(request.param)


@pytest.fixture
def group(kafka: LocalKafka, request: pytest.FixtureRequest) -> str:
    """Create a topic with three partitions and a latch topic, both named like the group of this test."""
    name = str(request.node.originalname)
    create_topics(kafka.client_config(), name, partitions=3)
    create_topics(kafka.client_config(), f"{name}-mirror", cleanup_policy="compact")
    return name


def joined(kafka: LocalKafka, group: str, **properties: Any) -> Consumer:
    ours = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    named = {name.replace("_", "."): value for name, value in properties.items()}
    consumer = Consumer({**kafka.client_config(), **ours, **named})
    consumer.subscribe([group])
    end = time.monotonic() + BOUND
    while len(consumer.assignment()) < 3:
        assert time.monotonic() < end
        consumer.poll(0.1)
    return consumer


def latch(kafka: LocalKafka, group: str, consumer: Consumer) -> None:
    offsets = [TopicPartition(group, number, offset, text, 0) for number, (text, offset) in enumerate(LATCHED)]
    consumer.commit(offsets=offsets, asynchronous=False)
    record = mirror(kafka, group).record(Model.V2)
    producer = Producer(kafka.client_config())
    producer.produce(*record)
    assert producer.flush(BOUND) == 0


def mirror(kafka: LocalKafka, group: str) -> LatchTopic:
    return LatchTopic(f"{group}-mirror", kafka.client_config(), group=group, gate="kip447")


def marks(kafka: LocalKafka, group: str) -> list[tuple[int | None, Mark]]:
    found = GroupReader(kafka.client_config(), group).offsets(timeout=BOUND)
    return [found[group, number] for number in range(3)]


def leader_epochs(kafka: LocalKafka, group: str) -> list[int | None]:
    asked = [TopicPartition(group, number) for number in range(3)]
    with Consumer(kafka.client_config({"group.id": group})) as reader:
        return [partition.leader_epoch for partition in reader.committed(asked, BOUND)]


BEFORE = [(5, Mark(Model.V2, "theirs")), (6, Mark(Model.V2)), (7, Mark(None, "of the app"))]
AFTER = [(5, Mark(Model.BRIDGE, "theirs")), (6, Mark(Model.BRIDGE)), (7, Mark(None, "of the app"))]


def run(kafka: LocalKafka, action: str, group: str, *words: str) -> int:
    target = ("--to", "bridge") if action == "rollback" else ()
    return main(["group", action, "--bootstrap-server", kafka.bootstrap, "--group", group, *target, *words])


def test_show_tells_latch_marks_members_and_obstacles(
    kafka: LocalKafka, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the latch it shows what holds the group back; after it, that nothing does."""
    consumer = joined(kafka, group, client_id="handwritten")
    assert run(kafka, "show", group, "--output", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["latch"], found["gate"]["open"]) == ("stable", None, True)
    assert [member["client_id"] for member in found["members"]] == ["handwritten"]
    assert ["handwritten" in obstacle for obstacle in found["obstacles"]] == [True]

    latch(kafka, group, consumer)
    assert run(kafka, "show", group, "--latch-topic", f"{group}-mirror", "--output", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["latch"], found["latch_topic"]["latch"], found["obstacles"]) == ("v2", "v2", [])
    assert [(row["offset"], row["mark"], row["text"]) for row in found["offsets"]] == [
        (5, "v2", "theirs"),
        (6, "v2", None),
        (7, None, "of the app"),
    ]
    assert run(kafka, "show", group) == 0
    assert f"{group}[1]" in capsys.readouterr().out
    leave_group(consumer)


def test_show_names_a_partition_that_does_not_move_and_its_owner(
    kafka: LocalKafka, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its owner is alive for brokers, and commits nothing."""
    producer = Producer(kafka.client_config())
    for _ in range(3):
        producer.produce(group, b"", partition=0)
    assert producer.flush(BOUND) == 0
    consumer = joined(kafka, group, client_id="stuck")
    consumer.commit(offsets=[TopicPartition(group, number, 0) for number in (0, 1)], asynchronous=False)
    assert run(kafka, "show", group, "--watch", "1", "--output", "json") == 0
    found = json.loads(capsys.readouterr().out)
    (owner,) = [member["member_id"] for member in found["members"]]
    first, second, third = found["offsets"]
    assert (first["offset"], first["end"], first["lag"], first["owner"]) == (0, 3, 3, owner)
    assert first["stalled_seconds"] >= 1
    assert (second["lag"], second["stalled_seconds"]) == (0, None)
    assert (third["offset"], third["lag"], third["owner"]) == (None, None, owner)
    leave_group(consumer)


def test_a_rollback_lowers_every_mark_and_moves_no_offset(
    kafka: LocalKafka, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The app's text stays, the latch topic is erased, a dry run changes nothing, a second run has nothing to do."""
    protocols = ("classic", "consumer") if kafka.node(1).version.startswith("4") else ("classic",)
    for protocol in protocols:
        consumer = joined(kafka, group, group_protocol=protocol)
        latch(kafka, group, consumer)
        leave_group(consumer)
        words = ("--latch-topic", f"{group}-mirror", "--output", "json")

        assert run(kafka, "rollback", group, *words, "--dry-run") == 0
        planned = json.loads(capsys.readouterr().out)
        assert (planned["done"], len(planned["offsets"]), planned["latch_topic"]["erase"]) == (False, 2, True)
        assert (marks(kafka, group), mirror(kafka, group).read(BOUND)) == (BEFORE, Model.V2)

        assert run(kafka, "rollback", group, *words, "--confirm", group) == 0
        out, err = capsys.readouterr()
        assert json.loads(out) == {**planned, "done": True, "dry_run": False}
        assert "Stop every member" in err
        assert (marks(kafka, group), mirror(kafka, group).read(BOUND)) == (AFTER, None)
        assert leader_epochs(kafka, group) == [0, 0, 0]

        assert run(kafka, "rollback", group, "--confirm", group) == 0
        assert "nothing to do" in capsys.readouterr().out


def test_an_open_transaction_is_waited_for_by_the_operator(
    kafka: LocalKafka, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rewritten offset would replace that of the transaction, whose output would be produced again.

    That holds for a partition with an offset, and for one whose first offset the transaction brings.
    """
    for number, offset in ((0, 9), (2, 3)):
        consumer = joined(kafka, group)
        if number == 0:
            consumer.commit(offsets=[TopicPartition(group, 0, 5, LATCHED[0][0])], asynchronous=False)
        producer = Producer({**kafka.client_config(), "transactional.id": f"{group}-{number}"})
        producer.init_transactions(BOUND)
        producer.begin_transaction()
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(group, number, offset, "fg1;model=v2")], metadata, BOUND)
        leave_group(consumer)
        assert run(kafka, "rollback", group, "--confirm", group) == 1
        assert f"open transaction holds the offset of {group}[{number}]" in capsys.readouterr().err
        producer.commit_transaction(BOUND)
        until_offset(kafka, group, number, offset)
    assert run(kafka, "rollback", group, "--confirm", group) == 0


def until_offset(kafka: LocalKafka, group: str, number: int, offset: int) -> None:
    reader = GroupReader(kafka.client_config(), group)
    end = time.monotonic() + BOUND
    while reader.offsets([(group, number)])[group, number] != (offset, Mark(Model.V2)):
        assert time.monotonic() < end


def test_a_group_that_moves_meanwhile_is_left_alone(kafka: LocalKafka, group: str) -> None:
    """The group has changed since it was read: the old offset is not written over the new one."""
    consumer = joined(kafka, group)
    latch(kafka, group, consumer)
    leave_group(consumer)
    rollback = Rollback.connect(kafka.client_config(), group, to=Model.BRIDGE, latch_topic=None, timeout=BOUND)
    plan = rollback.plan()
    late = joined(kafka, group)
    late.commit(offsets=[TopicPartition(group, 0, 50, "fg1;model=v2|theirs")], asynchronous=False)
    with pytest.raises(RollbackRefused, match="not empty"):
        rollback.carry_out(plan)
    leave_group(late)
    with pytest.raises(RollbackRefused, match="has moved since"):
        rollback.carry_out(plan)
    assert marks(kafka, group) == [(50, Mark(Model.V2, "theirs")), *BEFORE[1:]]
    rollback.carry_out(rollback.plan())
    assert marks(kafka, group) == [(50, Mark(Model.BRIDGE, "theirs")), *AFTER[1:]]


def test_on_a_terminal_the_operator_types_the_name_of_the_group(kafka: LocalKafka, group: str) -> None:
    """Any other input changes nothing, nor does a run without a terminal and without --confirm."""
    consumer = joined(kafka, group)
    latch(kafka, group, consumer)
    leave_group(consumer)
    assert on_terminal(kafka, group, None) == 64
    assert on_terminal(kafka, group, "yes") == 1
    assert marks(kafka, group) == BEFORE
    assert on_terminal(kafka, group, group) == 0
    assert marks(kafka, group) == AFTER


def on_terminal(kafka: LocalKafka, group: str, answer: str | None) -> int:
    """Run the command as a process that reads from a terminal, or (None) from nothing."""
    words = ["rollback", "--bootstrap-server", kafka.bootstrap, "--group", group, "--to", "bridge"]
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "featuregate", "group", *words],
            stdin=subprocess.DEVNULL if answer is None else theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if answer is not None:
            os.write(ours, f"{answer}\n".encode())
        return process.wait(BOUND)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.proof("switch")
def test_a_properties_file_of_kafkas_own_tools_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TLS and SCRAM in Java's spelling: a truststore and a login module."""
    with LocalKafka("4.2.0", security="SASL_SSL", sasl_mechanism="SCRAM-SHA-512") as kafka:
        config = kafka.client_config()
        file = tmp_path / "client.properties"
        login = f'ScramLoginModule required username="{config["sasl.username"]}" password="{config["sasl.password"]}";'
        file.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={config['ssl.ca.location']}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.scram.{login}\n"
        )
        assert run(kafka, "show", "orders", "--command-config", str(file), "--output", "json") == 2
        assert "group orders: brokers know no such group" in capsys.readouterr().err, "it was asked, and authenticated"
