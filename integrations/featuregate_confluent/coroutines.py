"""A transform that is a coroutine function: it runs in the app's event loop, while the thread of the rounds waits.

The rounds stay in one thread, because they block, and because a member's state belongs to one thread. Every wait for
the loop has a bound: neither a transform that never returns nor a loop that is closed holds the member.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from featuregate.blocking import in_daemon_thread
from featuregate_confluent.errors import Aborted, TransformFailed
from featuregate_confluent.transform import AsyncTransform, gathered

if TYPE_CHECKING:
    from confluent_kafka import Message

    from featuregate_confluent.producing.rounds import Rounds
    from featuregate_confluent.producing.transaction import Transaction
    from featuregate_confluent.records import RecordLike

T = TypeVar("T")

AT_ONCE: Final = 16
"""Partitions whose transforms are awaited at the same time: as many as a pipeline commits."""
CANCEL_SECONDS: Final = 10.0
"""For which transforms that are cancelled may clean up. One that takes longer is left behind."""
_CHECK_SECONDS: Final = 0.25
"""Between checks of whether the loop is closed."""


class Overdue(Exception):
    """A coroutine has not ended in time, and was cancelled."""


class AppLoop:
    """The event loop of the task that makes this, for another thread. Coroutines run in the context of that task."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._context = copy_context()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cancelled = False

    @property
    def is_here(self) -> bool:
        """Whether the calling thread runs the loop: a wait for the loop would never end there."""
        return threading.get_ident() == self._thread and self._loop.is_running()

    @property
    def closed(self) -> bool:
        """Whether the loop is closed: nothing runs in it."""
        return self._loop.is_closed()

    @property
    def ended(self) -> bool:
        """Whether nothing begins in the loop any more: :meth:`cancel` was called, or the loop is closed."""
        return self._cancelled or self.closed

    async def run_beside(self, work: Callable[[], None], stop: Callable[[], None]) -> None:
        """Run blocking work in a thread beside the loop; where this is cancelled, stop the work and wait for its end.

        A second cancellation does not wait.
        """
        ended = in_daemon_thread(work)
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            stop()
            self.cancel()
            await asyncio.wait([ended])
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> LoopCall[T]:
        """Run a coroutine in the loop; from any thread."""
        call = LoopCall(self, work)
        self.call_soon(lambda: self._begin(call))
        return call

    def cancel(self) -> None:
        """Cancel all coroutines, also those that come later; from any thread."""
        self._cancelled = True
        self.call_soon(lambda: [task.cancel() for task in tuple(self._tasks)])

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a function in the loop, unless the loop is closed; from any thread."""
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(function, context=self._context)

    def _begin(self, call: LoopCall[Any]) -> None:
        task = call.task = self._loop.create_task(call.work, name="featuregate-transform")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(call.done.put)
        if self._cancelled:
            task.cancel()


class LoopCall(Generic[T]):
    """A coroutine that runs in a loop, for a thread that waits for it."""

    def __init__(self, loop: AppLoop, work: Coroutine[Any, Any, T]) -> None:
        self.work = work
        self.task: asyncio.Task[T] | None = None
        """Set in the loop, when the coroutine begins."""
        self.done: SimpleQueue[asyncio.Task[T]] = SimpleQueue()
        self._loop = loop

    def result(self, seconds: float) -> T:
        """Wait for so many seconds at most, and return or raise what the coroutine does.

        Raises
        ------
        Overdue
            It has not ended in time.
        Aborted
            It was cancelled with its owner, or the loop is closed.
        TransformFailed
            It was cancelled or interrupted by other means.
        """
        task = self._wait(seconds)
        if task is None:
            self.cancel()
            self.wait_for_cancelled(CANCEL_SECONDS)
            raise (
                Aborted("the event loop has ended, in which the transform was awaited") if self._loop.ended else Overdue
            )
        try:
            return task.result()
        except Exception:
            raise
        except BaseException as interrupt:
            if self._loop.ended:
                raise Aborted("the transform was cancelled") from interrupt
            raise TransformFailed(
                f"the transform ended with {type(interrupt).__name__}, and was not cancelled from outside; nothing of "
                "its batch counts"
            ) from interrupt

    def cancel(self) -> None:
        """Cancel the coroutine; from any thread."""
        self._loop.call_soon(lambda: self.task and self.task.cancel())

    def wait_for_cancelled(self, seconds: float) -> None:
        """Wait until the coroutine has ended, for so many seconds at most."""
        if self._wait(seconds) is None and self.task is None and self._loop.closed:
            self.work.close()  # a loop that is only blocked begins it later, and cancels it before its first step

    def _wait(self, seconds: float) -> asyncio.Task[T] | None:
        """Return the task when it has ended; None after so many seconds, or soon after the end of the loop."""
        until, ended = time.monotonic() + seconds, False
        while (left := until - time.monotonic()) > 0 or not self.done.empty():
            with suppress(Empty):
                return self.done.get(timeout=max(0.0, min(left, _CHECK_SECONDS)))
            if self._loop.closed:
                return None
            if self._loop.ended and not ended:
                until, ended = min(until, time.monotonic() + CANCEL_SECONDS), True
        return None


class AwaitedTransform:
    """The app's coroutine function, as a plain transform for the thread of the rounds."""

    def __init__(self, transform: AsyncTransform, loop: AppLoop, rounds: Rounds) -> None:
        self._transform = transform
        self._loop = loop
        self._rounds = rounds
        self._begun: dict[int, LoopCall[list[RecordLike]]] = {}
        """Transforms that are awaited before their turn, by the identity of their messages."""

    def __call__(self, messages: Sequence[Message], /) -> list[RecordLike]:
        """Wait until the transform has given all records for these messages.

        Raises
        ------
        Aborted
            The limit of the round is over, or the loop has ended.
        TransformFailed
            The transform was cancelled by other means.
        """
        call = self._begun.pop(id(messages), None) or self._start(messages)
        try:
            return call.result(self._rounds.time_left())
        except Overdue:
            raise Aborted(f"the transform was awaited for as long as {self._rounds.limits.poll_named} allows") from None

    @contextmanager
    def ahead(self, transactions: Iterator[Transaction]) -> Iterator[Iterator[Transaction]]:
        """Yield transactions in turn, while the transforms of those that follow are awaited already."""
        try:
            yield self._in_turn(transactions)
        finally:
            left_out = list(self._begun.values())  # their messages come again
            self._begun.clear()
            for call in left_out:
                call.cancel()
            until = time.monotonic() + CANCEL_SECONDS
            for call in left_out:
                call.wait_for_cancelled(until - time.monotonic())

    def _in_turn(self, transactions: Iterator[Transaction]) -> Iterator[Transaction]:
        waiting: deque[Transaction] = deque()
        for transaction in transactions:
            self._begun[id(transaction.messages)] = self._start(transaction.messages)
            waiting.append(transaction)
            if len(waiting) == AT_ONCE:
                yield self._turn(waiting)
        while waiting:
            yield self._turn(waiting)

    def _turn(self, waiting: deque[Transaction]) -> Transaction:
        transaction = waiting.popleft()
        self._rounds.given(transaction)  # of transforms that are awaited side by side, no second counts twice
        return transaction

    def _start(self, messages: Sequence[Message]) -> LoopCall[list[RecordLike]]:
        return self._loop.start(gathered(self._transform, messages))
