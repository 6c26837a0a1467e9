"""The rounds of a processor: take part in the group, process, and join again after being replaced."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaException, Message

from featuregate.logs import get_logger
from featuregate_confluent.errors import MustRejoin, RecordRefused, SwitchFatal
from featuregate_confluent.events import Rejoining
from featuregate_confluent.producing.pipeline import Pipeline

if TYPE_CHECKING:
    from featuregate_confluent.producing.transaction import Transaction
    from featuregate_confluent.records import RecordLike
    from featuregate_confluent.switch import ProducerSwitch
    from featuregate_confluent.transform import TransformCalls

RESTLESS_SECONDS: Final = 180.0
"""A member that was replaced twice without a commit, the last time not longer ago, is not in order."""
BACKOFF_SECONDS: Final = (0.1, 10.0)
"""Before joining again: the first time, and at the most."""


class ProcessorRounds:
    """What a processor does in the thread that runs it, and how that goes; see :class:`ExactlyOnceProcessor`."""

    def __init__(self, switch: ProducerSwitch, *, producer: Mapping[str, Any], batch_size: int, linger: float) -> None:
        self._switch = switch
        self._connection = producer
        self._batch_size = batch_size
        self._linger = linger
        self._calls: TransformCalls
        self._stopping = False
        self._wake: SimpleQueue[None] = SimpleQueue()  # unlike an Event, a signal handler may put into it at any time
        self._state = "starting"
        self._singly = 0
        """Messages to process one by one, because a record for one of them was refused."""
        self.error: str | None = None
        """What ended it before it was stopped."""
        self.rejoins = 0
        """How often in a row the member was replaced, without a commit in between."""
        self._rejoined_at = 0.0
        self.why: str | None = None
        """Why the member was replaced last."""

    @property
    def state(self) -> str:
        """``starting``, ``ok``, ``rejoining``, ``stopping``, ``stopped`` or ``failed``."""
        if self._state == "ok" and self._stopping:
            return "stopping"
        return "rejoining" if self._state == "ok" and self._restless else self._state

    @property
    def _restless(self) -> bool:
        """Whether the member is replaced again and again: each new one is in order until it fails as the last one."""
        return self.rejoins > 1 and time.monotonic() - self._rejoined_at < RESTLESS_SECONDS

    def stop(self) -> None:
        """End after the transaction that is open; from any thread and any signal handler."""
        self._stopping = True
        self._wake.put(None)

    def run(self, calls: TransformCalls) -> None:
        """Process in the calling thread until :meth:`stop`; then close the switch."""
        self._calls = calls
        try:
            calls.require_letter_topic(self._connection)
            while not self._stopping:
                try:
                    self._take_part()
                except MustRejoin as why:
                    self._wait_to_rejoin(why)
            self._state = "stopped"
        except BaseException as error:
            self._state, self.error = "failed", f"{type(error).__name__}: {error}"
            raise
        finally:
            self._switch.close()

    def _take_part(self) -> None:
        """Be a member of the group until the processor is stopped, or the member is replaced."""
        config, logger = self._switch.consumer_config, get_logger("featuregate.confluent.consumer")
        try:
            consumer = Consumer(config, logger=logger)
        except KafkaException as failure:
            raise SwitchFatal(f"the consumer's properties are refused: {failure.args[0].str()}") from failure
        try:
            self._switch.subscribe(consumer)
            while not self._stopping:
                self._round()
        finally:
            self._switch.leave()

    def _round(self) -> None:
        size = self._switch.round_size(self._batch_size)
        messages = self._switch.consume(1 if self._singly else size, self._linger)
        if self._switch.generation >= 0:
            self._state = "ok"
        committed, aborted = self._switch.committed, self._switch.aborted
        self._calls.begin_round()
        try:
            self._process(messages)
        except RecordRefused as refused:
            self._singly = self._calls.refused(refused)
        if self._switch.aborted > aborted:
            self._calls.forget_topics()
        elif messages:
            self._singly = max(0, self._singly - len(messages))
            self._calls.committed(messages)
        if self._switch.committed > committed:
            self.rejoins = 0

    def _process(self, messages: Sequence[Message]) -> None:
        with Pipeline() as pipeline:
            for transaction in self._switch.transactions(messages):
                self._process_as_one(transaction, pipeline)
                if self._stopping or self._switch.rounds.late:
                    return  # whatever is left of the round was not begun, and comes again

    def _process_as_one(self, transaction: Transaction, pipeline: Pipeline) -> None:
        # Before it begins: brokers wait for the commit, not for the app.
        prepared = self._calls.records(transaction.messages, transaction.producer)
        transaction.events = prepared.events
        with transaction:
            _produce(transaction, prepared.records)
            pipeline.commit(transaction)

    def _wait_to_rejoin(self, why: MustRejoin) -> None:
        self._state = "rejoining"
        self.rejoins += 1
        self._rejoined_at, self.why = time.monotonic(), str(why)
        self._switch.emit(Rejoining(why=str(why), attempt=self.rejoins))
        first, most = BACKOFF_SECONDS
        with suppress(Empty):
            self._wake.get(timeout=min(first * 2 ** min(self.rejoins - 1, 10), most))


def _produce(transaction: Transaction, records: Iterable[RecordLike]) -> None:
    """Produce the records of a transform; raises RecordRefused where the client cannot read one."""
    try:
        for record in records:
            transaction.produce(*record)
    except (TypeError, ValueError, OverflowError) as error:
        raise RecordRefused(transaction.messages, f"{type(error).__name__}: {error}") from error
