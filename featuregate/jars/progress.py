"""A line on stderr that says how far a download has come."""

from __future__ import annotations

import sys
import threading
import time
from typing import Self


class Progress:
    """A line on stderr during a ``with`` block: updated in a terminal, repeated now and then in a log file."""

    def __init__(self, what: str) -> None:
        self.state = "resolving"
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
        self.state = "failed" if kind else "done"
        self._write("\n")

    def _tick(self) -> None:
        self._write("" if self._in_terminal else "\n")
        while not self._stop.wait(1 if self._in_terminal else 15):
            self._write("" if self._in_terminal else "\n")

    def _write(self, end: str) -> None:
        start = "\r\x1b[K" if self._in_terminal else ""
        sys.stderr.write(f"{start}{self._what} ... {time.monotonic() - self._began:.0f} s ({self.state}){end}")
        sys.stderr.flush()
