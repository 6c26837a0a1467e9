"""One transaction: begin, produce, send the offsets, commit; or abort and rewind.

A transaction never spans a poll of the consumer, so that no rebalance callback runs while one is open.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias

from confluent_kafka import KafkaException, TopicPartition

from featuregate_confluent.error_actions import ErrorAction, action_for
from featuregate_confluent.errors import Aborted, CommitRefused, MustRejoin, SwitchError, SwitchFatal
from featuregate_confluent.producing.offsets import GRACE_SECONDS, SEND_SECONDS, STOOD_STILL, send_offsets, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from confluent_kafka import Consumer, KafkaError, Message, Producer

    from featuregate_confluent.latch.models import Model
    from featuregate_confluent.latch.protocol import Partition
    from featuregate_confluent.producing.rounds import Rounds
    from featuregate_librdkafka.calls import Call, Callers, Within

__all__ = ["Data", "Keeper", "Transaction"]

Data: TypeAlias = bytes | str | None
Delivery: TypeAlias = "Callable[[KafkaError | None, Message], None]"

logger = logging.getLogger("featuregate.confluent")

END_SECONDS: Final = 60.0
_ROOM_SECONDS: Final = 0.05
_FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})


class Keeper(Protocol):
    """Who is told how a transaction ended: the switch."""

    transaction_seconds: float
    """After so long brokers end a transaction (``transaction.timeout.ms``)."""
    rounds: Rounds
    """Measures how long the app's code takes."""
    callers: Callers
    """Make the calls that need a bound of ours, and go on while the app's code does."""
    under_way: set[Transaction]
    """Those whose producer is used by a call, or of whose end nothing was concluded yet."""

    def metadata_of(self, partition: Partition) -> str:
        """Give the text that goes with the offset of a partition."""
        ...

    def before_commit(self, transaction: Transaction) -> None:
        """Produce what else belongs to it. Raises `CommitRefused` where it may not be committed any more."""
        ...

    def on_committed(self, transaction: Transaction, generation: int, seconds: float) -> None:
        """Everything of the transaction counts."""
        ...

    def on_aborted(self, transaction: Transaction, why: str) -> None:
        """Nothing of it counts: rewind the consumer."""
        ...

    def on_lost(self, transaction: Transaction, why: str, *, fenced: bool) -> str:
        """Drop its producer, which cannot be used any more; return what that means, for people."""
        ...


