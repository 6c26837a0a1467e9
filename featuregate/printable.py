"""What a peer says in its own words, made fit for an error and for one line of a log."""

from __future__ import annotations

from typing import Final

__all__ = ["shown"]

_SHOWN: Final = 200
"""Characters."""


def shown(text: str) -> str:
    """Cut a text that is long, and replace what a terminal would obey rather than print."""
    printable = "".join(character if character.isprintable() else "?" for character in text[:_SHOWN])
    return printable + ("..." if len(text) > _SHOWN else "")
