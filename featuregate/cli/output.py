"""Write to standard output and standard error."""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from featuregate.patterns import pattern
from featuregate.printable import printable

PROGRAM: Final = "featuregate"
OUTPUT_ERRORS: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of writing output. Commands turn every other OSError into an error of featuregate."""
_USERINFO: Final = pattern(r"(['\"])[^'\"]*@|(?<!\S)\S*@")
"""The text before an @, from the opening quote or the last white space on: a misplaced argument may be
``user:password@host:9092``."""


def print_message(message: str) -> None:
    """Print one line on standard error, without userinfo, line breaks and control characters."""
    if sys.stderr is not None:  # None where the process was started with it closed
        said = " ".join(_USERINFO.sub(r"\1<hidden>@", message).split())
        print(f"{PROGRAM}: {printable(said)}", file=sys.stderr)


def discard_output() -> None:
    """Redirect standard output to the null device, because the interpreter flushes it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def raise_if_unread() -> None:
    """Raise BrokenPipeError if the reader of standard output has gone. No write is needed to notice that.

    Without this, a command that prints a line once an hour would run for another hour after ``| head -1``.
    """
    if sys.stdout is None or not hasattr(select, "poll"):
        return
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # no file stands behind it, as in a test
        return
    watched = select.poll()
    watched.register(descriptor, 0)
    if any(events & select.POLLERR for _, events in watched.poll(0)):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def supports_colour(stream: TextIO) -> bool:
    """Return whether to use colour: only on a terminal, and not where NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_GAP: Final = "  "


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, with cells padded to the width of their column and without trailing blanks."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
