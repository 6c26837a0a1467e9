"""Calls of a client that may stand still for good, whatever timeout they are given: each has a bound of ours."""

from __future__ import annotations

import time
from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Call", "Callers", "Within", "within"]

T = TypeVar("T")

_BEGIN_SECONDS: Final = 30.0
"""Until a thread has begun, on however busy a machine."""
_LOOK_SECONDS: Final = 0.1
"""Between looks at how far the work is: its next call may have a shorter bound than the last one."""
_END_SECONDS: Final = 1.0

_Answer: TypeAlias = tuple[BaseException | None, Any]
"""What the work raised, or None and what it returned."""
_Calls: TypeAlias = SimpleQueue["Call[Any] | None"]


class Within(Protocol):
    """Makes a call with a bound: returns or raises what the call does, or raises TimeoutError."""

    def __call__(self, seconds: float, call: Callable[[], T], /) -> T:
        """Make it."""
        ...


class Call(Generic[T]):
    """Work that another thread does: calls of a client, one after the other, each with a bound of its own.

    A queue for the answer rather than a future, whose locks and lists cost three times as much, in a place that each
    transaction goes through.
    """

    def __init__(self, work: Callable[[Within], T]) -> None:
        self._work = work
        self._answers: SimpleQueue[_Answer] = SimpleQueue()
        self._bound = _BEGIN_SECONDS
        self._until = time.monotonic() + _BEGIN_SECONDS
        self.given_up = False
        """Whether nobody waits for it any more."""

    def give_up(self) -> None:
        """Make no call after the one that is under way."""
        self.given_up = True

    def result(self) -> T:
        """Wait for the end of the work, and return or raise what it does.

        Raises
        ------
        TimeoutError
            A call has not come back. It may still do so, and what it uses must be left alone; none is made after it.
        """
        try:
            failure, returned = self._answer()
        except BaseException:  # also where a signal's handler has ended the wait
            self.give_up()
            raise
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback holds this frame
        return returned  # type: ignore[no-any-return]  # what the work of type T returned

    def work(self) -> _Answer:
        """Do the work: for the thread that does."""
        work = self._work
        del self._work  # what does it may hold this call: both can be freed as soon as nobody needs them
        try:
            return None, work(self._within)
        except BaseException as failure:  # noqa: BLE001 - raised again where it is waited for
            return failure, None

    def answer(self, answer: _Answer) -> None:
        """Let who waits go on."""
        self._answers.put(answer)

    def _within(self, seconds: float, call: Callable[[], Any]) -> Any:
        self._bound, self._until = seconds, time.monotonic() + seconds
        if self.given_up:
            raise TimeoutError("nobody waits for it any more")
        return call()

    def _answer(self) -> _Answer:
        while True:
            try:
                return self._answers.get(timeout=_LOOK_SECONDS)
            except Empty:
                if time.monotonic() >= self._until:
                    raise TimeoutError(f"the call has not come back within {self._bound:g} s") from None


class Callers:
    """Threads that make calls for another one, as many as it has under way at once.

    They are kept from call to call: a new one for each would cost more than most calls do. One whose call does not
    come back is left behind. Calls are begun by one thread.
    """

    def __init__(self) -> None:
        self._idle: list[tuple[_Calls, Thread]] = []
        self._closed = False

    def start(self, work: Callable[[Within], T]) -> Call[T]:
        """Let a thread begin with work that makes its calls by what it is given; :meth:`Call.result` is its end."""
        call = Call(work)
        calls, _ = self._idle.pop() if self._idle and not self._closed else self._new()
        calls.put(call)
        return call

    def close(self) -> None:
        """End the threads: at once those that wait, and each other one when its call has come back."""
        self._closed = True
        ending = []
        while self._idle:
            calls, thread = self._idle.pop()
            calls.put(None)
            ending.append(thread)
        for thread in ending:
            thread.join(_END_SECONDS)

    def _new(self) -> tuple[_Calls, Thread]:
        calls: _Calls = SimpleQueue()
        thread = Thread(target=self._serve, args=(calls,), name="featuregate-call", daemon=True)
        thread.start()
        return calls, thread

    def _serve(self, calls: _Calls) -> None:
        while (call := calls.get()) is not None:
            answer = call.work()
            self._idle.append((calls, current_thread()))  # before the answer, after which the next call may come
            call.answer(answer)
            del call, answer  # what they hold may be closed before the next one comes
            if self._closed:
                return


def within(seconds: float, call: Callable[[], T]) -> T:
    """Make one call, and wait no longer for it than so many seconds.

    Raises
    ------
    TimeoutError
        As :meth:`Call.result`.
    """
    with closing(Callers()) as callers:
        return callers.start(lambda bounded: bounded(seconds, call)).result()
