"""A transform of a coroutine function for one message."""

import asyncio

import pytest
from confluent_kafka import Message
from waiting import in_loop

from featuregate.errors import ConfigError
from featuregate_confluent import Record, each_message

MESSAGES = [Message(topic="orders", partition=0, offset=at, value=b"%d" % at) for at in range(6)]


class Work:
    """Work for one message that ends when the test says so, in any order."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.cancelled: list[bytes] = []
        self.released = {message.value(): asyncio.Event() for message in MESSAGES}

    async def __call__(self, message: Message) -> list[Record]:
        value = message.value() or b""
        self.begun.append(value)
        try:
            await self.released[value].wait()
        except asyncio.CancelledError:
            self.cancelled.append(value)
            raise
        if value == b"1":
            raise ValueError("no such bill")
        return [Record("bills", value), Record("copies", value)]


async def test_records_have_the_order_of_the_messages() -> None:
    """The calls end in the opposite order."""
    work = Work()
    given = asyncio.ensure_future(each_message(work)(MESSAGES[2:]))
    await in_loop(lambda: len(work.begun) == 4)
    for message in reversed(MESSAGES):
        work.released[message.value()].set()
        await asyncio.sleep(0)
    assert [record[1] for record in await given] == [b"2", b"2", b"3", b"3", b"4", b"4", b"5", b"5"]


async def test_so_many_calls_run_at_the_same_time_over_all_batches() -> None:
    """Two batches share the limit: the next call begins when one has ended."""
    work = Work()
    transform = each_message(work, at_once=3)
    batches = [asyncio.ensure_future(transform(some)) for some in (MESSAGES[2:4], MESSAGES[4:])]
    await in_loop(lambda: len(work.begun) == 3)
    for _ in range(20):
        await asyncio.sleep(0)
    assert work.begun == [b"2", b"3", b"4"]
    work.released[b"3"].set()
    await in_loop(lambda: len(work.begun) == 4)
    for event in work.released.values():
        event.set()
    assert [len(await batch) for batch in batches] == [4, 4]


async def test_a_call_that_raises_cancels_the_others_and_its_exception_is_that_of_the_batch() -> None:
    """Not an exception group: dead letters name the exception of the function."""
    work = Work()
    given = asyncio.ensure_future(each_message(work)(MESSAGES[:3]))
    await in_loop(lambda: len(work.begun) == 3)
    work.released[b"1"].set()
    with pytest.raises(ValueError, match="no such bill"):
        await given
    assert sorted(work.cancelled) == [b"0", b"2"]


def test_a_transform_may_be_used_in_one_loop_after_the_other() -> None:
    """Tests of an app have a loop each; a semaphore of asyncio belongs to one."""

    async def copy(message: Message) -> list[Record]:
        await asyncio.sleep(0)
        return [Record("bills", message.value())]

    transform = each_message(copy, at_once=1)
    for _ in range(2):
        assert len(asyncio.run(transform(MESSAGES))) == 6


@pytest.mark.parametrize("at_once", [0, -1, 1.5, True, "2"])
def test_a_limit_below_one_call_is_refused(at_once: object) -> None:
    """With a limit of 0, no call would ever begin."""
    with pytest.raises(ConfigError, match="at_once"):
        each_message(Work(), at_once=at_once)  # type: ignore[arg-type]
