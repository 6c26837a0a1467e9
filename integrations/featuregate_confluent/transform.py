"""The app's code: its interface, and how it is called.

A transform runs to its end before anything is produced: what it raises must not leave half a batch.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from featuregate_confluent.client.clients import writer
from featuregate_confluent.errors import RecordRefused, SwitchFatal, TransformFailed, position_of
from featuregate_confluent.records import DeadLetter, DeadLetters, RecordLike, check_record

if TYPE_CHECKING:
    from confluent_kafka import Message, Producer

    from featuregate_confluent.events import DeadLettered
    from featuregate_confluent.producing.pipeline import OutputTopics


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


A_FUNCTION: Final = "a transform is a plain function: run what you await in it with asyncio.run()"
ALONE_SECONDS: Final = 5.0
"""Seconds for which messages are tried one by one, to name the message that fails."""


def is_async(transform: Transform) -> bool:
    """Return whether a transform, or its ``__call__``, is a coroutine function or an asynchronous generator."""
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return any(kind(function) for kind in kinds for function in (transform, transform.__call__))


class Prepared(NamedTuple):
    """What a batch leads to."""

    records: list[RecordLike]
    """Dead letters included."""
    events: list[DeadLettered]
    """One for each dead letter, to emit when the transaction is committed."""


class TransformCalls:
    """Calls the transform, and does with the messages at which it raises what the app has asked for."""

    def __init__(self, transform: Transform, dead_letter: DeadLetter | None, topics: OutputTopics) -> None:
        self._transform = transform
        self._letters = None if dead_letter is None else DeadLetters(dead_letter.topic)
        self._topics = topics

    def require_letter_topic(self, connection: Mapping[str, Any]) -> None:
        """Return if the topic for dead letters exists, if there is none, or if no broker answers.

        Raises SwitchFatal (it does not exist).
        """
        if self._letters is not None:
            try:
                self._topics.check(writer(connection), self._letters.topic)
            except ValueError as absent:
                raise SwitchFatal(f"dead letters have no place to go: {absent}") from None

    def begin_round(self) -> None:
        """Note that a round begins."""
        if self._letters is not None:
            self._letters.begin()

    def records(self, messages: Sequence[Message], client: Producer) -> Prepared:
        """Return the records for a batch, and the dead letters among them. Raises TransformFailed."""
        letters = self._letters
        if letters is not None and letters.need(messages):
            return self._one_by_one(messages, client, letters)
        try:
            return Prepared(self._run(messages, client), [])
        except TransformFailed:
            raise
        except Exception as error:
            if letters is None:
                raise TransformFailed(
                    f"{type(error).__name__}: {error}, for {len(messages)} messages from {position_of(messages[0])} to "
                    f"{position_of(messages[-1])}{self._alone(messages, client)}; nothing of them counts"
                ) from error
            return self._one_by_one(messages, client, letters)

    def refused(self, error: RecordRefused) -> int:
        """Return how many messages to process one by one, after client or brokers have refused a record.

        Raises RecordRefused (it was given for one message, and the app has no topic for dead letters), SwitchFatal (the
        topic for dead letters refuses it, too).
        """
        if len(error.messages) > 1:
            return len(error.messages)
        if self._letters is None:
            raise error
        self._letters.refuse(error.messages[0], error)
        return 1

    def committed(self, messages: Sequence[Message]) -> None:
        """Note that messages were committed."""
        if self._letters is not None:
            self._letters.committed(messages)

    def forget_topics(self) -> None:
        """Look for output topics again: a transaction was aborted."""
        self._topics.forget()

    def _run(self, messages: Sequence[Message], client: Producer) -> list[RecordLike]:
        found = self._transform(list(messages))  # its own, of which it may take messages away
        _require_no_coroutine(found)
        records = list(found)
        for record in records:
            check_record(record)
        for topic, partition in {(record[0], record[3] if len(record) > 3 else -1) for record in records}:  # noqa: PLR2004
            self._topics.check(client, topic, partition)
        return records

    def _alone(self, messages: Sequence[Message], client: Producer) -> str:
        """Name the first message that fails by itself, too, as far as that is found within seconds."""
        until = time.monotonic() + ALONE_SECONDS
        for message in messages if len(messages) > 1 else ():
            try:
                self._run([message], client)
            except TransformFailed:
                break
            except Exception:  # noqa: BLE001 - the error of the batch is raised
                return f", of which {position_of(message)} fails alone"
            if time.monotonic() > until:
                break
        return ""

    def _one_by_one(self, messages: Sequence[Message], client: Producer, letters: DeadLetters) -> Prepared:
        prepared = Prepared([], [])
        for message in messages:
            words = ""
            try:
                if not letters.need([message]):
                    prepared.records.extend(self._run([message], client))
                    continue
            except TransformFailed:
                raise
            except Exception as error:  # noqa: BLE001 - this is what the dead letter is for
                words = f"{type(error).__name__}: {error}"
            letter, event = letters.write(message, words)
            prepared.records.append(letter)
            prepared.events.append(event)
        return prepared


def _require_no_coroutine(found: object) -> None:
    """Raise if this is a coroutine, which would never be awaited: a lambda around a coroutine function returns one."""
    if inspect.iscoroutine(found):
        found.close()
        raise TransformFailed(f"the transform returned a coroutine, but {A_FUNCTION}")
