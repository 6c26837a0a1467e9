"""The producer of one slot: it takes the slot's transactional id, and every call of it ends.

A call that fails because another attempt has taken the id since raises `Replaced`, whatever the client calls it.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from featuregate_librdkafka.calls import call_within
from featuregate_librdkafka.closing import close_producer
from featuregate_spark.errors import TransactionTimedOut, WriteFailed
from featuregate_spark.memories import QUIET, words_of
from featuregate_spark.slots import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Message

    from featuregate_spark.slots import Slot

__all__ = ["Replaced", "SlotProducer"]

_log = logging.getLogger("featuregate.spark.producers")

_ROOM_SECONDS: Final = 0.01
_CLOSE_SECONDS: Final = 3.0
_FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
_TRANSACTION_TIMEOUT_MS: Final = 60_000
"""Librdkafka's default."""


class Replaced(Exception):
    """Another attempt has taken this slot's id."""


class SlotProducer:
    """Writes a slot in one transaction. Each call takes up to the batch's timeout.

    Raises
    ------
    WriteFailed
        Kafka refused, or did not answer in time.
    Replaced
        Another attempt has taken the slot's id, and this one is stopped for good.
    """

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._first_refused: str | None = None
        self._began: float | None = None
        ours = {
            "transactional.id": slot.transactional_id,
            "on_delivery": self._delivered,
            "delivery.report.only.error": True,
            "logger": _log,
        }
        self._producer = Producer({**QUIET, **slot.batch.producer, **ours})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            close_producer(self._producer, _CLOSE_SECONDS)
        except (KafkaException, TimeoutError) as error:  # it is gone, or left behind with its threads
            _log.info("%s: its producer was not closed: %r", self._slot, error)

    def take_id(self) -> None:
        """Take the slot's transactional id: whatever an older attempt has open is ended, and that one is stopped."""
        self._insist("its transactional id could not be taken", self._producer.init_transactions)

    def begin(self) -> None:
        """Begin the transaction."""
        self._began = time.monotonic()
        self._producer.begin_transaction()

    def send(
        self,
        topic: str | None,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: Sequence[Mapping[str, Any]] | None,
    ) -> None:
        """Send a row, when there is room for it."""
        if topic is None:
            raise WriteFailed(f"{self._slot}: a row has no topic, and the sink was given none")
        more: dict[str, Any] = (
            {} if headers is None else {"headers": [(each["key"], each["value"]) for each in headers]}
        )
        deadline = 0.0
        while True:
            try:
                self._producer.produce(topic, value, key, -1 if partition is None else partition, **more)
            except BufferError:
                now, timeout = time.monotonic(), self._slot.batch.timeout
                deadline = deadline or now + timeout
                if now > deadline:
                    raise WriteFailed(f"{self._slot}: no room in the producer's queue for {timeout:g} s") from None
                self._poll(_ROOM_SECONDS)
            except KafkaException as failure:
                size = len(value or b"") + len(key or b"")
                self._fail(f"a record of {size:,} bytes for topic {topic!r} was not taken", failure)
            else:
                return

    def hear(self) -> None:
        """Poll for delivery errors without blocking."""
        self._poll(0)

    def remember(self, group: Any) -> None:
        """Commit the slot's memory in the transaction of its rows."""
        batch = self._slot.batch
        place = TopicPartition(batch.memory_topic, self._slot.number, batch.batch_id + 1, text_of(batch.layout))

        def send(timeout: float) -> None:
            # The client may wait for a broker that is gone, whatever timeout it is given.
            call_within(
                timeout + _ROOM_SECONDS, lambda: self._producer.send_offsets_to_transaction([place], group, timeout)
            )

        self._insist("its memory could not be committed", send)

    def commit(self) -> None:
        """Commit the transaction: when this returns, all of it counts."""
        self._insist("its transaction could not be committed", self._producer.commit_transaction)

    def abort(self, error: BaseException) -> NoReturn:
        """Abort because of an error, and raise it, or what turns out to be its cause.

        Readers need not wait then for the transaction to time out. Who is fenced has nothing to abort, and is told only
        here why a call failed which the client named a fatal error and no more.
        """
        if not isinstance(error, Replaced):
            try:
                self._producer.abort_transaction(self._slot.batch.timeout)
            except KafkaException as failure:
                if failure.args[0].name() in _FENCED and isinstance(error, WriteFailed):
                    error = Replaced(f"{error}: {words_of(failure)}")
                else:
                    _log.warning(
                        "%s: the transaction was not aborted, and ends by its timeout: %s",
                        self._slot,
                        words_of(failure),
                    )
        if isinstance(error, Replaced):
            raise self._timed_out(error) or error
        if self._first_refused is not None and isinstance(error, WriteFailed):
            raise WriteFailed(f"{error}; {self._first_refused}") from error
        raise error

    def _timed_out(self, fenced: Replaced) -> TransactionTimedOut | None:
        """Say that the coordinator may have fenced this producer, because of the transaction's age."""
        limit = int(self._slot.batch.producer.get(_TRANSACTION_TIMEOUT, _TRANSACTION_TIMEOUT_MS))
        taken = 0.0 if self._began is None else time.monotonic() - self._began
        if taken * 1000 < limit:
            return None
        return TransactionTimedOut(
            f"{self._slot}: its transaction was open for {taken:.1f} s, longer than {_TRANSACTION_TIMEOUT}={limit}, so "
            "Kafka aborted it and fenced its producer; none of its rows count. Set a longer one in "
            "kafka_sink(producer={...}), up to the brokers' transaction.max.timeout.ms, or let a slot write less: "
            f"more slots, or smaller batches (maxOffsetsPerTrigger of the source). Kafka said: {fenced}"
        )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        """Keep what was said of the first record that did not arrive: the others follow from it."""
        if error is not None and self._first_refused is None:
            where = f"topic {message.topic()!r}, partition {message.partition()}"
            self._first_refused = f"the first that was refused was for {where}: {error.name()}: {error.str()}"

    def _poll(self, seconds: float) -> None:
        """Serve delivery reports. A fatal error is raised here, as confluent-kafka gives none to an ``error_cb``."""
        try:
            self._producer.poll(seconds)
        except KafkaException as failure:
            self._fail("its producer has failed", failure)

    def _insist(self, what: str, call: Callable[[float], object]) -> None:
        """Call, again while that helps."""
        timeout = self._slot.batch.timeout
        deadline = time.monotonic() + timeout
        while True:
            try:
                call(max(deadline - time.monotonic(), 0.1))
            except KafkaException as failure:
                if not failure.args[0].retriable() or time.monotonic() > deadline:
                    self._fail(what, failure)
            except TimeoutError:
                raise WriteFailed(f"{self._slot}: {what}: no answer within {timeout:g} s") from None
            else:
                return

    def _fail(self, what: str, failure: KafkaException) -> NoReturn:
        kind = Replaced if failure.args[0].name() in _FENCED else WriteFailed
        raise kind(f"{self._slot}: {what}: {words_of(failure)}") from failure
