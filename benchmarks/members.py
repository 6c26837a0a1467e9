"""Members as processes of their own, the input that is fed to them, and what they hold open."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple, Self

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from switching import QUIET, Options, Turn

SECONDS = 60.0
"""No answer takes that long; a machine that is busy with something else must not end a run."""
VALUE = 100
"""Bytes of a message."""
OVERHEAD = 30
"""Bytes that Kafka adds to a message, about, and its key."""
BATCH_HEADER = 61


class Held(NamedTuple):
    """What a process holds open."""

    clients: int
    """Clients of librdkafka: the consumer, each producer, and any other. Each has one main thread."""
    threads: int
    connections: int
    resident: float
    """MiB."""


class Process:
    """One member, from outside."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("member.py")), options.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = Thread(target=self._read, name=f"reads {options.group}", daemon=True)
        self._reader.start()
        self.seen = psutil.Process(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def turn(self) -> Turn:
        """Wait for the end of a turn."""
        for _ in range(int(SECONDS)):
            try:
                return Turn(*json.loads(self._lines.get(timeout=1.0)))
            except Empty:
                if self._process.poll() is not None:
                    break
        raise RuntimeError(
            f"{self.options.loop}, {self.options.model}: no turn ended; exit code {self._process.poll()}"
        )

    def held(self) -> Held:
        names = [name.read_text().strip() for name in Path(f"/proc/{self.seen.pid}/task").glob("*/comm")]
        return Held(
            clients=names.count("rdk:main"),
            threads=len(names),
            connections=sum(found.status == psutil.CONN_ESTABLISHED for found in self.seen.net_connections("tcp")),
            resident=self.seen.memory_info().rss / 2**20,
        )

    def kill(self) -> None:
        """End it without warning."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Let it end by itself, with its group told."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(SECONDS)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.kill()
        finally:
            self._reader.join(SECONDS)
            self._process.stdout.close()


@contextmanager
def topics(bootstrap: str, partitions: Mapping[str, int], replicas: int) -> Iterator[None]:
    """Have topics, and remove them with what is in them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(name, count, replicas) for name, count in partitions.items()])
    for future in made.values():
        future.result(SECONDS)
    try:
        yield
    finally:
        for future in admin.delete_topics(list(partitions)).values():
            future.result(SECONDS)


class Feed:
    """Gives a topic's readers all messages of a turn at one moment: they are committed together.

    Each partition's messages are written in batches of an equal share of ``batch``, and readers with `fetching` fetch
    one batch of each partition at a time. So what they consume is spread over all partitions, as a live stream is,
    not thousands of one partition and then thousands of the next, as librdkafka gives a backlog.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, batch: int) -> None:
        self._topic = topic
        self._partitions = partitions
        self._share = max(1, batch // partitions)
        self._numbers = itertools.count()
        self._value = os.urandom(VALUE)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"feeds-{topic}",
                "linger.ms": 1000,
                "batch.num.messages": self._share,
                "queue.buffering.max.messages": 1_000_000,
                **QUIET,
            }
        )
        self._producer.init_transactions(SECONDS)

    @property
    def fetching(self) -> dict[str, int]:
        """The consumer's property that keeps partitions mixed."""
        return {"max.partition.fetch.bytes": BATCH_HEADER + self._share * (VALUE + OVERHEAD)}

    def partition_of(self, key: bytes | None) -> int:
        """Say to which partition the message with this key went."""
        assert key is not None
        return int(key) // self._share % self._partitions

    def give(self, messages: int) -> None:
        self._producer.begin_transaction()
        for number in itertools.islice(self._numbers, messages):
            key = b"%012d" % number
            self._producer.produce(self._topic, self._value, key=key, partition=self.partition_of(key))
        self._producer.commit_transaction(SECONDS)
