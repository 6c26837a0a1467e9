"""Calls of a client that may stand still for good, whatever timeout they are given: each has a bound of ours."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import closing
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Caller", "within"]

T = TypeVar("T")

_END_SECONDS: Final = 1.0


class Caller:
    """A thread that makes calls for another one, which waits no longer than it wants to.

    The thread is kept from call to call: handing one over costs some 10 us, a new thread for each ten times that. One
    whose call does not come back is left behind, and another one takes its place.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def within(self, seconds: float, call: Callable[[], T]) -> T:
        """Return or raise what a call returns or raises.

        Raises
        ------
        TimeoutError
            It has not come back. It may still do so, and what it uses must be left alone.
        """
        if self._thread is None:
            self._calls = SimpleQueue()
            self._thread = Thread(target=_serve, args=(self._calls,), name="featuregate-call", daemon=True)
            self._thread.start()
        answer: Future[T] = Future()
        try:
            self._calls.put((call, answer))
            return answer.result(seconds)
        except BaseException:  # also where a signal's handler has ended the wait
            if not answer.done():  # else the call itself has raised it
                self._calls.put(None)
                self._thread = None
            raise

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread.join(_END_SECONDS)
            self._thread = None


def within(seconds: float, call: Callable[[], T]) -> T:
    """Make one call as :meth:`Caller.within` does."""
    with closing(Caller()) as caller:
        return caller.within(seconds, call)


def _serve(calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]) -> None:
    while (asked := calls.get()) is not None:
        call, answer = asked
        try:
            answer.set_result(call())
        except BaseException as failure:  # noqa: BLE001 - raised again where it is waited for
            answer.set_exception(failure)
        del asked, call, answer  # what they hold may be closed before the next one comes
