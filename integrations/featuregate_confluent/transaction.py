"""One transaction: begin, produce, send the offsets, commit; or abort and rewind.

A transaction never spans a poll of the consumer, so that no rebalance callback runs while one is open.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias

from confluent_kafka import KafkaException, TopicPartition

from featuregate_confluent.errors import Aborted, CommitRefused, MustRejoin, SwitchFatal
from featuregate_confluent.offsets import SEND_SECONDS, send_offsets, words
from featuregate_confluent.remedies import Remedy, remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from confluent_kafka import Consumer, KafkaError, Message, Producer

    from featuregate_confluent.models import Model
    from featuregate_confluent.protocol import Partition
    from featuregate_confluent.standstill import Caller

__all__ = ["Data", "Keeper", "Transaction"]

Data: TypeAlias = bytes | str | None

END_SECONDS: Final = 60.0
_ROOM_SECONDS: Final = 0.05
_FENCED: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})


class Keeper(Protocol):
    """Who is told how a transaction ended: the switch."""

    transaction_seconds: float
    """After so long brokers end a transaction (``transaction.timeout.ms``)."""
    caller: Caller
    """Makes the calls that need a bound of ours."""

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

    Use it as a context: it begins on entering; on leaving it commits, or aborts and rewinds where the block raised.
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
        "_keeper",
        "_only_in",
        "_open",
        "assignment",
        "consumer",
        "messages",
        "model",
        "offsets",
        "producer",
        "stands_still",
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
        only_in: int | None = None,
    ) -> None:
        self.messages = messages
        self.producer = producer
        self.model = model
        self.offsets = offsets
        self.assignment = assignment
        """Which assignment its messages came in: in another one they are another's, or come again (R9)."""
        self._keeper = keeper
        self.consumer = consumer
        self._only_in = only_in
        self._began = time.monotonic()
        self._open = False
        self.stands_still = False
        """Whether a call of its producer has not come back, and uses it still."""

    @property
    def seconds(self) -> float:
        """How long ago it began."""
        return time.monotonic() - self._began

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
            self._abort(f"{type(error).__name__} in the app's code")
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
        on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
    ) -> None:
        """Produce a record in the transaction; waits where the producer's queue is full.

        Takes what :meth:`confluent_kafka.Producer.produce` takes, in the order of
        :class:`~featuregate_confluent.Record`.

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
            more = {"on_delivery": on_delivery, "timestamp": timestamp, "headers": headers}
        deadline: float | None = None
        while True:
            try:
                self.producer.produce(topic, value, key, partition, **more)
            except BufferError as full:
                now = time.monotonic()
                deadline = deadline or now + END_SECONDS
                if now > deadline:
                    self._give_up(Remedy.ABORT, f"the producer's queue stayed full for {END_SECONDS:g} s", full)
                self.producer.poll(_ROOM_SECONDS)
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                helps = remedy(error)
                why = f"a record for topic {topic!r} was not taken: {words(error)}"
                self._give_up(Remedy.ABORT if helps is Remedy.RETRY else helps, why, failure)
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
        try:
            self._keeper.before_commit(self)
            sent = [
                TopicPartition(topic, number, offset, self._keeper.metadata_of((topic, number)))
                for (topic, number), offset in self.offsets.items()
            ]
            timeout = min(SEND_SECONDS, self._keeper.transaction_seconds)
            generation = send_offsets(
                self.producer,
                self.consumer,
                sent,
                timeout=timeout,
                generation=self._only_in,
                within=self._keeper.caller.within,
            )
        except CommitRefused as refused:
            self.stands_still = isinstance(refused.__cause__, TimeoutError)
            self._give_up(refused.remedy, refused.why, refused)
        self._end(self.producer.commit_transaction, "committed")
        self._keeper.on_committed(self, generation, self.seconds)

    def abort(self) -> None:
        """Abort the transaction and rewind the consumer to where its messages began.

        Raises
        ------
        MustRejoin, SwitchFatal
            As :meth:`commit`.
        """
        self._abort("the app asked for it")

    def _abort(self, why: str) -> None:
        with suppress(RuntimeError):  # it was closed with its partition, and the transaction with it
            self._end(self.producer.abort_transaction, "aborted")
        self._open = False
        self._keeper.on_aborted(self, why)

    def _end(self, end: Callable[[float], None], word: str) -> None:
        """Commit or abort, again while that helps."""
        deadline = time.monotonic() + END_SECONDS
        while True:
            try:
                end(max(deadline - time.monotonic(), 0.1))
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                helps = remedy(error)
                if helps is Remedy.RETRY and time.monotonic() < deadline:
                    continue
                if helps is Remedy.ABORT and word == "committed":
                    self._give_up(helps, words(error), failure)
                # Nobody knows how it ended. Whoever takes the id next will, and reads the offset after that.
                raise self._lost(error) from failure
            self._open = False
            return

    def _give_up(self, helps: Remedy, why: str, cause: BaseException) -> NoReturn:
        if helps is Remedy.REJOIN:
            raise MustRejoin(self._drop(why, fenced=_is_fenced(cause))) from cause
        self._abort(why)
        raise (SwitchFatal if helps is Remedy.FATAL else Aborted)(why) from cause

    def _lost(self, error: KafkaError) -> MustRejoin | SwitchFatal:
        why = self._drop(words(error), fenced=error.name() in _FENCED)
        return SwitchFatal(why) if remedy(error) is Remedy.FATAL else MustRejoin(why)

    def _drop(self, why: str, *, fenced: bool) -> str:
        self._open = False
        return self._keeper.on_lost(self, why, fenced=fenced)


def _is_fenced(cause: BaseException | None) -> bool:
    while cause is not None and not isinstance(cause, KafkaException):
        cause = cause.__cause__
    return cause is not None and cause.args[0].name() in _FENCED
