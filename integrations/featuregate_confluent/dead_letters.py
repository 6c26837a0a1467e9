"""Dead letters: the messages that an app cannot process, as records for another topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate_confluent.errors import RecordRefused, SwitchFatal, position_of
from featuregate_confluent.events import DeadLettered
from featuregate_confluent.records import Record

if TYPE_CHECKING:
    from confluent_kafka import Message

    from featuregate_confluent.producing.transaction import Data

LONGEST_ERROR: Final = 1000
"""Characters of an exception's text in the header of a dead letter."""
_SMALL: Final = 10_000
"""Bytes that key and headers of a message may have in a dead letter without the value."""


class DeadLetter(NamedTuple):
    """Where messages go that cannot be processed: in the same transaction, with headers that say why.

    That is a message at which the transform raises, or for which it gives a record that no client could send, or that
    client or brokers refuse, such as one that is too large. To find which message of a batch it is, each is processed
    by itself. A message that is too large for this topic, too, goes without its value. If the topic refuses that as
    well, :meth:`ExactlyOnceProcessor.run` ends with :class:`~featuregate_confluent.errors.SwitchFatal`, and nothing of
    the transaction counts.

    The topic must exist when the processor starts, unless brokers create topics.
    """

    topic: str


@dataclass(frozen=True, slots=True)
class _Refused:
    """A message of which a record was refused."""

    error: str
    whole: bool
    """Whether the dead letter may have the value of the message."""


class DeadLetters:
    """The dead letters of a processor, and the messages that need one because brokers refuse what they lead to."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._refused: dict[str, _Refused] = {}
        self._written: dict[str, str] = {}

    def begin(self) -> None:
        """Note that a round begins: the dead letters before it were committed, or come again."""
        self._written.clear()

    def need(self, messages: Sequence[Message]) -> bool:
        """Return whether one of these messages needs a dead letter, whatever the transform says."""
        return bool(self._refused) and any(position_of(message) in self._refused for message in messages)

    def write(self, message: Message, error: str) -> tuple[Record, DeadLettered]:
        """Return the dead letter of a message, and the event of it."""
        place = position_of(message)
        refused = self._refused.get(place) or _Refused(_short(error), whole=True)
        self._written[place] = refused.error
        topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
        where = [
            ("featuregate.error", refused.error),
            ("featuregate.topic", topic),
            ("featuregate.partition", str(partition)),
            ("featuregate.offset", str(offset)),
        ]
        value: Data
        key: Data
        value, key, headers = message.value(), message.key(), _headers(message)
        if not refused.whole:
            value, key, headers = _without_value(message, key, headers)
        letter = Record(self.topic, value, key, headers=[*headers, *where])
        return letter, DeadLettered(topic=topic, partition=partition, offset=offset, error=refused.error)

    def refuse(self, message: Message, error: RecordRefused) -> None:
        """Note that the only record, or the dead letter, of a message was refused. Raises SwitchFatal."""
        place = position_of(message)
        before = self._refused.get(place)
        if before is not None and not before.whole:
            raise SwitchFatal(
                f"topic {self.topic!r} refuses the dead letter of the message {place}, without its value as well: "
                f"{error.why}"
            ) from error
        written = before.error if before is not None else self._written.get(place)
        self._refused[place] = (
            _Refused(_short(error.why), whole=True) if written is None else _Refused(written, whole=False)
        )

    def committed(self, messages: Sequence[Message]) -> None:
        """Forget messages that were committed."""
        for message in messages if self._refused else ():
            self._refused.pop(position_of(message), None)


def _headers(message: Message) -> list[tuple[str, Data]]:
    found = message.headers() or []
    return list(found.items() if isinstance(found, dict) else found)


def _without_value(
    message: Message, key: Data, headers: list[tuple[str, Data]]
) -> tuple[None, Data, list[tuple[str, Data]]]:
    """Return a dead letter's value, key and headers, one of which says what is left out."""
    small = sum(len(part or b"") for part in (key, *(part for header in headers for part in header))) <= _SMALL
    left_out = f"value ({len(message.value() or b'')} bytes)"
    if small:
        return None, key, [*headers, ("featuregate.left_out", left_out)]
    return None, None, [("featuregate.left_out", f"{left_out}, key and headers")]


def _short(words: str) -> str:
    """Cut what an exception says to what a header can hold, whatever it says."""
    return words[:LONGEST_ERROR].encode(errors="replace").decode()
