"""Calls of a client that may never return, whatever timeout the client is given: each call has a bound of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Thread, current_thread
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

_BEGIN_SECONDS: Final = 30.0
"""Until a thread has begun, on a machine however busy."""
_CHECK_SECONDS: Final = 0.1
"""Seconds between checks of the work: the next call may have a shorter bound than the current one."""
_END_SECONDS: Final = 1.0

_Answer: TypeAlias = tuple[BaseException | None, Any]
"""What the work raised, or None and what the work returned."""
_Calls: TypeAlias = SimpleQueue["Call[Any] | None"]


class NotReturned(TimeoutError):
    """A call of the client has not returned within its bound."""


class Within(Protocol):
    """Makes a call with a bound: returns or raises what the call does, or raises NotReturned."""

    def __call__(self, seconds: float, call: Callable[[], T], /) -> T:
        """Make the call."""
        ...


class Call(Generic[T]):
    """Work in another thread: calls of a client, one after the other, each with a bound of its own.

    The answer comes through a queue. The locks and lists of a future cost three times as much, and each transaction
    comes through here.
    """

    def __init__(self, work: Callable[[Within], T]) -> None:
        self._work = work
        self._answers: SimpleQueue[_Answer] = SimpleQueue()
        self._bound = _BEGIN_SECONDS
        self._until = time.monotonic() + _BEGIN_SECONDS
        self.given_up = False
        """Whether no thread waits for the work any more."""

    def give_up(self) -> None:
        """Make no call after the current one."""
        self.given_up = True

    def result(self) -> T:
        """Wait for the end of the work, and return or raise what the work does.

        Raises `NotReturned`: a call has not returned. It may still do so; leave the objects alone that it uses. No call
        follows it.
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
        """Do the work. The thread of a `Callers` calls this."""
        work = self._work
        del self._work  # the work may hold this call: this frees both as soon as possible
        try:
            return None, work(self._within)
        except BaseException as failure:  # noqa: BLE001 - result() raises it again
            return failure, None

    def answer(self, answer: _Answer) -> None:
        """Let :meth:`result` return."""
        self._answers.put(answer)

    def _within(self, seconds: float, call: Callable[[], Any]) -> Any:
        self._bound, self._until = seconds, time.monotonic() + seconds
        if self.given_up:
            raise NotReturned("no thread waits for this call any more")
        return call()

    def _answer(self) -> _Answer:
        while True:
            try:
                return self._answers.get(timeout=_CHECK_SECONDS)
            except Empty:
                if time.monotonic() >= self._until:
                    raise NotReturned(f"the call has not returned within {self._bound:g} s") from None


class Callers:
    """Threads that make calls for another thread, as many as there are calls at the same time.

    A thread is reused from call to call: a new thread for each call would cost more than most calls do. A thread whose
    call does not return is left behind. Only one thread may start calls.
    """

    def __init__(self) -> None:
        self._idle: list[tuple[_Calls, Thread]] = []
        self._closed = False

    def start(self, work: Callable[[Within], T]) -> Call[T]:
        """Start work in a thread. The work makes its calls through its argument; :meth:`Call.result` waits for it."""
        call = Call(work)
        calls, _ = self._idle.pop() if self._idle and not self._closed else self._new()
        calls.put(call)
        return call

    def close(self) -> None:
        """End the threads: an idle thread at once, any other when its call has returned."""
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
            del call, answer  # the objects that they hold may be closed before the next call comes
            if self._closed:
                return


def call_within(seconds: float, call: Callable[[], T]) -> T:
    """Make one call in another thread, and wait for it for these seconds at most. Raises as :meth:`Call.result`."""
    with closing(Callers()) as callers:
        return callers.start(lambda within: within(seconds, call)).result()
