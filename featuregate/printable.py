"""Make text from outside fit for an error, one line of a log, a decision and health.

Errors, loggers (`featuregate.logs`), decisions and health pass every text through `fit`, wherever it comes from. Doors
that know a peer's text cut it shorter with `shown`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

from featuregate.budgets import LONGEST_SAID, LONGEST_TEXT, MOST_NAMED

T = TypeVar("T")


def printable(text: str) -> str:
    """Escape line breaks and control characters: a peer's text must not steer a terminal, or forge a line of a log."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)


def fit(text: str, longest: int = LONGEST_SAID) -> str:
    """Escape control characters, and cut what is longer. A text that was fit stays as it is."""
    if len(text) <= longest and text.isprintable():
        return text
    start = printable(text[:longest])
    if len(text) <= longest and len(start) <= longest:
        return start
    note = f"... (of {len(text)} characters)"
    return start[: longest - len(note)] + note


def harmless(value: T) -> T:
    """Make each text fit in a value as JSON has them: texts, lists, tuples and mappings, and what they hold."""
    return cast("T", _harmless(value))


def _harmless(value: Any) -> Any:
    if isinstance(value, str):
        return fit(value)
    if type(value) in (list, tuple):
        return type(value)(map(_harmless, value))
    if type(value) is dict:
        return {_harmless(name): _harmless(each) for name, each in value.items()}
    return value


def shown(text: str, longest: int = LONGEST_TEXT) -> str:
    """Cut a long text, and replace control characters, which a terminal would obey."""
    start = "".join(character if character.isprintable() else "?" for character in text[:longest])
    return start + ("..." if len(text) > longest else "")


def some(names: Iterable[str], at_most: int = MOST_NAMED, separator: str = ", ") -> str:
    """Join the first of many names, and say how many more there are."""
    every = list(names)
    more = len(every) - at_most
    return separator.join(every) if more <= 0 else f"{separator.join(every[:at_most])} and {more} more"
