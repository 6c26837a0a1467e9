"""The apps of ``make demo``: each is a consumer group of two processes, which the demo can stop at any moment."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.testing.local_kafka.processes import ChildProcess, ProcessGroup

REQUEST_SECONDS = 10.0
STOP_SECONDS = 20.0
TAIL = 8192
"""Bytes that hold the last line of a status file."""

log = logging.getLogger("demo")
log.addHandler(logging.NullHandler())  # brokers are rolled here, and librdkafka logs each lost connection


class Instance:
    """One process of an app."""

    def __init__(self, name: str, child: ChildProcess, status_file: Path) -> None:
        self.name = name
        self.child = child
        self._status_file = status_file

    def counts(self) -> list[tuple[int, int]]:
        """Return how many transactions were committed and aborted, for each status line, oldest first."""
        return [(each["committed"], each["aborted"]) for each in self._read(0)]

    def status(self) -> dict[str, Any] | None:
        """Return the last status line; None before the first."""
        return next(reversed(self._read(TAIL)), None)

    def at_work(self) -> bool:
        """Say whether its transaction is open and not yet in its commit, as the naive app tells; others always are."""
        return (self.status() or {}).get("stage", "working") == "working"

    def committed(self) -> int:
        """Return how many transactions it has committed."""
        return int((self.status() or {}).get("committed", 0))

    def _read(self, last: int) -> list[dict[str, Any]]:
        """Return the complete lines of the last bytes of the file; 0: of the whole file."""
        if not self._status_file.exists():
            return []
        with self._status_file.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - last, 0) if last else 0)
            lines = file.read().split(b"\n")
        begun = [] if not last or size <= last else lines[:1]
        return [json.loads(line) for line in lines[len(begun) : -1]]


class Group:
    """Two instances of an app in one consumer group, with its own input and output topic."""

    def __init__(self, name: str, bootstrap: str, *, partitions: int) -> None:
        self.name = name
        self.input, self.output = f"{name}-in", f"{name}-out"
        self.instances: list[Instance] = []
        self._partitions = [TopicPartition(self.input, number) for number in range(partitions)]
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap}, logger=log)
        self._observer = Consumer({"bootstrap.servers": bootstrap, "group.id": name}, logger=log)

    def start(self, script: Path, family: ProcessGroup, options: Sequence[str], *, count: int = 2) -> None:
        """Start the instances."""
        for number in range(1, count + 1):
            name = f"{self.name}-{number}"
            status = family.folder / f"{name}.status"
            command: list[str | Path] = [
                sys.executable,
                script,
                *self._options(),
                "--instance-id",
                name,
                "--status-file",
                status,
            ]
            child = family.start([*command, *options], log=family.folder / f"{name}.log")
            self.instances.append(Instance(name, child, status))

    def _options(self) -> Iterator[str]:
        yield from ("--bootstrap", self._bootstrap, "--group", self.name, "--app-id", self.name)
        yield from ("--input", self.input, "--output", self.output)

    def stop(self) -> None:
        """Send SIGTERM to all instances and wait; kill an instance that does not end."""
        self._observer.close()
        for instance in self.instances:
            instance.child.terminate()
        for instance in self.instances:
            if not instance.child.wait(STOP_SECONDS):
                instance.child.kill()

    def check(self) -> None:
        """Raise an error if an instance has ended by itself."""
        for instance in self.instances:
            if instance.child.state == "exited":
                raise RuntimeError(f"{instance.name} ended by itself, with exit code {instance.child.exit_code}")

    def whole(self) -> bool:
        """Return whether all instances are members of the stable group."""
        return self.state() == f"Stable with {len(self.instances)} members"

    def state(self) -> str:
        """Return the state of the group and the number of its members."""
        group = self._describe()
        return f"{group.state} with {len(group.members)} members"

    def coordinator(self) -> int:
        """Return the id of the broker that coordinates the group."""
        return int(self._describe().broker.id)

    def _describe(self) -> Any:
        """Describe the group through every broker, so that a new coordinator is found."""
        found = self._admin.list_groups(self.name, timeout=REQUEST_SECONDS)
        known = [group for group in found if str(group.state) not in ("", "Dead")]
        if not known:
            raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE))
        return known[0]

    def offsets(self) -> dict[int, int]:
        """Return the committed offset of each input partition; 0 if there is none.

        A consumer asks, because librdkafka's admin request may end the process when the coordinator changes.
        """
        found = self._observer.committed(self._partitions, REQUEST_SECONDS)
        return {one.partition: max(one.offset, 0) for one in found}
