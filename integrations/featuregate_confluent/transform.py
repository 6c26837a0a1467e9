"""The app's code: its interface, and how it is called.

A transform runs to its end before anything is produced: what it raises must not leave half a batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from featuregate_confluent.errors import Aborted, TransformFailed
from featuregate_confluent.events import DeadLettered

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Sequence

    from confluent_kafka import Message
    from typing_extensions import TypeIs

    from featuregate_confluent.events import SwitchEvent
    from featuregate_confluent.producing.transaction import Data

NO_POISON: Final = (Aborted, TransformFailed)
"""Raised in the place of a transform that was cancelled: that says nothing about its messages."""
LONGEST_ERROR: Final = 1000
"""Characters of an exception's text in the header of a dead letter."""


class Record(NamedTuple):
    """What a transform gives: a record to produce. A plain tuple of the same order does as well, and costs less."""

    topic: str
    value: bytes | str | None = None
    key: bytes | str | None = None
    partition: int = -1
    """-1: by the key, as the producer's partitioner says."""
    timestamp: int = 0
    """Milliseconds since the Unix epoch; 0: now."""
    headers: list[tuple[str, bytes | str | None]] | dict[str, bytes | str | None] | None = None


RecordLike: TypeAlias = "Record | tuple[str, Data] | tuple[str, Data, Data] | tuple[str, Data, Data, int]"
"""A record, or its first values: topic, value, key, partition."""


class Transform(Protocol):
    """The app's code: messages in, records out.

    It is called once for each batch: of one partition in the models with a producer for each, else of all. The
    transaction of its records begins when it has returned. It may be called again with messages that it has had before,
    whose records then did not count: it should have no effect but what it returns.

    How many messages a batch has follows the seconds that the transform takes, because a round must end within the
    consumer's ``max.poll.interval.ms``.
    """

    def __call__(self, messages: Sequence[Message], /) -> Iterable[RecordLike]:
        """Return the records for these messages."""
        ...


class AsyncTransform(Protocol):
    """A :class:`Transform` for apps with an event loop: a coroutine function, or one that yields records.

    It runs in the loop that awaits :meth:`ExactlyOnceProcessor.arun`. In the models with a producer for each partition
    it is awaited for several partitions at the same time. It is cancelled when the round's limit,
    ``max.poll.interval.ms``, is over, and when :meth:`ExactlyOnceProcessor.arun` is cancelled or closed; its messages
    then come again.
    """

    def __call__(self, messages: Sequence[Message], /) -> Awaitable[Iterable[RecordLike]] | AsyncIterable[RecordLike]:
        """Return the records for these messages."""
        ...


class DeadLetter(NamedTuple):
    """Where messages go that the transform cannot take: in the same transaction, with headers that say why.

    The transform is called again for each message of the batch by itself, to find which. A record that brokers refuse,
    such as one that is too large, is no poison: they may say so long after the transform has returned, and of a batch
    rather than a record. It ends :meth:`ExactlyOnceProcessor.run` with
    :class:`~featuregate_confluent.errors.SwitchFatal`, and nothing of its transaction counts.
    """

    topic: str


def is_async(transform: Transform | AsyncTransform) -> TypeIs[AsyncTransform]:
    """Return whether a transform, or its ``__call__``, is a coroutine function or an asynchronous generator."""
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return any(kind(function) for kind in kinds for function in (transform, transform.__call__))


async def gathered(transform: AsyncTransform, messages: Sequence[Message]) -> list[RecordLike]:
    """Return all the records that a coroutine function returns or yields for these messages."""
    found = transform(messages)
    if isinstance(found, Awaitable):
        return list(await found)
    return [record async for record in found]


class TransformCalls:
    """Calls the transform, and does with the messages at which it raises what the app has asked for."""

    def __init__(
        self, transform: Transform, dead_letter: DeadLetter | None, emit: Callable[[SwitchEvent], None]
    ) -> None:
        self._transform = transform
        self._dead_letter = dead_letter
        self._emit = emit

    def records(self, messages: Sequence[Message]) -> list[RecordLike]:
        """Return the records for a batch, dead letters included.

        Raises
        ------
        TransformFailed
            The transform raised, and the app has no topic for dead letters.
        Aborted
            A transform that is awaited did not end in time.
        """
        try:
            return self._run(messages)
        except NO_POISON:
            raise
        except Exception as error:
            if self._dead_letter is None:
                first, last = messages[0], messages[-1]
                raise TransformFailed(
                    f"{type(error).__name__}: {error}, for {len(messages)} messages from {_where(first)} "
                    f"to {_where(last)}; nothing of them counts"
                ) from error
            return [record for message in messages for record in self._single(message, self._dead_letter.topic)]

    def _run(self, messages: Sequence[Message]) -> list[RecordLike]:
        found = self._transform(messages)
        _require_no_coroutine(found)
        records = list(found)
        for record in records:
            if not isinstance(record, tuple):
                raise TypeError(f"a transform gives records, not {record!r:.100}")
        return records

    def _single(self, message: Message, dead_letter_topic: str) -> list[RecordLike]:
        try:
            return self._run([message])
        except NO_POISON:
            raise
        except Exception as error:  # noqa: BLE001 - this is what the dead letter is for
            words = _short(f"{type(error).__name__}: {error}")
            topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            self._emit(DeadLettered(topic=topic, partition=partition, offset=offset, error=words))
            headers = [
                *(message.headers() or []),
                ("featuregate.error", words),
                ("featuregate.topic", topic),
                ("featuregate.partition", str(partition)),
                ("featuregate.offset", str(offset)),
            ]
            return [Record(dead_letter_topic, message.value(), key=message.key(), headers=headers)]


def _require_no_coroutine(found: object) -> None:
    """Raise if this is a coroutine, which would never be awaited: a lambda around a coroutine function returns one."""
    if inspect.iscoroutine(found):
        found.close()
        raise TransformFailed("the transform returned a coroutine, but is no coroutine function: write it `async def`")


def _short(words: str) -> str:
    """Cut what an exception says to what a header can hold, whatever it says."""
    return words[:LONGEST_ERROR].encode(errors="replace").decode()


def _where(message: Message) -> str:
    return f"{message.topic()}[{message.partition()}]@{message.offset()}"
