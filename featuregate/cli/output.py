"""What goes to standard output and standard error."""

from __future__ import annotations

import errno
import os
import re
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

__all__ = [
    "OUTPUT_ERRORS",
    "PROGRAM",
    "discard_output",
    "hide_userinfo",
    "print_message",
    "print_stderr",
    "printable",
    "supports_colour",
]

PROGRAM: Final = "featuregate"
OUTPUT_ERRORS: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What befalls output. Whatever else commands do that may raise OSError, they turn into errors of ours."""
_USERINFO: Final = re.compile(r"(['\"])[^'\"]*@|\S*@")
"""As far back as a quote begins, or as the white space ends."""


def print_message(problem: str) -> None:
    """Print one line on standard error, whatever the text is made of."""
    print_stderr(f"{PROGRAM}: {printable(' '.join(hide_userinfo(problem).split()))}")


def print_stderr(line: str) -> None:
    """Print a line on standard error as it is."""
    if sys.stderr is not None:  # as it is where the process was started with it closed
        print(line, file=sys.stderr)


def discard_output() -> None:
    """Let the interpreter, which flushes once more at its end, not find the same trouble again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """Show what a terminal would obey rather than print: texts of brokers end up here."""
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)


def hide_userinfo(problem: str) -> str:
    """Hide what stands before an @: an argument that belongs nowhere may be ``user:password@host:9092``."""
    return _USERINFO.sub(r"\1<hidden>@", problem)


def supports_colour(stream: TextIO) -> bool:
    """Say whether to paint: only a terminal, and not where NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
