"""The switch for apps that own their loop: which producer for these messages, and when the model moves up.

It is used by one thread, that of the loop, but for :meth:`ProducerSwitch.health`.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from featuregate import Discoverer, presets
from featuregate_confluent import metadata, settings, slots
from featuregate_confluent.errors import MustRejoin, SwitchFatal
from featuregate_confluent.events import Committed, Fenced, RolledBack, Stopped, TookOver, teller
from featuregate_confluent.group import GroupReader, GroupUnread, stable_read
from featuregate_confluent.metadata import Mark
from featuregate_confluent.mirror import Mirror
from featuregate_confluent.models import Model, parse_wish
from featuregate_confluent.offsets import identity
from featuregate_confluent.ownership import Ownership, by_partition
from featuregate_confluent.producers import Producers, partition_id
from featuregate_confluent.protocol import ids_to_take
from featuregate_confluent.remedies import Remedy, remedy
from featuregate_confluent.standing import Standing
from featuregate_confluent.transaction import Transaction

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

    from featuregate_confluent.events import SwitchHook
    from featuregate_confluent.protocol import Partition

__all__ = ["ProducerSwitch"]

logger = logging.getLogger("featuregate.confluent")

GATE: Final = "kip447"
FENCED_AT_MOST: Final = 10
ABORTED_AT_MOST: Final = 50
FIRST_VIEW_SECONDS: Final = 15.0
_SLACK_SECONDS: Final = 30.0
"""Beyond its timeout: coordinators look for transactions that have timed out every ten seconds, and brokers restart."""
_PASSING: Final = frozenset({"_PARTITION_EOF", "_MAX_POLL_EXCEEDED", "UNKNOWN_TOPIC_OR_PART"})


class ProducerSwitch:
    """Moves one member of a consumer group from a producer for each partition to one for the process, and never back.

    .. code-block:: python

        switch = ProducerSwitch(consumer=..., producer=..., topics=["orders"], app_id="billing")
        consumer = Consumer(switch.consumer_config)
        switch.subscribe(consumer)
        while running:
            for transaction in switch.transactions(switch.consume(500, 0.2)):
                with transaction:
                    for message in transaction.messages:
                        transaction.produce("bills", message.value(), key=message.key())
        consumer.close()
        switch.close()

    On :class:`~featuregate_confluent.errors.MustRejoin` close the consumer, make another one and subscribe again.

    Parameters
    ----------
    consumer, producer
        The properties that the app would give confluent-kafka. Those that exactly-once needs are added; one that
        contradicts it raises.
    topics
        What to subscribe to; regular expressions begin with ``^``.
    app_id
        The name of the app, the same in all its processes: transactional ids begin with it.
    features
        The discoverer to ask about the cluster; by default one of its own, which is closed with the switch.
    model
        ``"auto"``, or ``"legacy"``, ``"bridge"`` or ``"v2"`` to pin one.
    instance_id
        The name of this process among its siblings, the same after a restart; by default the consumer's
        ``group.instance.id``.
    state_dir
        A folder of this machine: numbers the processes that have no instance id, and keeps the gate's latch.
    mirror
        A compacted topic that keeps the group's latch too, against offsets that expire or are reset.
    metrics
        Called with each :data:`~featuregate_confluent.events.SwitchEvent`.
    interval
        Seconds between polls of the cluster, where ``features`` is not given.
    group_interval
        Seconds between looks at the group, while it is on its way to v2.
    name_of
        How an input partition's transactional id is made: give the app's own, if it had exactly-once before.

    Raises
    ------
    ConfigError
        A property or parameter cannot be used.
    """

    def __init__(
        self,
        *,
        consumer: Mapping[str, Any],
        producer: Mapping[str, Any],
        topics: Sequence[str],
        app_id: str,
        features: Discoverer | None = None,
        model: str | Model | None = "auto",
        instance_id: str | None = None,
        state_dir: str | os.PathLike[str] | None = None,
        mirror: str | None = None,
        metrics: SwitchHook | None = None,
        interval: float = 15.0,
        group_interval: float = 3.0,
        name_of: Callable[[str, Partition], str] = partition_id,
    ) -> None:
        wish = parse_wish(model)
        self.topics = list(topics)
        self.consumer_config = settings.consumer_config(
            consumer, app_id=app_id, tag=Model.LEGACY if wish is Model.LEGACY else Model.BRIDGE
        )
        group_id = str(self.consumer_config["group.id"])
        produced = settings.producer_config(producer, transactional_id=app_id)
        self._takeover_seconds = int(produced["transaction.timeout.ms"]) / 1000 + _SLACK_SECONDS
        self._incremental = _is_incremental(self.consumer_config)
        self._own_features = features is None
        self._features = features or Discoverer(dict(consumer), interval=interval, shelf=state_dir)
        self._gate = gate = self._features.gate(GATE, presets.kip447)
        self._reader = GroupReader(self.consumer_config, group_id)
        self._mirror = Mirror(mirror, self.consumer_config, group=group_id, gate=GATE) if mirror else None
        name = instance_id or self.consumer_config.get("group.instance.id")
        self.slot = slots.claim(app_id, instance_id=name, state_dir=state_dir)
        """The name of this process among its siblings."""
        self._producers = Producers(producer, app_id=app_id, slot=self.slot.name, name_of=name_of)
        self.tell = teller(metrics)
        """Logs an event, and hands it to ``metrics``."""
        self._standing = Standing(
            wish=wish,
            gate=gate,
            reader=self._reader,
            mirror=self._mirror,
            topics=self.topics,
            tell=self.tell,
            every=group_interval,
        )
        self._consumer: Consumer | None = None
        self._ownership = Ownership()
        self._generation = -1
        self._failure: BaseException | None = None
        self._fenced_in_a_row = 0
        self._aborted_in_a_row = 0
        self._closed = False
        self.committed = 0
        """Transactions that were committed."""
        self.aborted = 0
        """Transactions that were aborted."""

    # ------------------------------------------------------------------ the loop

    def subscribe(self, consumer: Consumer) -> None:
        """Subscribe a consumer, which was made of ``consumer_config``, and follow its assignments."""
        self._features.wait(FIRST_VIEW_SECONDS)
        self._consumer = consumer
        self._ownership = Ownership()
        self._failure = None
        consumer.subscribe(self.topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)

    def consume(self, max_messages: int = 500, timeout: float = 0.2) -> list[Message]:
        """Consume up to ``max_messages`` of partitions that are this member's, for ``timeout`` seconds at most.

        Nothing comes where a rebalance happened meanwhile: what was in hand then comes again to whoever owns it (R9).

        Raises
        ------
        MustRejoin
            This member was replaced, or its partitions could not be taken over: make a new consumer.
        ModelRefused, UnknownMark, SwitchFatal
            This member must not take part as it is.
        """
        consumer, ownership = self._subscribed(), self._ownership
        if len(ownership):
            self._generation = identity(consumer.consumer_group_metadata()).generation
            if self._standing.only_in not in {None, self._generation}:
                self._take_over(consumer, [])  # the group moved on before the first commit in v2: decide again (R5)
            self._standing.look(self._generation)
            self._settle_producers()
        waiting = self._standing.danger() is not None
        rebalances = ownership.rebalances
        found = consumer.consume(1 if waiting else max_messages, timeout)  # also where it waits: it has to be polled
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        messages = [message for message in found if message.error() is None]
        if len(messages) != len(found):
            self._judge(found)
        if waiting or ownership.rebalances != rebalances:
            ownership.rewind(consumer, messages)
            return []
        return messages

    def transactions(self, messages: Sequence[Message]) -> Iterator[Transaction]:
        """Give the transactions in which to process messages that :meth:`consume` gave, each one to be run at once."""
        if not messages:
            return
        consumer, standing = self._subscribed(), self._standing
        parts = by_partition(messages)
        ends = {key: _end(some) for key, some in parts.items()}
        if standing.model.per_partition:
            for key, some in parts.items():
                yield Transaction(
                    keeper=self,
                    consumer=consumer,
                    producer=self._producers.of(key),
                    model=standing.model,
                    messages=some,
                    offsets={key: ends[key]},
                )
            return
        if standing.only_in is not None:  # the first commit in v2 marks whatever this member owns
            ends = self._ownership.positions() | ends
        yield Transaction(
            keeper=self,
            consumer=consumer,
            producer=self._producers.of_process,
            model=standing.model,
            messages=messages,
            offsets=ends,
            only_in=standing.only_in,
        )

    def close(self) -> None:
        """Close the producers, and what was opened to look at cluster and group. Closing twice is closing once.

        Close the consumer first, so that it leaves the group.
        """
        if self._closed:
            return
        self._closed = True
        self._producers.close()
        self._reader.close()
        self.slot.release()
        if self._own_features:
            self._features.close()
        self.tell(Stopped(committed=self.committed, aborted=self.aborted))

    # ------------------------------------------------------------------ what can be read from anywhere

    @property
    def model(self) -> Model:
        """The model of the next transaction."""
        return self._standing.model

    @property
    def latch(self) -> Model | None:
        """The highest model that the group is known to have committed in."""
        return self._standing.latch

    @property
    def generation(self) -> int:
        """The generation of the group that this member was last seen in; -1 before the first."""
        return self._generation

    def health(self) -> dict[str, Any]:
        """Return the state of this member for a periodic health check, as plain JSON-able values."""
        standing = self._standing
        return {
            "model": standing.model.label,
            "why": standing.why,
            "waiting": standing.waiting,
            "gate": self._gate.open,
            "gate_why": self._gate.decision.summary,
            "latch": None if standing.latch is None else standing.latch.label,
            "generation": self._generation,
            "partitions": len(self._ownership),
            "producers": len(self._producers),
            "slot": self.slot.name,
            "slot_is_stable": self.slot.stable,
            "committed": self.committed,
            "aborted": self.aborted,
            "discovery": self._features.health()["status"],
        }

    # ------------------------------------------------------------------ assignments; these run within consume()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        new = [(partition.topic, partition.partition) for partition in partitions]
        try:
            self._take_over(consumer, new)
            assign = consumer.incremental_assign if self._incremental else consumer.assign
            assign(self._ownership.places(new))
        except Exception as error:  # noqa: BLE001 - consume() raises it, once the callback has returned
            self._failure = error

    def _take_over(self, consumer: Consumer, new: list[Partition]) -> None:
        """Take over new partitions; where the group cannot be read, nothing is, and the member joins again."""
        try:
            self._take(consumer, new)
        except GroupUnread as unread:
            refused = unread.error is not None and remedy(unread.error) is Remedy.FATAL
            raise (SwitchFatal if refused else MustRejoin)(str(unread)) from unread

    def _take(self, consumer: Consumer, new: list[Partition]) -> None:
        """Take the ids of new partitions, then read where to go on (R8)."""
        began, standing = time.monotonic(), self._standing
        self._generation = generation = identity(consumer.consumer_group_metadata()).generation
        peeked = standing.assigned(generation)
        ids = ids_to_take(standing.model, {key: peeked.get(key, Mark(None)) for key in new})
        if standing.model.per_partition:
            # Kept partitions have theirs, but where a v2 that was never committed in had given them back.
            self._producers.take([*ids, *(key for key in self._ownership if key not in self._producers)])
        else:
            self._producers.fence(ids)
        found = stable_read(consumer, new, self._takeover_seconds) if new else {}
        self._ownership.take(found)
        standing.read({key: mark for key, (_, mark) in found.items()}, generation)
        self._settle_producers()
        self.tell(TookOver(partitions=len(new), seconds=time.monotonic() - began, generation=generation))

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = [(partition.topic, partition.partition) for partition in partitions]
        self._ownership.drop(gone)
        self._producers.give_back(gone)

    def _settle_producers(self) -> None:
        """In v2, make the producer of the process, and only then give back those of the partitions."""
        if self._standing.model is Model.V2 and len(self._ownership):
            self._producers.to_one()

    def _judge(self, found: Sequence[Message]) -> None:
        """Tell errors that pass from those that do not."""
        for error in (error for message in found if (error := message.error()) is not None):
            helps = remedy(error)
            if error.name() in _PASSING:
                logger.info("%s: %s", error.name(), error.str())
            elif helps is Remedy.FATAL:
                raise SwitchFatal(f"the consumer cannot go on: {_words(error)}")
            elif error.fatal() or helps is Remedy.REJOIN:
                raise MustRejoin(f"the consumer has to be made anew: {_words(error)}")
            else:
                logger.warning("the consumer says: %s", _words(error))

    def _subscribed(self) -> Consumer:
        if self._consumer is None:
            raise SwitchFatal("there is no consumer yet: call subscribe() first")
        return self._consumer

    # ------------------------------------------------------------------ how transactions end (their Keeper)

    def metadata_of(self, partition: Partition) -> str:
        """Give the text that goes with the offset of a partition: the mark (R7), and what the app had there."""
        return metadata.write(Mark(self._standing.model, self._ownership.foreign(partition)))

    def before_commit(self, transaction: Transaction) -> None:
        """Add the mirror's record to the same transaction (R11)."""
        if self._mirror is not None and transaction.model is Model.V2 and self._standing.mirrored is not Model.V2:
            record = self._mirror.record(Model.V2)
            transaction.produce(record.topic, record.value, key=record.key)

    def on_committed(self, transaction: Transaction, generation: int, seconds: float) -> None:
        """Keep what a commit has made true."""
        self.committed += 1
        self._fenced_in_a_row = self._aborted_in_a_row = 0
        self._ownership.advance(transaction.offsets, transaction.model)
        self._standing.committed(transaction.model, generation)
        count = len(transaction.messages)
        self.tell(Committed(model=transaction.model, messages=count, seconds=seconds, generation=generation))

    def on_aborted(self, transaction: Transaction, why: str) -> None:
        """Let its messages come again.

        Raises
        ------
        MustRejoin
            They cannot, or it has happened too often in a row.
        """
        self.aborted += 1
        self._aborted_in_a_row += 1
        self.tell(RolledBack(model=transaction.model, messages=len(transaction.messages), why=why))
        if self._aborted_in_a_row >= ABORTED_AT_MOST:
            self._aborted_in_a_row = 0
            raise MustRejoin(f"{ABORTED_AT_MOST} transactions in a row were aborted, the last one for: {why}")
        self._ownership.rewind(self._subscribed(), transaction.messages)

    def on_lost(self, producer: Producer, why: str) -> None:
        """Drop a producer that cannot be used any more.

        Raises
        ------
        SwitchFatal
            It has happened too often in a row.
        """
        self.aborted += 1
        self._fenced_in_a_row += 1
        self._producers.drop(producer)
        self.tell(Fenced(why=why))
        if self._fenced_in_a_row >= FENCED_AT_MOST:
            raise SwitchFatal(
                f"{FENCED_AT_MOST} transactions in a row were taken from this process, the last one with {why}. Either "
                f"they take longer than transaction.timeout.ms, or another process has the name {self.slot.name!r} too"
            )


def _end(messages: Sequence[Message]) -> int:
    last = messages[-1].offset()
    assert last is not None  # it was consumed
    return last + 1


def _is_incremental(config: Mapping[str, Any]) -> bool:
    """Whether a consumer's assignments come as differences (``rd_kafka_rebalance_protocol``)."""
    return config.get("group.protocol") == "consumer" or "cooperative" in str(
        config.get("partition.assignment.strategy")
    )


def _words(error: KafkaError) -> str:
    return f"{error.name()} ({error.str()})"
