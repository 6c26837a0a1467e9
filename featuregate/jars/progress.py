"""A line on stderr that says how far a download has come."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self


@contextmanager
def shown_on_a_terminal(what: str, ask: Callable[[], str]) -> Iterator[None]:
    """Show a line with the state that ``ask`` returns where stderr is a terminal, until the work is done."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    with ProgressLine(what, ask):
        yield


class ProgressLine:
    """A line on stderr during a ``with`` block: updated in a terminal, repeated now and then in a log file."""

    def __init__(self, what: str, ask: Callable[[], str] | None = None) -> None:
        self.state = "resolving"
        self._ask = ask
        self._what = what
        self._began = time.monotonic()
        self._in_terminal = sys.stderr.isatty()
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._ticker.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._ticker.join()
        if self._ask is not None and not kind:
            sys.stderr.write("\r\x1b[K")
            return
        self.state = "failed" if kind else "done"
        self._write("\n")

    def _tick(self) -> None:
        self._write("" if self._in_terminal else "\n")
        while not self._stop.wait(1 if self._in_terminal else 15):
            self._write("" if self._in_terminal else "\n")

    def _write(self, end: str) -> None:
        if self._ask is not None and not self._stop.is_set():
            self.state = self._ask()
        start = "\r\x1b[K" if self._in_terminal else ""
        sys.stderr.write(f"{start}{self._what} ... {time.monotonic() - self._began:.0f} s ({self.state}){end}")
        sys.stderr.flush()
