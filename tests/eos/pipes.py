"""One pipe: where an exactly-once app reads, where it writes, and in which group."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import pytest
from topics import create_topics
from waiting import BOUND

from featuregate.testing import LocalKafka
from featuregate_confluent.client.group import GroupReader
from featuregate_confluent.client.pending import GroupUnreadable

if TYPE_CHECKING:
    from confluent_kafka import Message

__all__ = ["BOUND", "QUIET", "SHORT_GROUPS", "Input", "Pipe", "came_from", "on", "provenance"]

SILENT = logging.getLogger("eos.silent")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False

QUIET: dict[str, object] = {"logger": SILENT, "log_level": 0, "error_cb": lambda _error: None}
"""Clients that are fenced, or of which brokers are killed, have much to say."""

SHORT_GROUPS = {"group.min.session.timeout.ms": 500}
"""What brokers need to be told so that a stalled member is out of its group within seconds."""

Input = tuple[int, int]
"""Where an input is: its partition and offset."""

_serials = count(1)


def on(version: str) -> pytest.MarkDecorator:
    """Run a test on one broker of that release, which the fixture ``kafka`` of its module starts."""
    return pytest.mark.parametrize("kafka", [version], indirect=True, scope="module")


@dataclass(frozen=True, slots=True)
class Pipe:
    """The input topic, the output topic and the group of one app, on one cluster."""

    client: Mapping[str, object] = field(repr=False)
    group: str
    source: str
    sink: str
    partitions: int = 1

    @classmethod
    def on(cls, kafka: LocalKafka, name: str = "pipe", *, partitions: int = 1) -> Pipe:
        """Make both topics, replicated as far as the cluster can, under names that no other pipe has."""
        name = f"{name}-{os.getpid()}-{next(_serials)}"  # several processes share the broker
        pipe = cls(kafka.client_config(QUIET), f"{name}-group", f"{name}-in", f"{name}-out", partitions)
        replicas = min(3, len(kafka.nodes))
        kind = {"partitions": partitions, "replicas": replicas, "min_insync_replicas": max(1, replicas - 1)}
        create_topics(pipe.client, pipe.source, pipe.sink, **kind)
        return pipe

    @property
    def bootstrap(self) -> str:
        return str(self.client["bootstrap.servers"])

    def members(self) -> dict[str, str]:
        """Ask the group's coordinator for the members: client ids by member id.

        A plain admin client with a request timeout aborts the process where the coordinator is away for that long.
        """
        with closing(GroupReader(self.client, self.group)) as reader:
            return {member.member_id: member.client_id for member in reader.members(BOUND).members}

    def is_member(self, client_id: str) -> bool | None:
        """Ask whether a client with such a name, tagged or not, is in the group; None if the group cannot be read."""
        try:
            return any(name.startswith(client_id) for name in self.members().values())
        except GroupUnreadable:
            return None

    def committed(self) -> dict[int, int]:
        """Ask for the offset from which the group goes on, of each partition of the input topic that has one."""
        with closing(GroupReader(self.client, self.group)) as reader:
            found = reader.offsets(timeout=BOUND)
        return {partition: offset for (_, partition), (offset, _) in found.items() if offset is not None}


def provenance(message: Message) -> list[tuple[str, bytes]]:
    told = {"fg.topic": message.topic(), "fg.partition": message.partition(), "fg.offset": message.offset()}
    return [(name, str(value).encode()) for name, value in told.items()]


def came_from(message: Message) -> Input:
    headers = dict(message.headers() or ())
    return int(headers["fg.partition"]), int(headers["fg.offset"])
