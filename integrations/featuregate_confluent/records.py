"""The records that a transform gives, dead letters, and a check of what a client or broker would refuse. Pure.

The client cannot be left to judge: it takes a header name that is a number, ends the process at a header name that is
a surrogate, and tells of a name that no topic can have only when the transaction is committed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from featuregate_confluent.errors import RecordRefused, SwitchFatal, position_of
from featuregate_confluent.events import DeadLettered

if TYPE_CHECKING:
    from confluent_kafka import Message

    from featuregate_confluent.producing.transaction import Data

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""``org.apache.kafka.common.internals.Topic``."""
_FIELDS: Final = 6
_LARGEST: Final = {"partition": 2**31 - 1, "timestamp": 2**63 - 1}
_SMALLEST: Final = {"partition": -1, "timestamp": 0}
_known: Final[set[str]] = set()
_KNOWN_AT_MOST: Final = 10_000


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


def check_record(record: object) -> None:
    """Return if this is a record that a client can produce. Raises TypeError, ValueError."""
    if not isinstance(record, tuple):
        raise TypeError(f"a transform gives records, not {record!r:.100}")
    if not 0 < len(record) <= _FIELDS:
        raise TypeError(f"a record has 1 to {_FIELDS} values, topic first, not {len(record)}: {record!r:.100}")
    topic = record[0]
    if type(topic) is not str or topic not in _known:
        check_topic(topic)
    for name, data in zip(("value", "key"), record[1:3], strict=False):
        if type(data) is not bytes and data is not None:
            _check_data(name, data, topic)
    if len(record) > 3:  # noqa: PLR2004 - topic, value and key, of most records all
        for name, number in zip(("partition", "timestamp"), record[3:5], strict=False):
            _check_number(name, number, topic)
        if len(record) == _FIELDS and record[5] is not None:
            _check_headers(record[5], topic)


def check_topic(topic: object) -> None:
    """Return if a topic can have this name. Raises as :func:`check_record`."""
    if not isinstance(topic, str):
        raise TypeError(f"the topic of a record is a str, not a {type(topic).__name__}: {topic!r:.100}")
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise ValueError(
            f"no topic can have the name {topic!r:.100}: names are 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'"
        )
    if len(_known) < _KNOWN_AT_MOST:
        _known.add(topic)


def _check_data(name: str, data: object, topic: str) -> None:
    if isinstance(data, str):
        _check_text(name, data, topic)
    elif not isinstance(data, bytes) and not _is_read_only(data):
        raise TypeError(f"the {name} of a record for {topic!r} is bytes, str or None, not a {type(data).__name__}")


def _is_read_only(data: object) -> bool:
    return isinstance(data, memoryview) and data.readonly and data.c_contiguous


def _check_text(name: str, text: str, topic: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"the {name} of a record for {topic!r} cannot be encoded: {error}") from None


def _check_number(name: str, number: object, topic: str) -> None:
    if not isinstance(number, int):
        raise TypeError(
            f"the {name} of a record for {topic!r} is an int, not a {type(number).__name__}: {number!r:.100}"
        )
    if not _SMALLEST[name] <= number <= _LARGEST[name]:
        raise ValueError(
            f"the {name} of a record for {topic!r} is between {_SMALLEST[name]} and {_LARGEST[name]}, not {number}"
        )


def _check_headers(headers: object, topic: str) -> None:
    if not isinstance(headers, list | dict):
        raise TypeError(f"the headers of a record for {topic!r} are a list or a dict, not a {type(headers).__name__}")
    for header in headers.items() if isinstance(headers, dict) else headers:
        if not isinstance(header, tuple) or len(header) != 2:  # noqa: PLR2004 - name and value
            raise TypeError(f"a header of a record for {topic!r} is a tuple of name and value, not {header!r:.100}")
        name, value = header
        if not isinstance(name, str):
            raise TypeError(f"the name of a header for {topic!r} is a str, not a {type(name).__name__}: {name!r:.100}")
        if "\0" in name:
            raise ValueError(f"the name of a header for {topic!r} has a null character: {name!r:.100}")
        _check_text("name of a header", name, topic)
        if isinstance(value, str):
            _check_text(f"header {name!r}", value, topic)
        elif value is not None and not isinstance(value, bytes):
            raise TypeError(
                f"the header {name!r} of a record for {topic!r} is bytes, str or None, not a {type(value).__name__}"
            )


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
