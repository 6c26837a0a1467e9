"""Properties as librdkafka reads them: aliases, ``topic.``, ``default.topic.config``, and ``"T"``, ``1`` or ``0x5``.

Pure: it does no I/O and reads no clock.

Every function is total: what librdkafka would refuse is left for it to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Config = Mapping[str, Any]
"""The properties and callbacks that an app passes to confluent-kafka."""

_TOPIC_CONFIG: Final = "default.topic.config"


def given(config: Config, spellings: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    """Yield each place in which a property is given, as the app spelled it, with its value.

    ``spellings`` are librdkafka's name of the property and its aliases.
    """
    for key, value in config.items():
        if key == _TOPIC_CONFIG and isinstance(value, Mapping):
            yield from ((f"{key}: {inner}", found) for inner, found in given(value, spellings))
        elif key in spellings or str(key).removeprefix("topic.") in spellings:
            yield key, value


def last(config: Config, spellings: tuple[str, ...]) -> object:
    """Return the value that librdkafka uses if a property is given more than once; None: it is not given."""
    return next((value for _key, value in reversed(list(given(config, spellings)))), None)


def text(value: object) -> str:
    """Return a value of an enumeration or a boolean, of which librdkafka ignores the case."""
    return str(value).strip().lower()


def number(value: object) -> int | None:
    """Return an integer, given as text or not, decimal or ``0x..``; None: it is none."""
    for base in (0, 10):
        try:
            return int(str(value), base)
        except ValueError:
            continue
    return None
