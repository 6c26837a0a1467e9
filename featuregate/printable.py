"""Make text from a peer fit for an error message and for one line of a log."""

from __future__ import annotations

from collections.abc import Iterable

from featuregate.budgets import LONGEST_TEXT, MOST_NAMED


def printable(text: str) -> str:
    """Escape line breaks and control characters: a peer's text must not steer a terminal, or forge a line of a log."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)


def shown(text: str, longest: int = LONGEST_TEXT) -> str:
    """Cut a long text, and replace control characters, which a terminal would obey."""
    start = "".join(character if character.isprintable() else "?" for character in text[:longest])
    return start + ("..." if len(text) > longest else "")


def some(names: Iterable[str], at_most: int = MOST_NAMED, separator: str = ", ") -> str:
    """Join the first of many names, and say how many more there are."""
    every = list(names)
    more = len(every) - at_most
    return separator.join(every) if more <= 0 else f"{separator.join(every[:at_most])} and {more} more"
