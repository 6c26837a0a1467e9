"""How a thread waits for transforms in an event loop: in turn, while those that follow are awaited already."""

import asyncio
import gc
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from confluent_kafka import Message
from waiting import eventually, in_loop

from featuregate_confluent import Aborted, Record, coroutines
from featuregate_confluent.coroutines import AT_ONCE, AppLoop, AwaitedTransform
from featuregate_confluent.producing.rounds import Limits, Rounds

AT_MOST = 30.0
"""Seconds for what takes a quarter of one, on a machine however busy."""


class Batch:
    """The messages of a transaction."""

    def __init__(self, partition: int) -> None:
        self.messages = [Message(topic="orders", partition=partition, offset=7, value=b"%d" % partition)]


class Transform:
    """A transform that ends for partition 0 when so many have begun, and is awaited for ever for any other."""

    def __init__(self, many: int = 1) -> None:
        self.many = many
        self.begun: list[int | None] = []
        self.cancelled: list[int | None] = []

    async def __call__(self, messages: Sequence[Message]) -> list[Record]:
        partition = messages[0].partition()
        self.begun.append(partition)
        if partition:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)  # it cleans up
                self.cancelled.append(partition)
                raise
        await in_loop(lambda: len(self.begun) == self.many)
        return [Record("bills", messages[0].value())]


def rounds() -> Rounds:
    """Return the rounds of a member with the default limits."""
    return Rounds(Limits(60, 300), lambda _event: None)


async def test_partitions_are_awaited_side_by_side_and_have_ended_when_the_round_ends() -> None:
    """As many as a pipeline commits. Those that the round leaves out are cancelled before the next one begins."""
    transform = Transform(AT_ONCE)
    awaited = AwaitedTransform(transform, AppLoop(), rounds())

    def first_of_many() -> list[object]:
        batches = [Batch(number) for number in range(AT_ONCE + 4)]
        with awaited.ahead(iter(batches)) as turns:  # type: ignore[arg-type]  # a transaction has more than messages
            return list(awaited(next(turns).messages))

    assert await asyncio.to_thread(first_of_many) == [Record("bills", b"0")]
    assert transform.begun == list(range(AT_ONCE))
    assert sorted(transform.cancelled) == list(range(1, AT_ONCE))


async def test_no_second_counts_twice_where_transforms_are_awaited_side_by_side() -> None:
    """Both take the same second; counted for each, a round would be planned with half of its messages."""
    now = 1000.0
    measured = Rounds(Limits(60, 300), lambda _event: None, lambda: now)

    async def copy(messages: Sequence[Message]) -> list[Record]:
        return [Record("bills", message.value()) for message in messages]

    awaited = AwaitedTransform(copy, AppLoop(), measured)

    def run() -> None:
        nonlocal now
        batches = [Batch(number) for number in range(2)]
        for batch in batches:
            measured.given(batch)
        with awaited.ahead(iter(batches)) as turns:  # type: ignore[arg-type]  # see above
            for batch in turns:
                awaited(batch.messages)
                now += batch is batches[0]  # both have ended after this second
                measured.begun(batch)
                measured.ran(batch)
        measured.end(0)

    for _ in range(6):
        await asyncio.to_thread(run)
    assert measured.health()["message_seconds"] == pytest.approx(0.5)


async def test_nothing_begins_after_a_cancellation() -> None:
    """The thread may be about to begin the next transform while arun() is cancelled."""
    transform, loop = Transform(), AppLoop()
    awaited = AwaitedTransform(transform, loop, rounds())
    loop.cancel()
    with pytest.raises(Aborted, match="was cancelled"):
        await asyncio.to_thread(awaited, Batch(1).messages)
    assert transform.cancelled == transform.begun == []


def test_nothing_is_left_unawaited_in_a_loop_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coroutine that never began is closed at once: Python would warn otherwise, which fails this test."""
    monkeypatch.setattr(coroutines, "CANCEL_SECONDS", 2 * AT_MOST)

    async def main() -> AwaitedTransform:
        return AwaitedTransform(Transform(), AppLoop(), rounds())

    awaited = asyncio.run(main())
    began = time.monotonic()
    with pytest.raises(Aborted, match="event loop has ended"):
        awaited(Batch(1).messages)
    assert time.monotonic() - began < AT_MOST


async def test_transforms_that_ignore_their_cancellation_are_waited_for_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A member that waited for one after the other would not poll for minutes, and would lose its partitions."""
    monkeypatch.setattr(coroutines, "CANCEL_SECONDS", 1.0)
    released = asyncio.Event()
    begun: list[int | None] = []

    async def transform(messages: Sequence[Message]) -> list[Record]:
        begun.append(messages[0].partition())
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()
        return []

    awaited = AwaitedTransform(transform, AppLoop(), rounds())

    def leave_out_all() -> float:
        batches = [Batch(number) for number in range(AT_ONCE)]
        with awaited.ahead(iter(batches)) as turns:  # type: ignore[arg-type]  # see above
            next(turns)
            eventually(lambda: len(begun) == AT_ONCE)
            began = time.monotonic()
        return time.monotonic() - began

    seconds = await asyncio.to_thread(leave_out_all)
    released.set()
    assert seconds < AT_ONCE * 1.0


async def test_a_transform_that_a_blocked_loop_begins_too_late_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The app's code blocks its loop for longer than a round may take; no error of asyncio follows."""
    monkeypatch.setattr(coroutines, "CANCEL_SECONDS", 0.1)
    errors: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context))
    transform = Transform()
    awaited = AwaitedTransform(transform, AppLoop(), Rounds(Limits(60, 0.1), lambda _event: None))
    with ThreadPoolExecutor(1) as pool, pytest.raises(Aborted, match=r"max\.poll\.interval\.ms=100 allows"):
        pool.submit(awaited, Batch(1).messages).result(AT_MOST)  # blocks the loop
    for _ in range(5):  # turns of the loop
        await asyncio.sleep(0)
    gc.collect()
    assert (transform.begun, errors) == ([], [])
