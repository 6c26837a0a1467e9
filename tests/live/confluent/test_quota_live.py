"""The pace of rounds on a real broker: under a quota of the producer, and with a transform of fixed seconds."""

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from eos.pipes import BOUND, SHORT_GROUPS, Pipe
from eos.processors import Running
from waiting import eventually

from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.commands import Installation
from featuregate_confluent import RoundTooLong
from featuregate_confluent.events import RoundExceededLimit, TransactionAborted, TransactionCommitted

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.proof("switch")]

RELEASE = "4.2.0"
SIZE = 40_000
QUOTA = 1_500_000
"""Bytes a second: 37 messages."""
SECONDS = 60.0


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka(RELEASE, properties=SHORT_GROUPS) as cluster:
        yield cluster


def limit_producers(kafka: LocalKafka, folder: Path, rate: int, client: str) -> None:
    words = ["--bootstrap-server", kafka.bootstrap, "--alter", "--entity-type", "clients", "--entity-name", client]
    words += ["--add-config", f"producer_byte_rate={rate}"]
    command = Installation.of(RELEASE, folder).tool("kafka.admin.ConfigCommand", words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Completed updating" in done.stdout, done


def feed(pipe: Pipe, count: int, size: int) -> None:
    producer = Producer({**pipe.client, "message.max.bytes": 10_000_000})
    for _ in range(count):
        eventually(lambda: _sent(producer, pipe.source, size), "the producer has room")
    assert producer.flush(BOUND) == 0


def _sent(producer: Producer, topic: str, size: int) -> bool:
    try:
        producer.produce(topic, b"x" * size)
    except BufferError:
        producer.poll(0.1)
        return False
    return True


def copies(pipe: Pipe) -> Callable[[Sequence[Message]], list[tuple[str, bytes | None]]]:
    return lambda messages: [(pipe.sink, each.value()) for each in messages]


def done(one: Running) -> int:
    return sum(event.messages for event in one.of(TransactionCommitted))


@pytest.mark.parametrize("model", ["bridge", "v2"])
def test_a_quota_is_used_up_and_few_rounds_are_lost_for_it(kafka: LocalKafka, tmp_path: Path, model: str) -> None:
    """The credit of the first seconds lets rounds grow, until one is lost; then they fit."""
    pipe = Pipe.on(kafka, "quota", partitions=3)
    limited = f"limited-{model}"
    limit_producers(kafka, tmp_path, QUOTA, limited)
    feed(pipe, 3000, SIZE)
    with Running(pipe, transform=copies(pipe), model=model, producer={"client.id": limited}) as one:
        eventually(lambda: done(one) > 0, "it has begun")
        began, before = time.monotonic(), done(one)
        eventually(lambda: time.monotonic() > began + SECONDS or not one.alive, "a minute is over", 2 * SECONDS)
        count, took, lost = done(one) - before, time.monotonic() - began, one.of(RoundExceededLimit)
        eventually(lambda: one.health["status"] == "ok", "it is well between commits, which take long")
    assert one.failure is None
    assert len(lost) <= 3, "rounds, each of which is a transaction for each of three partitions before v2"
    in_rounds_that_fit = took - sum(each.seconds for each in lost)
    assert count / in_rounds_that_fit >= 0.8 * QUOTA / SIZE


def test_a_record_that_no_quota_lets_through_is_named_within_a_minute(kafka: LocalKafka, tmp_path: Path) -> None:
    """The error names the message, the limit, and what to look for."""
    pipe = Pipe.on(kafka, "undelivered")
    limit_producers(kafka, tmp_path, 20_000, "stuck")
    feed(pipe, 500, 900_000)
    began = time.monotonic()
    with Running(pipe, transform=copies(pipe), model="v2", producer={"client.id": "stuck"}) as one:
        failure = one.ended()
    assert time.monotonic() - began < 120.0
    assert isinstance(failure, RoundTooLong)
    assert re.search(r"-in\[0\]@\d+ alone .* transaction\.timeout\.ms=10000 .*producer_byte_rate", str(failure))
    assert {event.limit for event in one.of(RoundExceededLimit)} == {"transaction.timeout.ms=10000"}
    assert all("transaction.timeout.ms=10000" in event.why for event in one.of(TransactionAborted))


def test_a_transform_of_two_fixed_seconds_gets_whole_rounds(kafka: LocalKafka) -> None:
    """The pace sees that a larger round takes no longer."""
    pipe = Pipe.on(kafka, "fixed")
    feed(pipe, 2000, 10)

    def bill(messages: Sequence[Message]) -> list[tuple[str, bytes | None]]:
        threading.Event().wait(2.0)
        return [(pipe.sink, each.value()) for each in messages]

    with Running(pipe, transform=bill, model="v2") as one:
        one.until(lambda health: health["round_size"] == 500, 45.0)
        eventually(lambda: done(one) == 2000, "all is done", 45.0)
        assert one.of(TransactionAborted) == []
    assert one.failure is None
