"""Make text from a peer fit for an error message and for one line of a log."""

from __future__ import annotations

from typing import Final

_SHOWN: Final = 200
"""Characters."""


def shown(text: str) -> str:
    """Cut a long text, and replace control characters, which a terminal would obey."""
    printable = "".join(character if character.isprintable() else "?" for character in text[:_SHOWN])
    return printable + ("..." if len(text) > _SHOWN else "")
