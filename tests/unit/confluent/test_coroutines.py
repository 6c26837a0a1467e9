"""A processor whose transform is awaited, on librdkafka's mock cluster: it commits, fails, is cancelled and closed."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from waiting import BOUND, eventually, in_loop

from featuregate.errors import ClosedError, ConfigError
from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent import (
    DeadLetter,
    ExactlyOnceProcessor,
    Record,
    TransformFailed,
    coroutines,
)
from featuregate_confluent.errors import RoundTooLong
from featuregate_confluent.events import DeadLettered, RoundExceededLimit, TransactionAborted, TransactionCommitted

if TYPE_CHECKING:
    from mock_kafka import MockKafka

LEAVE_GROUP = 13
PARTITIONS = 2
INPUTS = 8
SHORT_POLLS = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 100, "max.poll.interval.ms": 1000}
AT_ONCE = 60.0
"""Seconds: far less than the limits that would end a wait otherwise, also on a machine that is busy."""


class App:
    """A processor on a topic of two partitions with inputs in each, and what it has told."""

    def __init__(self, kafka: MockKafka, transform: Any, inputs: int = INPUTS, **options: Any) -> None:
        kafka.create_topic("bills")
        kafka.create_topic("dead")
        kafka.feed("orders", inputs, PARTITIONS)
        base = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
        self.bootstrap = kafka.bootstrap
        self.events: list[Any] = []
        consumer = {**base, "group.id": "billing", "auto.offset.reset": "earliest", **options.pop("consumer", {})}
        self.processor = ExactlyOnceProcessor(
            consumer=consumer,
            producer=base,
            topics=["^orders$"],
            app_id="billing",
            transform=transform,
            features=StaticFeatures(release_view("2.4", cluster_id=kafka.cluster_id)),
            metrics=self.events.append,
            instance_id="billing-0",
            **options,
        )

    def of(self, kind: type) -> list[Any]:
        return [event for event in tuple(self.events) if isinstance(event, kind)]

    @property
    def done(self) -> int:
        """Inputs whose transaction was committed."""
        return sum(event.messages for event in self.of(TransactionCommitted))

    async def run_to_the_end(self) -> None:
        """Run the processor until all inputs are committed."""
        async with self.processor as processor:
            running = asyncio.ensure_future(processor.arun())
            await in_loop(lambda: self.done == INPUTS)
        await running

    def outputs(self, topic: str = "bills") -> list[bytes]:
        """Return the outputs in their order; the mock cluster keeps those that were aborted."""
        config = {"group.id": "reader", "auto.offset.reset": "earliest", "enable.partition.eof": True, "log_level": 0}
        with Consumer({"bootstrap.servers": self.bootstrap, **config}) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            found = []
            while not (message := eventually(lambda: consumer.poll(0.1), "the end of the topic")).error():
                found.append(message.value() or b"")
            return found


def bills(messages: Sequence[Message]) -> list[Record]:
    """Return a record for each message."""
    return [Record("bills", message.value()) for message in messages]


async def copy(messages: Sequence[Message]) -> list[Record]:
    """Be the simplest transform that is awaited."""
    await asyncio.sleep(0)
    return bills(messages)


class Endless:
    """A transform that is awaited for ever, but for a cancellation."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0

    async def __call__(self, messages: Sequence[Message]) -> list[Record]:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return bills(messages)


# ---------------------------------------------------------------- what is awaited, and where


async def test_a_coroutine_function_runs_in_the_loop_and_its_records_are_committed(kafka: MockKafka) -> None:
    """Also its context is that of arun(). The records of a partition keep their order."""
    request = contextvars.ContextVar("request", default="")
    request.set("billing run")
    seen = set()

    async def transform(messages: Sequence[Message]) -> list[Record]:
        seen.add((asyncio.get_running_loop(), threading.get_ident(), request.get()))
        return await copy(messages)

    app = App(kafka, transform)
    async with app.processor as processor:
        running = asyncio.ensure_future(processor.arun())
        await in_loop(lambda: app.done == INPUTS)
        processor.stop()
        await running
        assert processor.health()["status"] == "stopped"
    assert seen == {(asyncio.get_running_loop(), threading.get_ident(), "billing run")}
    outputs = app.outputs()
    assert [value for value in outputs if int(value) % 2 == 0] == [b"0", b"2", b"4", b"6"]
    assert [value for value in outputs if int(value) % 2] == [b"1", b"3", b"5", b"7"]


