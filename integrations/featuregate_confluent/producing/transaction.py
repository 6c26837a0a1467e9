"""One transaction: begin, produce, send the offsets, commit; or abort and rewind.

A transaction never spans a poll of the consumer, so that no rebalance callback runs while one is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from featuregate_confluent.errors import Aborted, MustRejoin, SwitchFatal
from featuregate_confluent.producing.offsets import SEND_SECONDS
from featuregate_confluent.producing.outcome import (
    Committed,
    Delivery,
    Lost,
    RolledBack,
    TransactionOutcome,
    logging_errors,
    lost_by,
    outcome_of,
    refused,
    roll_back_with_reason,
    send_and_commit,
    send_when_room,
)
from featuregate_librdkafka.transaction_calls import CallFailed, TransactionalProducer

if TYPE_CHECKING:
    from featuregate.calls import Call, Within
    from featuregate_confluent.events import SwitchEvent
    from featuregate_confluent.member.outcome_handler import OutcomeHandler
    from featuregate_confluent.member.state import Assignment
    from featuregate_confluent.models import Model

Data: TypeAlias = bytes | str | None


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Transaction:
    """Messages that are processed as one, with the producer that they belong to.

    Use it as a context: it begins on entering; on leaving it commits, unless :meth:`start_commit` was called, or aborts
    and rewinds where the block raised.
    A commit that is refused because of a rebalance is not an error of the app: the messages come again, to the new
    owner of their partition.

    Attributes
    ----------
    messages : Sequence
        Of one partition in the models with a producer for each, else of all.
    producer : Producer
        For what :meth:`produce` does not offer. Never begin, commit or abort on it.
    model : Model
        The model that it runs in.
    """

    keeper: OutcomeHandler
    consumer: Consumer
    producer: Producer
    model: Model
    messages: Sequence[Message]
    offsets: Sequence[TopicPartition]
    """The next offset of each partition, with the mark and the app's own metadata."""
    assignment: Assignment
    first_v2_generation: int | None = None
    latch_record: tuple[str, bytes, bytes] | None = None
    """Topic, value and key of the record that latches the group with this transaction (R11)."""
    events: Sequence[SwitchEvent] = field(default=(), init=False)
    """Emitted when it is committed."""
    timestamps: tuple[int, int] | None = field(default=None, init=False)  # the lowest and the highest of its records
    _began: float = field(default_factory=time.monotonic, init=False)
    _ended: float | None = field(default=None, init=False)
    _handed_over: float | None = field(default=None, init=False)
    _call: Call[Any] | None = field(default=None, init=False)
    _open: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.keeper.rounds.given(self)

    @property
    def seconds(self) -> float:
        """How long it took to its end, or has taken so far."""
        return (self._ended or time.monotonic()) - self._began

    @property
    def own_seconds(self) -> float:
        """How long the app's code took, from the beginning to the call that ends the transaction."""
        return (self._handed_over or time.monotonic()) - self._began

    @property
    def ending_seconds(self) -> float:
        """For how long brokers have not answered the call that commits or aborts it; 0 without such a call."""
        handed_over = self._handed_over
        waits = handed_over is not None and self._call is not None and self._ended is None
        return time.monotonic() - handed_over if waits and handed_over is not None else 0.0

    @property
    def in_use(self) -> bool:
        """Whether a call has not returned, or its outcome was not read, so that its producer is in use."""
        return self._call is not None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if self._open and error is None:
            with suppress(Aborted):
                self.commit()
        elif self._open:
            try:
                why = str(error) if isinstance(error, Aborted) else f"{type(error).__name__} in the app's code"
                with suppress(Aborted):
                    self._abort(RolledBack(why=why))
            except Exception:
                if isinstance(error, Exception):
                    raise  # else it is Ctrl-C and the like, which nothing may take the place of
        return isinstance(error, Aborted)  # whose messages come again

    def begin(self) -> None:
        """Begin the transaction.

        Raises `MustRejoin`: the producer was fenced meanwhile. Raises `SwitchFatal`: going on would not help.
        """
        self._began = time.monotonic()
        self.keeper.rounds.begun(self)
        try:
            TransactionalProducer(self.producer).begin()
        except CallFailed as failed:
            self._raise(lost_by(failed))
        self._open = True

    def produce(
        self,
        topic: str,
        value: Data = None,
        key: Data = None,
        partition: int = -1,
        timestamp: int = 0,
        headers: list[tuple[str, Data]] | dict[str, Data] | None = None,
        *,
        on_delivery: Delivery | None = None,
    ) -> None:
        """Produce a record in the transaction; waits where the producer's queue is full.

        Takes what :meth:`confluent_kafka.Producer.produce` takes, in the order of
        :class:`~featuregate_confluent.Record`. ``on_delivery`` is called by the threads that commit, and by this one
        where the queue is full; what it raises is logged, as the Java client does, and changes nothing.

        Raises
        ------
        Aborted
            The transaction has failed in the background, and the consumer is rewound: the messages come again.
        MustRejoin
            The producer was replaced.
        SwitchFatal
            No attempt would succeed: the record is too large, for example.
        """
        # Called for each record: the client takes half as long to read what comes by position, and no more of it.
        more: dict[str, Any] = {}
        if on_delivery is not None or timestamp or headers is not None:
            more = {
                "on_delivery": on_delivery and logging_errors(on_delivery),
                "timestamp": timestamp,
                "headers": headers,
            }
            if timestamp:
                low, high = self.timestamps or (timestamp, timestamp)
                self.timestamps = min(low, timestamp), max(high, timestamp)
        send = self.producer.produce
        try:
            send(topic, value, key, partition, **more)
        except BufferError:
            outcome = send_when_room(self.producer, topic, partial(send, topic, value, key, partition, **more))
        except KafkaException as failure:
            outcome = refused(topic, CallFailed.of(failure))
        else:
            return
        match outcome:
            case Lost():
                self._raise(outcome)
            case RolledBack():
                self._abort(outcome)

    def commit(self) -> None:
        """Send the offsets with the group's current metadata, and commit.

        Raises
        ------
        Aborted
            It was refused, and the consumer is rewound: the messages come again.
        MustRejoin
            This member or its producer was replaced: make a new consumer.
        SwitchFatal
            Going on would not help.
        """
        self.start_commit()
        self.finish_commit()

    def start_commit(self) -> None:
        """Let another thread send the offsets and commit; :meth:`finish_commit` waits for that.

        Transactions of other partitions can run meanwhile, where each has a producer of its own:
        :class:`~featuregate_confluent.Pipeline` sees to it that all have ended before the consumer is polled again.
        Raises `Aborted`, `MustRejoin`, `SwitchFatal`: as :meth:`commit`.
        """
        if not self.assignment.current:
            self._abort(RolledBack(why="the consumer was polled within the transaction, whose messages come again"))
        if self.latch_record is not None:
            self.produce(*self.latch_record)
        self._start(self._send_and_commit)

    def finish_commit(self) -> None:
        """Wait for the end of a started commit. Raises `Aborted`, `MustRejoin`, `SwitchFatal`: as :meth:`commit`."""
        if self._call is None:
            raise SwitchFatal("a commit is finished once, after it was started")
        self._conclude(self._call)

    def leave_behind(self) -> None:
        """Stop waiting for the call under way, which uses the producer until it returns."""
        if self._call is not None:
            self._call.give_up()

    def abort(self) -> None:
        """Abort the transaction and rewind the consumer to where its messages began.

        Raises `MustRejoin`, `SwitchFatal`: as :meth:`commit`.
        """
        with suppress(Aborted):
            self._abort(RolledBack(why="the app asked for it"))

    def _send_and_commit(self, within: Within) -> TransactionOutcome:
        """Send the offsets and commit, in another thread than the loop's."""
        try:
            return send_and_commit(
                TransactionalProducer(self.producer, within),
                self.consumer,
                self.offsets,
                timeout=min(SEND_SECONDS, self.keeper.rounds.limits.transaction),
                generation=self.first_v2_generation,
            )
        finally:
            self._ended = time.monotonic()

    def _start(self, work: Callable[[Within], TransactionOutcome]) -> Call[TransactionOutcome]:
        if self in self.keeper.under_way:
            raise SwitchFatal("this transaction is being committed already: leave it alone until that has ended")
        # In this order: wherever a signal interrupts this, the producer counts as in use.
        self._leave_open()
        self._ended, self._handed_over = None, time.monotonic()
        self.keeper.under_way.add(self)
        self._call = self.keeper.callers.start(work)
        return self._call

    def _conclude(self, call: Call[TransactionOutcome]) -> None:
        """Wait for the outcome, and apply it.

        The transaction stays under way if anything else ends this, such as a signal. Its end is unknown then, and
        the member needs another consumer.
        """
        try:
            outcome = outcome_of(call)
        finally:
            if not call.given_up:
                self._call = None
        self.keeper.rounds.ended(self, self._ended or time.monotonic())
        if isinstance(outcome, RolledBack):
            outcome = replace(outcome, why=self.keeper.rounds.limits.explained(outcome.why, self.seconds))
        error = self.keeper.conclude(self, outcome)
        self.keeper.under_way.discard(self)
        if error is not None:
            raise error from error.__cause__ or (None if isinstance(outcome, Committed) else outcome.cause)

    def _abort(self, outcome: RolledBack) -> NoReturn:
        """Abort for this reason. Raises Aborted, or a graver error."""

        def roll_back(within: Within) -> TransactionOutcome:
            producer = TransactionalProducer(self.producer, within)
            return roll_back_with_reason(producer, self.consumer, self.offsets, outcome)

        self._conclude(self._start(roll_back))
        raise Aborted(outcome.why)

    def _raise(self, outcome: Lost) -> NoReturn:
        self._leave_open()
        raise (self.keeper.conclude(self, outcome) or MustRejoin(outcome.why)) from outcome.cause

    def _leave_open(self) -> None:
        """Note that the app's code has ended."""
        if self._open:
            self._open = False
            self.keeper.rounds.ran(self)
