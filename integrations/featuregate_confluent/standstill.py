"""Calls of a client that may stand still for good, whatever timeout they are given: each has a bound of ours."""

from __future__ import annotations

from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Caller", "within"]

T = TypeVar("T")

_END_SECONDS: Final = 1.0

_Calls = SimpleQueue["Callable[[], Any] | None"]
_Answers = SimpleQueue[tuple[BaseException | None, Any]]
"""What a call raised, or None and what it returned."""


class Caller:
    """A thread that makes calls for another one, which waits no longer than it wants to.

    The thread is kept from call to call: a new one for each would cost more than most calls do. One whose call does
    not come back is left behind, and another one takes its place. Two queues rather than futures, whose locks and
    lists cost three times as much, in a place that each transaction goes through.
    """

    def __init__(self) -> None:
        self._calls: _Calls = SimpleQueue()
        self._answers: _Answers = SimpleQueue()
        self._thread: Thread | None = None

    def within(self, seconds: float, call: Callable[[], T]) -> T:
        """Return or raise what a call returns or raises.

        Raises
        ------
        TimeoutError
            It has not come back. It may still do so, and what it uses must be left alone.
        """
        if self._thread is None:
            self._calls, self._answers = SimpleQueue(), SimpleQueue()
            self._thread = Thread(
                target=_serve, args=(self._calls, self._answers), name="featuregate-call", daemon=True
            )
            self._thread.start()
        try:
            self._calls.put(call)
            failure, returned = self._answers.get(timeout=seconds)
        except BaseException as gave_up:  # also where a signal's handler has ended the wait
            self._calls.put(None)
            self._thread = None
            if isinstance(gave_up, Empty):
                raise TimeoutError(f"the call has not come back within {seconds:g} s") from None
            raise
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback holds this frame
        return returned  # type: ignore[no-any-return]  # what the call of type T returned

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


def _serve(calls: _Calls, answers: _Answers) -> None:
    while (call := calls.get()) is not None:
        answer: tuple[BaseException | None, Any]
        try:
            answer = None, call()
        except BaseException as failure:  # noqa: BLE001 - raised again where it is waited for
            answer = failure, None
        del call  # what it holds may be closed before the next one comes
        answers.put(answer)
        del answer
