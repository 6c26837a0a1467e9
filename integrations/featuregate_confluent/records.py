"""The records that a transform gives, and a check of what the client, or any broker, would refuse. Pure.

The client cannot be left to judge: it takes a header name that is a number, ends the process at a header name that is
a surrogate, and tells of a name that no topic can have only when the transaction is committed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
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