async def yielding(messages: Sequence[Message]) -> AsyncIterator[Record]:
    """Yield the records one by one."""
    for message in messages:
        await asyncio.sleep(0)
        yield Record("bills", message.value())


class Yielding:
    """An object that is called so."""

    async def __call__(self, messages: Sequence[Message]) -> AsyncIterator[Record]:
        for record in bills(messages):
            yield record


@pytest.mark.parametrize("transform", [yielding, Yielding(), bills], ids=["yields", "object", "plain"])
async def test_whatever_gives_records_is_a_transform(kafka: MockKafka, transform: Any) -> None:
    """An asynchronous generator, an object with a coroutine function or one of these, and a plain function."""
    app = App(kafka, transform)
    await app.run_to_the_end()
    assert sorted(app.outputs()) == [b"%d" % number for number in range(INPUTS)]


async def test_a_plain_function_runs_beside_the_loop(kafka: MockKafka) -> None:
    """It blocks until the loop, which goes on, releases it."""
    begun, released = threading.Event(), threading.Event()

    def transform(messages: Sequence[Message]) -> list[Record]:
        begun.set()
        assert released.wait(BOUND)
        return bills(messages)

    app = App(kafka, transform)
    async with app.processor as processor:
        running = asyncio.ensure_future(processor.arun())
        await in_loop(begun.is_set)
        released.set()
        await in_loop(lambda: app.done == INPUTS)
    await running


# ---------------------------------------------------------------- failures


async def test_what_a_transform_raises_ends_arun(kafka: MockKafka) -> None:
    """An error of the transform ends arun() as it ends run()."""

    async def transform(_messages: Sequence[Message]) -> list[Record]:
        await asyncio.sleep(0)
        raise ValueError("no such bill")

    app = App(kafka, transform)
    with pytest.raises(TransformFailed, match="ValueError: no such bill, for 1 messages from orders") as failed:
        await app.processor.arun()
    assert isinstance(failed.value.__cause__, ValueError)
    assert app.processor.health()["status"] == "failed"
    assert app.done == 0


async def test_poison_goes_to_the_dead_letters(kafka: MockKafka) -> None:
    """The transform is awaited for each message by itself."""

    async def transform(messages: Sequence[Message]) -> list[Record]:
        await asyncio.sleep(0)
        if any(message.value() == b"5" for message in messages):
            raise TimeoutError("the app's own timeout")
        return bills(messages)

    app = App(kafka, transform, poison=DeadLetter("dead"))
    await app.run_to_the_end()
    assert [(event.partition, event.offset) for event in app.of(DeadLettered)] == [(1, 2)]
    assert app.outputs("dead") == [b"5"]
    assert len(app.outputs()) == INPUTS - 1


async def test_a_transform_that_cancels_itself_is_no_poison(kafka: MockKafka) -> None:
    """A cancellation says nothing about the messages, so none is sent to the dead letters."""

    async def transform(_messages: Sequence[Message]) -> list[Record]:
        raise asyncio.CancelledError

    app = App(kafka, transform, poison=DeadLetter("dead"))
    with pytest.raises(TransformFailed, match="ended with CancelledError"):
        await app.processor.arun()
    assert app.outputs("dead") == []


async def test_a_coroutine_that_would_never_be_awaited_ends_arun(kafka: MockKafka) -> None:
    """A lambda around a coroutine function is a plain function. It is no poison, either."""
    app = App(kafka, lambda messages: copy(messages), poison=DeadLetter("dead"))  # noqa: PLW0108 - the lambda is the mistake
    with pytest.raises(TransformFailed, match="write it `async def`"):
        await app.processor.arun()
    assert app.outputs("dead") == []


async def test_run_refuses_a_coroutine_function(kafka: MockKafka) -> None:
    """Nothing has begun, so that arun() may follow. A processor runs once."""
    app = App(kafka, copy)
    with pytest.raises(ConfigError, match="await arun"):
        app.processor.run()
    await app.run_to_the_end()
    with pytest.raises(ClosedError, match="runs once"):
        await app.processor.arun()
    with pytest.raises(ClosedError, match="runs once"):
        app.processor.run()


