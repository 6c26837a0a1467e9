"""End a command by SIGTERM or Ctrl-C at a place of its own choice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue


class StopSignal:
    """Whether the command was asked to end.

    A `threading.Event` would not do: its lock is held while the main thread begins to wait, and a handler of a signal
    that sets it there waits for that lock for ever. The put of a simple queue may be called amid its get.
    """

    def __init__(self) -> None:
        self._asked: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """Ask; from any thread and any signal handler."""
        self._asked.put(None)

    def is_set(self) -> bool:
        """Whether `set` was called."""
        return not self._asked.empty()

    def wait(self, seconds: float) -> bool:
        """Wait for SECONDS, or until `set` is called; return whether it was called."""
        try:
            self._asked.get(timeout=seconds)
        except Empty:
            return False
        self._asked.put(None)
        return True


@contextmanager
def stop_signals() -> Iterator[StopSignal]:
    """Ask to end by SIGTERM or Ctrl-C, in place of ending in the middle of work."""
    stop = StopSignal()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
