"""What goes to standard output and standard error."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["PROGRAM", "complain", "discard_output", "printable", "wants_colour"]

PROGRAM: Final = "featuregate"


def complain(problem: str) -> None:
    """Print one line on standard error, whatever the text is made of."""
    if sys.stderr is not None:  # as it is where the process was started with it closed
        print(f"{PROGRAM}: {printable(' '.join(problem.split()))}", file=sys.stderr)


def discard_output() -> None:
    """Let the interpreter, which flushes once more at its end, not find the same trouble again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """Show what a terminal would obey rather than print: texts of brokers end up here."""
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)


def wants_colour(stream: TextIO) -> bool:
    """Say whether to paint: only a terminal, and not where NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