async def test_sys_exit_in_a_plain_transform_ends_arun(kafka: MockKafka) -> None:
    """It is raised in the thread of the rounds, and must not leave arun() waiting."""

    def transform(_messages: Sequence[Message]) -> list[Record]:
        raise SystemExit(3)

    app = App(kafka, transform)
    with pytest.raises(SystemExit):
        await app.processor.arun()


# ---------------------------------------------------------------- cancelled, stopped, closed


async def begun(app: App, transform: Endless) -> asyncio.Task[None]:
    """Run a processor until its transform is awaited."""
    running = asyncio.create_task(app.processor.arun())
    await in_loop(lambda: transform.begun)
    return running


async def test_a_cancelled_arun_cancels_the_transform_and_closes_everything(kafka: MockKafka) -> None:
    """Nothing is committed, and the member leaves its group, so that the messages come at once to another one."""
    endless = Endless()
    app = App(kafka, endless)
    running = await begun(app, endless)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert endless.cancelled == endless.begun
    assert app.processor.health()["status"] == "stopped"
    assert app.done == 0
    assert kafka.count(LEAVE_GROUP) == 1


async def test_aclose_ends_a_transform_that_would_be_awaited_for_ever(kafka: MockKafka) -> None:
    """arun() returns as after stop(): closing is no failure. close() would block the loop, and never end."""
    endless = Endless()
    app = App(kafka, endless)
    running = await begun(app, endless)
    with pytest.raises(RuntimeError, match="await aclose"):
        app.processor.close()
    before = time.monotonic()
    await app.processor.aclose()
    assert time.monotonic() - before < AT_ONCE
    await running
    assert endless.cancelled == endless.begun
    assert [event.why for event in app.of(TransactionAborted)] == ["the transform was cancelled"]
    await app.processor.aclose()
    app.processor.close()
    assert kafka.count(LEAVE_GROUP) == 1


async def test_a_processor_that_never_ran_can_be_closed(kafka: MockKafka) -> None:
    """Closing closes what the constructor opened."""
    async with App(kafka, copy).processor as processor:
        pass
    with pytest.raises(ClosedError):
        processor.switch.consume()


async def test_stop_lets_the_transform_end(kafka: MockKafka) -> None:
    """The batch under way is committed before arun() returns."""
    reached, released = asyncio.Event(), asyncio.Event()

    async def transform(messages: Sequence[Message]) -> list[Record]:
        reached.set()
        await released.wait()
        return bills(messages)

    app = App(kafka, transform)
    running = asyncio.create_task(app.processor.arun())
    await asyncio.wait_for(reached.wait(), BOUND)
    app.processor.stop()
    assert app.processor.health()["status"] == "stopping"
    released.set()
    await running
    assert app.done == 1


