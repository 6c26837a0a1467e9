"""The transactional producers of this member: opened when a partition is assigned, closed when it is revoked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException, Producer

from featuregate.logs import get_logger
from featuregate_confluent.client.committed import named
from featuregate_confluent.config import settings
from featuregate_confluent.config.options import partition_transactional_id, process_transactional_id
from featuregate_confluent.errors import MustRejoin, SwitchFatal
from featuregate_librdkafka.error_table import ErrorAction
from featuregate_librdkafka.transaction_calls import CallFailed, ConnectionWatch, TransactionalProducer, close_producer

if TYPE_CHECKING:
    from featuregate_confluent.latch.protocol import Partition

logger = get_logger("featuregate.confluent.producer")

TAKE_SECONDS: Final = 60.0
CLOSE_SECONDS: Final = 3.0
"""Enough: the next producer with this id, or the broker, aborts a transaction that is still open."""
_AT_ONCE: Final = 16
"""Producers that are opened or closed at the same time: each waits for its coordinator nearly all of the time."""


class WatchedProducer(Producer):
    """A producer that notices when it may have sent a request twice."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.watch = ConnectionWatch(logger)
        super().__init__(self.watch.config(config))


@dataclass(eq=False, repr=False)
class Producers:
    """The producers that this member has open, by partition, and the one of the process."""

    config: Mapping[str, Any]
    _: KW_ONLY
    app_id: str
    process: str
    name_of: Callable[[str, Partition], str] = partition_transactional_id
    timeout: float = TAKE_SECONDS
    _by_partition: dict[Partition, WatchedProducer] = field(default_factory=dict, init=False)
    _for_process: WatchedProducer | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._by_partition) + (self._for_process is not None)

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._by_partition

    def for_partition(self, partition: Partition) -> Producer:
        """Return the producer of a partition."""
        return self._by_partition[partition]

    @property
    def for_process(self) -> Producer:
        """The one producer of the v2 model, made at its first use. Raises MustRejoin, SwitchFatal."""
        if self._for_process is None:
            self._for_process = self._make(process_transactional_id(self.app_id, self.process))
        return self._for_process

    def id_of(self, producer: Producer) -> str:
        """Return the transactional id of a producer, for an error."""
        found = next((key for key, kept in self._by_partition.items() if kept is producer), None)
        if found is None:
            return process_transactional_id(self.app_id, self.process)
        return self.name_of(self.app_id, found)

    def poll(self) -> None:
        """Serve callbacks and logs of every producer, also of idle ones.

        confluent-kafka raises a fatal error from here. The producer's next transaction fails with the same error.
        """
        for producer in (*self._by_partition.values(), *([self._for_process] if self._for_process else ())):
            _poll(producer)

    def ended(self, producer: Producer, seconds: float) -> None:
        """Note how long the commit or the abort of a transaction took."""
        if isinstance(producer, WatchedProducer):
            producer.watch.took(seconds)

    def renew(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Replace the producers of these partitions, and of the process, that may have sent a request twice.

        No transaction may be open. Return the partitions: their offsets have to be read again (R8). See
        :mod:`featuregate_librdkafka.transaction_calls`. Raises as :attr:`for_process`.
        """
        if self._for_process is not None and self._doubts(self._for_process):
            self.discard(self._for_process)  # the next use makes another
        mine = self._by_partition
        doubted = [key for key in partitions if key in mine and self._doubts(mine[key])]
        self.open(doubted)
        return doubted

    def _doubts(self, producer: WatchedProducer) -> bool:
        _poll(producer)
        if producer.watch.doubt is None:
            return False
        logger.info("the producer %s is replaced: %s", self.id_of(producer), producer.watch.doubt)
        return True

    def open(self, partitions: Collection[Partition]) -> None:
        """Open the producers of partitions, which fences the previous producers with these ids.

        Raises as :attr:`for_process`.
        """
        self.close_for([partition for partition in partitions if partition in self._by_partition])
        self._by_partition |= self._make_all(partitions)

    def fence(self, partitions: Collection[Partition]) -> None:
        """Fence the producers that have the ids of these partitions, and keep no producer open.

        Raises as :attr:`for_process`.
        """
        _close_all(self._make_all(partitions).values())

    def close_for(self, partitions: Iterable[Partition]) -> None:
        """Close the producers of partitions; an open transaction of theirs is aborted."""
        mine = (self._by_partition.pop(partition, None) for partition in partitions)
        _close_all([producer for producer in mine if producer is not None])

    def open_for_process(self) -> None:
        """Open the producer of the process, and then close those of all partitions. Raises as :attr:`for_process`."""
        _ = self.for_process
        self.close_for(list(self._by_partition))

    def discard(self, producer: Producer) -> None:
        """Forget and close a producer that was fenced, or whose transaction has an unknown end."""
        self.abandon(producer)
        _close(producer)

    def abandon(self, producer: Producer) -> None:
        """Forget a producer without a call to it: one that is in use, or whose transaction has to stay open.

        It is freed when no call uses it any more. The next producer with its id, or the broker, ends the transaction.
        """
        self._by_partition = {key: kept for key, kept in self._by_partition.items() if kept is not producer}
        if self._for_process is producer:
            self._for_process = None

    def close(self) -> None:
        """Close every producer."""
        self.close_for(list(self._by_partition))
        if self._for_process is not None:
            self.discard(self._for_process)

    def _make_all(self, partitions: Collection[Partition]) -> dict[Partition, WatchedProducer]:
        if not partitions:
            return {}
        ids = self._ids(partitions)
        with ThreadPoolExecutor(min(_AT_ONCE, len(partitions)), thread_name_prefix="featuregate-take") as pool:
            pending = {partition: pool.submit(self._make, ids[partition]) for partition in partitions}
        made = {key: future.result() for key, future in pending.items() if future.exception() is None}
        if len(made) < len(pending):
            _close_all(made.values())
            raise next(error for future in pending.values() if (error := future.exception()) is not None)
        return made

    def _ids(self, partitions: Collection[Partition]) -> dict[Partition, str]:
        """Return the transactional ids of partitions, with those that are open already: each has its own."""
        names = {key: self.name_of(self.app_id, key) for key in (*self._by_partition, *partitions)}
        owners: dict[str, Partition] = {}
        for key, name in names.items():
            first = owners.setdefault(name, key)
            if first != key:
                raise SwitchFatal(
                    f"name_of gives {named([first, key])} one transactional id, {name!r}, so that their producers "
                    "would fence each other: make it from the topic and the partition"
                )
        return names

    def _make(self, transactional_id: str) -> WatchedProducer:
        config = settings.producer_config(self.config, transactional_id=transactional_id)
        try:
            producer = WatchedProducer(config)
        except KafkaException as failure:
            raise SwitchFatal(f"the producer's properties are refused: {failure.args[0].str()}") from failure
        try:
            TransactionalProducer(producer).initialize(self.timeout)
        except CallFailed as failed:
            _close(producer)
            why = f"transactional id {transactional_id!r} could not be taken: {failed}"
            raise (SwitchFatal if failed.action is ErrorAction.FATAL else MustRejoin)(why) from failed.__cause__
        return producer


def _poll(producer: Producer) -> None:
    try:
        producer.poll(0)
    except KafkaException as failure:
        logger.info("a producer has failed: %s", failure.args[0])


def _close_all(producers: Collection[Producer]) -> None:
    if not producers:
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(producers)), thread_name_prefix="featuregate-close") as pool:
        list(pool.map(_close, producers))


def _close(producer: Producer) -> None:
    try:
        close_producer(producer, CLOSE_SECONDS)
    except KafkaException as error:  # it is gone either way, and its transaction with it
        logger.debug("a producer was closed with %s", error)
    except TimeoutError:
        logger.warning("a producer did not close within %g s: it is left behind, with its threads", CLOSE_SECONDS)
