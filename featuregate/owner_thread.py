"""A daemon thread that takes step after step for its owner, and ends where nobody holds the owner any more."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_WAKE: Final = "wake"
_END: Final = "end"

_Inbox = SimpleQueue[str]
"""What the thread waits for. Unlike an Event, a signal handler and the garbage collector may put at any time."""


class OwnerThread(Generic[T]):
    """Calls ``step`` with the owner again and again, and holds the owner weakly in between.

    ``owner``: what the thread works for. A forked child has no thread: its owner makes another `OwnerThread`. ``step``:
    a function, not a method of the owner: does what is due, and returns the seconds until the next step, None where the
    thread is to end. It must not raise. ``name``: the name of the thread. ``at_end``: called with the owner, in the
    thread, after :meth:`end`.
    """

    def __init__(
        self,
        owner: T,
        step: Callable[[T], float | None],
        *,
        name: str,
        at_end: Callable[[T], None] = lambda _owner: None,
    ) -> None:
        self._owner = weakref.ref(owner)
        self._step = step
        self._at_end = at_end
        self._name = name
        self._inbox: _Inbox = SimpleQueue()
        self._thread: threading.Thread | None = None
        # Runs wherever the garbage collector happens to run, so it may neither block nor lock.
        weakref.finalize(owner, self._inbox.put, _END).atexit = False

    def start(self) -> None:
        """Start the thread where none runs. Raises `RuntimeError` where the system or the interpreter has no more."""
        if self._thread is None or not self._thread.is_alive():
            arguments = (self._owner, self._step, self._at_end, self._inbox)
            thread = threading.Thread(target=_run, args=arguments, name=self._name, daemon=True)
            thread.start()
            self._thread = thread

    def wake(self) -> None:
        """Take the next step now."""
        if self._inbox.empty():  # a step that hangs must not let wakes pile up
            self._inbox.put(_WAKE)

    def end(self, seconds: float) -> None:
        """End the thread after its current step, and wait for these seconds at most. Any thread may call this."""
        thread, self._thread = self._thread, None
        self._inbox.put(_END)
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)


def _run(owner: weakref.ref[T], step: Callable[[T], float | None], at_end: Callable[[T], None], inbox: _Inbox) -> None:
    ending = False
    while (found := owner()) is not None:
        if ending:
            at_end(found)
            return
        delay = step(found)
        del found
        if delay is None:
            return
        with suppress(Empty):
            ending = inbox.get(timeout=delay) == _END