async def test_a_transform_that_does_not_end_when_it_is_cancelled_is_left_behind(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing waits for its clean-up, but not for good."""
    monkeypatch.setattr(coroutines, "CANCEL_SECONDS", 0.5)
    released = asyncio.Event()

    class Stubborn(Endless):
        async def __call__(self, messages: Sequence[Message]) -> list[Record]:
            try:
                return await super().__call__(messages)
            except asyncio.CancelledError:
                await released.wait()
                raise

    stubborn = Stubborn()
    app = App(kafka, stubborn)
    running = await begun(app, stubborn)
    await app.processor.aclose()
    await running
    assert stubborn.cancelled
    assert not released.is_set()
    released.set()


async def test_a_second_cancellation_does_not_wait(kafka: MockKafka) -> None:
    """Here the thread is held up by a plain function."""
    reached, released = threading.Event(), threading.Event()

    def transform(messages: Sequence[Message]) -> list[Record]:
        reached.set()
        assert released.wait(BOUND)
        return bills(messages)

    app = App(kafka, transform)
    running = asyncio.create_task(app.processor.arun())
    await in_loop(reached.is_set)
    running.cancel()
    await asyncio.sleep(0.01)
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not released.is_set()
    released.set()
    await app.processor.aclose()


# ---------------------------------------------------------------- the limit of a round


async def test_a_transform_beyond_max_poll_interval_is_cancelled_and_named(kafka: MockKafka) -> None:
    """Its messages come again. After three rounds of one message the property is named, as for a plain function."""
    endless = Endless()
    app = App(kafka, endless, consumer=SHORT_POLLS, poison=DeadLetter("dead"))
    with pytest.raises(RoundTooLong, match=r"longer than max.poll.interval.ms=1000 allows, 3 times"):
        await asyncio.wait_for(app.processor.arun(), BOUND)
    assert endless.begun == endless.cancelled
    assert len(app.of(RoundExceededLimit)) == 3
    assert {event.why for event in app.of(TransactionAborted)} == {
        "the transform was awaited for as long as max.poll.interval.ms=1000 allows"
    }
    assert (app.done, app.outputs("dead")) == (0, [])


async def test_a_transform_that_is_slow_once_is_awaited_again(kafka: MockKafka) -> None:
    """The member joins again, and each input is processed."""
    endless = Endless()

    async def transform(messages: Sequence[Message]) -> list[Record]:
        return await (endless(messages) if not endless.begun else copy(messages))

    app = App(kafka, transform, consumer=SHORT_POLLS)
    await app.run_to_the_end()
    assert endless.cancelled == 1
    assert sorted(app.outputs()) == [b"%d" % number for number in range(INPUTS)]


# ---------------------------------------------------------------- loops that end


@contextmanager
def quiet_asyncio() -> Iterator[None]:
    """Say nothing of tasks that are destroyed with their loop: that is what is tested."""
    logger = logging.getLogger("asyncio")
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False


def test_the_end_of_asyncio_run_closes_a_processor_that_runs_in_the_background(kafka: MockKafka) -> None:
    """asyncio.run() cancels what is left: arun() and its transform at the same time. Neither is a failure."""
    endless = Endless()
    app = App(kafka, endless)

    async def main() -> None:
        await asyncio.gather(asyncio.sleep(0))
        background.append(await begun(app, endless))

    background: list[asyncio.Task[None]] = []
    asyncio.run(main())
    assert background[0].cancelled()
    assert (app.processor.health()["status"], endless.cancelled) == ("stopped", endless.begun)


def test_ctrl_c_closes_everything(kafka: MockKafka) -> None:
    """asyncio.run() cancels its main task, and raises KeyboardInterrupt when everything is closed."""
    endless = Endless()
    app = App(kafka, endless)

    async def main() -> None:
        async with app.processor as processor, asyncio.TaskGroup() as group:
            group.create_task(processor.arun())
            await in_loop(lambda: endless.begun)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert (app.processor.health()["status"], endless.cancelled) == ("stopped", endless.begun)


def test_sigterm_may_stop_it_from_the_loop(kafka: MockKafka) -> None:
    """stop() is for signal handlers of a loop, too."""
    app = App(kafka, copy)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, app.processor.stop)
        async with app.processor as processor, asyncio.TaskGroup() as group:
            group.create_task(processor.arun())
            await in_loop(lambda: app.done)
            os.kill(os.getpid(), signal.SIGUSR1)

    asyncio.run(main())
    assert app.processor.health()["status"] == "stopped"


@pytest.mark.parametrize("messages", [INPUTS, 0], ids=["in a transform", "without messages"])
def test_a_loop_that_is_closed_ends_the_member(kafka: MockKafka, messages: int) -> None:
    """Nothing was cancelled, and nothing will ever run in the loop: the thread ends by itself, and leaves the group."""
    with quiet_asyncio():
        run_in_a_loop_that_is_closed(kafka, messages)
        gc.collect()
    assert kafka.count(LEAVE_GROUP) == 1


def run_in_a_loop_that_is_closed(kafka: MockKafka, messages: int) -> None:
    """Run a processor until its transform is awaited, or it owns its partitions; close the loop; wait for its end."""
    endless = Endless()
    processor = App(kafka, endless, messages).processor
    loop = asyncio.new_event_loop()
    task = loop.create_task(processor.arun())
    loop.run_until_complete(
        in_loop(lambda: endless.begun if messages else processor.health()["partitions"] == PARTITIONS)
    )
    assert not task.done()
    loop.close()
    eventually(lambda: processor.health()["status"] == "stopped", f"{processor.health()}", AT_ONCE)
    processor.close()
    assert processor.health()["committed"] == 0