class Transaction:
    """Messages that are processed as one, with the producer that they belong to.

    Use it as a context: it begins on entering; on leaving it commits, unless :meth:`start_commit` was called, or aborts
    and rewinds where the block raised.
    A commit that is refused because of a rebalance is no error of the app: the messages come again, to whoever owns
    their partition then.

    Attributes
    ----------
    messages : Sequence
        Of one partition in the models with a producer for each, else of all.
    producer : Producer
        For what :meth:`produce` does not offer. Never begin, commit or abort on it.
    model : Model
        The model that it runs in.
    """

    __slots__ = (
        "_began",
        "_call",
        "_ended",
        "_first_v2_generation",
        "_keeper",
        "_open",
        "assignment",
        "consumer",
        "messages",
        "model",
        "offsets",
        "producer",
    )

    def __init__(
        self,
        *,
        keeper: Keeper,
        consumer: Consumer,
        producer: Producer,
        model: Model,
        messages: Sequence[Message],
        offsets: Mapping[Partition, int],
        assignment: int,
        first_v2_generation: int | None = None,
    ) -> None:
        self.messages = messages
        self.producer = producer
        self.model = model
        self.offsets = offsets
        self.assignment = assignment
        """Which assignment its messages came in: in another one they are another's, or come again (R9)."""
        self._keeper = keeper
        self.consumer = consumer
        self._first_v2_generation = first_v2_generation
        self._began = time.monotonic()
        self._ended: float | None = None
        self._call: Call[Any] | None = None
        self._open = False
        keeper.rounds.given(self)

    @property
    def seconds(self) -> float:
        """How long it took to its end, or has taken so far."""
        return (self._ended or time.monotonic()) - self._began

    @property
    def in_use(self) -> bool:
        """Whether a call of it has not come back, or was not heard of, and uses its producer."""
        return self._call is not None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._open and error is None:
            with suppress(Aborted):
                self.commit()
        elif self._open:
            try:
                self._abort(f"{type(error).__name__} in the app's code")
            except Exception:
                if isinstance(error, Exception):
                    raise  # else it is Ctrl-C and the like, which nothing may take the place of
        return isinstance(error, Aborted)  # whose messages come again

    def begin(self) -> None:
        """Begin the transaction.

        Raises
        ------
        MustRejoin
            The producer was fenced meanwhile.
        SwitchFatal
            Going on would not help.
        """
        self._began = time.monotonic()
        self._keeper.rounds.begun(self)
        try:
            self.producer.begin_transaction()
        except KafkaException as failure:
            raise self._lost(failure.args[0]) from failure
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
            more = {"on_delivery": on_delivery and _heard(on_delivery), "timestamp": timestamp, "headers": headers}
        deadline: float | None = None
        while True:
            try:
                self.producer.produce(topic, value, key, partition, **more)
            except BufferError as full:
                now = time.monotonic()
                deadline = deadline or now + END_SECONDS
                if now > deadline:
                    self._give_up(ErrorAction.ABORT, f"the producer's queue stayed full for {END_SECONDS:g} s", full)
                self.producer.poll(_ROOM_SECONDS)
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                action = action_for(error)
                why = f"a record for topic {topic!r} was not taken: {words(error)}"
                self._give_up(ErrorAction.ABORT if action is ErrorAction.RETRY else action, why, failure)
            else:
                return

    def commit(self) -> None:
        """Send the offsets with the group's metadata of now, and commit.

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

        Raises
        ------
        Aborted, MustRejoin, SwitchFatal
            As :meth:`commit`.
        """
        try:
            self._keeper.before_commit(self)
        except CommitRefused as refused:
            self._give_up(refused.action, refused.why, refused)
        sent = [
            TopicPartition(topic, number, offset, self._keeper.metadata_of((topic, number)))
            for (topic, number), offset in self.offsets.items()
        ]
        self._start(partial(self._settle, sent))

    def finish_commit(self) -> None:
        """Wait for the end of a commit that was started.

        Raises
        ------
        Aborted, MustRejoin, SwitchFatal
            As :meth:`commit`.
        """
        if self._call is None:
            raise SwitchFatal("a commit is finished once, after it was started")
        with self._concluding():
            try:
                generation = self._result(self._call)
            except CommitRefused as refused:
                undone = partial(self._keeper.on_aborted, self)  # the thread that committed has aborted it
                self._give_up(refused.action, refused.why, refused, undone)
            except KafkaException as failure:
                # Nobody knows how it ended. Whoever takes the id next will, and reads the offset after that.
                raise self._lost(failure.args[0]) from failure
            self._keeper.on_committed(self, generation, self.seconds)

    def leave_behind(self) -> None:
        """Have nobody wait any more for what is under way; its producer is used until that comes back."""
        if self._call is not None:
            self._call.give_up()

    def _settle(self, sent: list[TopicPartition], within: Within) -> int:
        """Have the client send the offsets and commit, or abort where that was refused.

        This runs beside the loop, and draws no conclusions. It aborts by itself because the loop may be long in coming,
        and brokers wait for the end of a transaction no longer than its timeout.
        """
        try:
            timeout = min(SEND_SECONDS, self._keeper.transaction_seconds)
            generation = send_offsets(
                self.producer, self.consumer, sent, timeout=timeout, generation=self._first_v2_generation, within=within
            )
            _commit(self.producer, within)
        except CommitRefused as refused:
            if refused.action is not ErrorAction.REJOIN:
                _abort(self.producer, within)
            raise
        finally:
            self._ended = time.monotonic()
        return generation

    def _start(self, work: Callable[[Within], Any]) -> Call[Any]:
        if self in self._keeper.under_way:
            raise SwitchFatal("this transaction is being committed already: leave it alone until that has ended")
        # In this order: whatever a signal interrupts here, the producer is taken to be in use.
        self._leave_open()
        self._ended = None
        self._keeper.under_way.add(self)
        self._call = self._keeper.callers.start(work)
        return self._call

    def _result(self, call: Call[Any]) -> Any:
        """Wait for what was started."""
        try:
            return call.result()
        except TimeoutError as standstill:
            if not call.given_up:
                raise
            raise MustRejoin(self._drop(f"{standstill}: {STOOD_STILL}", fenced=False)) from standstill
        finally:
            if not call.given_up:
                self._call = None

    @contextmanager
    def _concluding(self) -> Iterator[None]:
        """Keep the transaction under way where the block ends otherwise than it is meant to: by a signal, for one.

        Nobody knows then what became of it, and so whoever consumes next needs another consumer.
        """
        try:
            yield
        except SwitchError:
            self._keeper.under_way.discard(self)
            raise
        self._keeper.under_way.discard(self)

    def abort(self) -> None:
        """Abort the transaction and rewind the consumer to where its messages began.

        Raises
        ------
        MustRejoin, SwitchFatal
            As :meth:`commit`.
        """
        self._abort("the app asked for it")

    def _abort(self, why: str) -> None:
        call = self._start(partial(_abort, self.producer))
        with self._concluding():
            try:
                self._result(call)
            except KafkaException as failure:
                raise self._lost(failure.args[0]) from failure
            self._keeper.on_aborted(self, why)

    def _give_up(
        self, action: ErrorAction, why: str, cause: BaseException, undo: Callable[[str], None] | None = None
    ) -> NoReturn:
        if action is ErrorAction.REJOIN:
            raise MustRejoin(self._drop(why, fenced=_is_fenced(cause))) from cause
        try:
            (undo or self._abort)(why)
        except MustRejoin:  # a consumer that is fenced cannot be rewound, for one
            if action is not ErrorAction.FATAL:
                raise
        raise (SwitchFatal if action is ErrorAction.FATAL else Aborted)(why) from cause

    def _lost(self, error: KafkaError) -> MustRejoin | SwitchFatal:
        why = self._drop(words(error), fenced=error.name() in _FENCED)
        return SwitchFatal(why) if action_for(error) is ErrorAction.FATAL else MustRejoin(why)

    def _leave_open(self) -> None:
        """Note that the app's code has come to its end."""
        if self._open:
            self._open = False
            self._keeper.rounds.ran(self)

    def _drop(self, why: str, *, fenced: bool) -> str:
        self._leave_open()
        return self._keeper.on_lost(self, why, fenced=fenced)


