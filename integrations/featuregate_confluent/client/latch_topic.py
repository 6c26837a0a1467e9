"""The compacted topic that keeps a group's latch against offsets that expire or are reset (R11).

.. code-block:: text

    key      fg1|orders||model|kip447|v2    group, gate and model, in the grammar of all latches
    value    fg1;model=v2                   as in an offset's metadata; no value (a tombstone): an operator took it back

One key for each model makes a set that only grows: a late writer of a lower model overwrites nothing. No cluster is
named: offsets, too, are those of the cluster that has them. So one topic may hold these records and those of
:class:`~featuregate_confluent.TopicLatchStore`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Message

from featuregate_confluent.client import clients
from featuregate_confluent.client.compacted_topic import GRACE, CompactedTopic, Place, Reading
from featuregate_confluent.errors import UnknownMark
from featuregate_confluent.latch import marks
from featuregate_confluent.latch.latch_records import record_key
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.models import BY_LABEL, Model


class LatchTopic(CompactedTopic):
    """The latch of one group, in a compacted topic that many groups may share. Nothing stays open between two calls.

    Reading needs the rights READ and DESCRIBE_CONFIGS on the topic, and DESCRIBE on the group; writing needs WRITE on
    the topic.
    """

    def __init__(self, topic: str, config: Mapping[str, Any], *, group: str, gate: str) -> None:
        super().__init__(topic, config)
        self._group = group
        self._prefix = record_key(group, "", "model", gate, "")

    def record(self, model: Model) -> tuple[str, bytes, bytes]:
        """Return topic, value and key of what to produce in the same transaction as the first commit of a model."""
        return self.topic, marks.write(Mark(model)).encode(), self._prefix + model.label.encode()

    def read(self, timeout: float) -> Model | None:
        """Return the highest model that the topic holds for this group and gate; None: it holds none.

        Only what was committed counts. A record that another producer's open transaction hides is waited for. Raises
        LatchTopicError, LatchTopicUnreadable, UnknownMark.
        """
        return max((self._model(key, value) for (_, key), value in self._held(timeout).items()), default=None)

    def erase(self, timeout: float) -> int:
        """Write a tombstone over each record of this group and gate, for a rollback; return how many there were.

        Records of newer software go, too. Raises `LatchTopicError` where that is not done within ``timeout`` seconds.
        """
        until = time.monotonic() + timeout
        held = self._held(timeout)
        self._write(dict.fromkeys(held), max(until, time.monotonic() + GRACE))
        return len(held)

    def _model(self, key: bytes, value: bytes) -> Model:
        """Read one record. What its value says beyond our format cannot lower what its key says."""
        marks.read(value.decode(errors="replace"))
        label = key.removeprefix(self._prefix).decode(errors="replace")
        if label not in BY_LABEL:
            raise UnknownMark(key.decode(errors="replace"))
        return BY_LABEL[label]

    def _held(self, timeout: float) -> dict[Place, bytes]:
        """Return what the topic holds for this group and gate, by key; wait where a transaction hides some of it.

        A consumer with ``read_committed`` comes to the last stable offset, which is where the oldest transaction began
        that is open in the partition. Whatever follows is hidden from it, committed or not.
        """
        until = time.monotonic() + timeout
        partitions = self._check(timeout)
        held: dict[Place, bytes] = {}
        with closing(clients.reader(self._config, self._group)) as consumer:
            late = f"it was not read to its end within {timeout:g} s. Try again"
            begin = dict.fromkeys(partitions, OFFSET_BEGINNING)
            reading = self._read_to_ends(consumer, lambda message: self._take(held, message), begin, until, late)
            undecided = self._hidden(reading, until, late)
            self._read_until(
                reading,
                lambda: all(reading.ends[number] > last for number, last in undecided.items()),
                until,
                f"a transaction of another producer has not ended within {timeout:g} s, and hides a record of this "
                f"group behind it, in partition {min(undecided, default=0)}. Brokers end it after its "
                "transaction.timeout.ms: try again. If it never ends, kafka-transactions.sh finds and aborts it",
            )
        return held

    def _hidden(self, stable: Reading, until: float, late: str) -> dict[int, int]:
        """Return the last offset of each partition at which a record of ours is hidden by another transaction."""
        behind = stable.hidden(self.topic)
        last: dict[int, int] = {}
        if not behind:
            return last

        def note(message: Message) -> None:
            partition, offset = message.partition() or 0, message.offset() or 0
            # A record at the last stable offset itself is of the transaction that is open there: it is not committed.
            if self._is_ours(message) and offset > behind[partition]:
                last[partition] = offset

        with closing(clients.reader(self._config, self._group, isolation="read_uncommitted")) as consumer:
            self._read_to_ends(consumer, note, behind, until, late)
        return last

    def _take(self, held: dict[Place, bytes], message: Message) -> None:
        if not self._is_ours(message):
            return
        place = (message.partition() or 0, message.key() or b"")
        value = message.value()
        if isinstance(value, bytes):
            held[place] = value
        else:
            held.pop(place, None)

    def _is_ours(self, message: Message) -> bool:
        """Whether a record is of this group and gate; others are of other groups, or of other software."""
        key = message.key()
        return isinstance(key, bytes) and key.startswith(self._prefix)
