"""A latch store in a compacted topic of the cluster itself, for containers without a volume."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import OFFSET_BEGINNING

from featuregate.errors import ConfigError, LatchStoreError
from featuregate.gating.latches import LatchState, join
from featuregate.logs import get_logger
from featuregate.printable import as_unicode, some
from featuregate_confluent.client import clients
from featuregate_confluent.client.compacted_topic import ANY_PARTITION, CompactedTopic
from featuregate_confluent.errors import SwitchError
from featuregate_confluent.latch.latch_records import (
    KeptRecords,
    ReadLatches,
    group_records_of,
    group_state_of,
    key_prefix,
    records_of,
    stage_keys,
    state_of,
    superseded,
)

if TYPE_CHECKING:
    from featuregate_confluent.latch.group_agreement import GroupLatch, GroupLatchState

logger = get_logger("featuregate")

LATCH_TOPIC: Final = "featuregate-latches"
_MOST_NAMED: Final = 3


class TopicLatchStore(CompactedTopic):
    """Keeps the latches of an app in a compacted topic, which all instances of the app share.

    .. code-block:: python

        fg.Discoverer(config, latch_store=TopicLatchStore(config, app="orders"))

    Parameters
    ----------
    config
        The app's properties; only those about the connection are used.
    app
        The name that all instances of the app share. Apps of other names have latches of their own in the same topic.
    topic
        The topic. It must exist, with ``cleanup.policy=compact`` and nothing else.
    timeout
        Seconds for one call, which reads the topic and may write to it, at the most; and two seconds in which an answer
        may come late.

    Notes
    -----
    Reading needs the rights READ and DESCRIBE_CONFIGS on the topic, and writing WRITE. Nothing stays open between two
    calls, so that a forked child may go on. Each poll reads the topic. While all brokers are down the topic cannot be
    read, and no gate starts from its latch.
    """

    def __init__(self, config: Mapping[str, Any], *, app: str, topic: str = LATCH_TOPIC, timeout: float = 10.0) -> None:
        if not str(app).strip() or as_unicode(str(app)) != str(app):
            raise ConfigError("app", f"must be the name that all instances of the app share, not {app!r}")
        super().__init__(topic, config)
        self._app = app
        self._timeout = timeout
        self.unread: str | None = None
        """What the last call has left out of the topic, and why; None where it has read all."""

    def __repr__(self) -> str:
        return f"TopicLatchStore({self.topic!r}, app={self._app!r})"

    def load(self, cluster_id: str) -> LatchState | None:
        """Return the state of this cluster; see :meth:`featuregate.LatchStore.load`."""
        until = self._until()
        state = self._state_of(cluster_id, self._read(until, cluster_id), until).state
        return state if state != LatchState(cluster_id=cluster_id) else None

    def save(self, state: LatchState) -> LatchState:
        """Write what the topic does not have yet; see :meth:`featuregate.LatchStore.save`."""
        if state.cluster_id is None:
            raise LatchStoreError(self.topic, "a cluster without an id has no place on a latch store")
        until = self._until()
        records = self._read(until, state.cluster_id)
        there = self._state_of(state.cluster_id, records, until)
        joined = join(there.state, state)
        known = dict(records)
        wanted = records_of(self._app, joined)
        self._save({key: value for key, value in wanted.items() if known.get(key) != value}, until)
        self._save(
            dict.fromkeys(superseded(known, key_prefix(self._app, state.cluster_id), wanted, there.damaged)), until
        )
        return joined

    def load_group(self, key: GroupLatch) -> GroupLatchState:
        """Return what the members of a group have written; see :class:`~featuregate_confluent.GroupGate`."""
        return group_state_of(self._app, key, self._read(self._until(), key.cluster_id))

    def save_group(self, key: GroupLatch, state: GroupLatchState, *, gone: Collection[str] = ()) -> None:
        """Write what the topic may not have yet, and forget members that have gone."""
        until = self._until()
        self._save(dict(group_records_of(self._app, key, state)), until)
        if gone:
            known = {name for name, _ in self._read(until, key.cluster_id)}
            self._save(dict.fromkeys(stage_keys(self._app, key, known, gone)), until)

    def _until(self) -> float:
        return time.monotonic() + self._timeout

    def _state_of(self, cluster_id: str, records: list[tuple[bytes, bytes]], until: float) -> ReadLatches:
        read = state_of(self._app, cluster_id, self._in_time(records, until))
        damaged = read.damaged
        unread = f"{self.topic}: {some(damaged.values(), _MOST_NAMED, '; ')}" if damaged else None
        if unread and unread != self.unread:
            logger.error("%s", unread)
        self.unread = unread
        return read

    def _in_time(self, records: list[tuple[bytes, bytes]], until: float) -> Iterator[tuple[bytes, bytes]]:
        """Yield records until the time is over: a requirement in one may take a while to read."""
        for record in records:
            if time.monotonic() > until:
                raise LatchStoreError(self.topic, f"its records were not read within {self._timeout:g} s")
            yield record

    def _read(self, until: float, cluster_id: str) -> list[tuple[bytes, bytes]]:
        """Read the topic from its beginning: a topic that was made again begins at other offsets.

        Returns each value of a key of this app and cluster that no tombstone follows, in the order of their partition.
        """
        found = KeptRecords(key_prefix(self._app, cluster_id))
        try:
            partitions = self._check(max(until - time.monotonic(), 0.1))
            with closing(clients.reader(self._config, self._app, isolation="read_uncommitted")) as consumer:
                begin = dict.fromkeys(partitions, OFFSET_BEGINNING)
                late = f"it was not read to its end within {self._timeout:g} s"
                self._read_to_ends(consumer, lambda each: found.take(each.key(), each.value()), begin, until, late)
        except (SwitchError, OverflowError) as error:
            raise LatchStoreError(self.topic, str(error)) from error
        return found.records()

    def _save(self, records: Mapping[bytes, bytes | None], until: float) -> None:
        try:
            self._write({(ANY_PARTITION, key): value for key, value in records.items()}, until)
        except SwitchError as error:
            raise LatchStoreError(self.topic, str(error)) from error