def _heard(on_delivery: Delivery) -> Delivery:
    """Call back without a way for its error into the client, which would raise it out of any call, or none."""

    def hear(error: KafkaError | None, message: Message) -> None:
        try:
            on_delivery(error, message)
        except Exception:
            logger.exception("the delivery callback failed; the transaction goes on")

    return hear


def _commit(producer: Producer, within: Within) -> None:
    """Commit. Raises CommitRefused where it has to be aborted, and KafkaException where nobody knows how it ended."""
    try:
        _end(producer.commit_transaction, within)
    except KafkaException as failure:
        error: KafkaError = failure.args[0]
        if action_for(error) is ErrorAction.ABORT:
            raise CommitRefused(ErrorAction.ABORT, words(error)) from failure
        raise


def _abort(producer: Producer, within: Within) -> None:
    """Abort. Raises KafkaException where nobody knows how it ended."""
    with suppress(RuntimeError):  # it was closed with its partition, and the transaction with it
        _end(producer.abort_transaction, within)


def _end(end: Callable[[float], None], within: Within) -> None:
    """Commit or abort; retry while the error allows it."""
    deadline = time.monotonic() + END_SECONDS
    while True:
        left = max(deadline - time.monotonic(), 0.1)
        try:
            within(left + GRACE_SECONDS, partial(end, left))
        except KafkaException as failure:
            if action_for(failure.args[0]) is not ErrorAction.RETRY or time.monotonic() >= deadline:
                raise
        else:
            return


def _is_fenced(cause: BaseException | None) -> bool:
    while cause is not None and not isinstance(cause, KafkaException):
        cause = cause.__cause__
    return cause is not None and cause.args[0].name() in _FENCED
