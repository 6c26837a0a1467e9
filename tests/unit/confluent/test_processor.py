"""A processor that cannot begin says why."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Message
from waiting import eventually, in_loop

from featuregate.errors import ConfigError
from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent import (
    DeadLetter,
    ExactlyOnceProcessor,
    MustRejoin,
    Record,
    SwitchFatal,
    TransformFailed,
    processor,
)
from featuregate_confluent.processor import ProcessorRounds

if TYPE_CHECKING:
    from mock_kafka import MockKafka

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


def processor_of(bootstrap: str, transform: Any, cluster_id: str = "", **options: Any) -> ExactlyOnceProcessor:
    base = {"bootstrap.servers": bootstrap, "log_level": 0}
    return ExactlyOnceProcessor(
        consumer={**base, "group.id": "billing", "auto.offset.reset": "earliest"},
        producer=base,
        topics=["orders"],
        app_id="billing",
        instance_id="billing-0",
        transform=transform,
        features=StaticFeatures(release_view("2.4", cluster_id=cluster_id)),
        **options,
    )


def test_a_property_that_the_client_refuses_is_named() -> None:
    """The loop ends at once with SwitchFatal, and the processor has failed."""
    processor = ExactlyOnceProcessor(
        consumer={**NOWHERE, "group.id": "billing", "nonsense": "1"},
        producer=NOWHERE,
        topics=["orders"],
        app_id="billing",
        instance_id="billing-0",
        transform=lambda _messages: [],
    )
    with pytest.raises(SwitchFatal, match='No such configuration property: "nonsense"'):
        processor.run()
    health = processor.health()
    assert health["status"] == "failed"
    assert "nonsense" in health["error"]


def test_a_transform_that_does_not_return_is_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that runs it cannot say so, and after max.poll.interval.ms the group goes on without it."""
    processor = processor_of(NOWHERE["bootstrap.servers"], lambda _messages: [])
    monkeypatch.setattr(processor._rounds, "_state", "ok")
    assert (processor.health()["status"], processor.health()["round_seconds"] < 5) == ("ok", True)
    monkeypatch.setattr(processor.switch.rounds, "_polled_at", time.monotonic() - 301)
    health = processor.health()
    assert health["status"] == "stalled"
    assert health["why"].startswith("this round has lasted 301 s, longer than max.poll.interval.ms=300000: ")
    monkeypatch.undo()
    processor.close()


async def awaited(_messages: Sequence[Message]) -> list[Record]:
    return []


async def yielding(_messages: Sequence[Message]) -> AsyncIterator[Record]:
    yield Record("bills", b"")


class Awaited:
    """An object that is called so."""

    async def __call__(self, _messages: Sequence[Message]) -> list[Record]:
        return []


@pytest.mark.parametrize("transform", [awaited, yielding, Awaited()])
def test_a_coroutine_function_is_refused(transform: Any) -> None:
    with pytest.raises(ConfigError, match=r"transform: is a coroutine function: .* asyncio.run\(\)"):
        processor_of(NOWHERE["bootstrap.servers"], transform)


def test_a_coroutine_that_would_never_be_awaited_ends_run(kafka: MockKafka) -> None:
    """A lambda around a coroutine function is a plain function. It is no poison, either."""
    kafka.feed("orders", 1, 1)
    kafka.create_topic("dead")
    mistaken = lambda messages: awaited(messages)  # noqa: E731, PLW0108 - the lambda is the mistake
    processor = processor_of(kafka.bootstrap, mistaken, kafka.cluster_id, poison=DeadLetter("dead"))
    with pytest.raises(TransformFailed, match="a transform is a plain function"):
        processor.run()


def test_a_transform_may_await_in_a_loop_of_its_own(kafka: MockKafka) -> None:
    """asyncio.run() works in it, also where the processor runs beside another loop."""
    kafka.create_topic("bills")
    kafka.feed("orders", 3, 1)

    async def bills(messages: Sequence[Message]) -> list[Record]:
        await asyncio.sleep(0)
        return [Record("bills", message.value()) for message in messages]

    processor = processor_of(kafka.bootstrap, lambda messages: asyncio.run(bills(messages)), kafka.cluster_id)

    async def app() -> None:
        running = asyncio.create_task(asyncio.to_thread(processor.run))
        await in_loop(lambda: processor.health()["committed"] >= 2)
        processor.stop()
        await running

    asyncio.run(app())
    assert kafka.values("bills", 3) == [b"0", b"1", b"2"]


def test_a_member_that_is_replaced_again_and_again_is_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new member is in order until it fails as the last one: a transactional id was never free again on 4.2.0."""
    lost: SimpleQueue[str] = SimpleQueue()
    monkeypatch.setattr(processor, "BACKOFF_SECONDS", (0.0, 0.0))
    switch = SimpleNamespace(emit=lambda event: lost.put(event.why))
    rounds = ProcessorRounds(switch, producer={}, batch_size=1, linger=0.0)  # type: ignore[arg-type]
    for attempt, restless in ((1, "ok"), (2, "rejoining"), (3, "rejoining")):
        rounds._wait_to_rejoin(MustRejoin(f"attempt {attempt}"))
        assert rounds.state == "rejoining"
        rounds._state = "ok"  # as consume() leaves it, which then waits for the producer
        assert (rounds.state, rounds.why, lost.get()) == (restless, f"attempt {attempt}", f"attempt {attempt}")
    monkeypatch.setattr(processor, "RESTLESS_SECONDS", 0.0)
    assert rounds.state == "ok"


FORKED = """
import multiprocessing, sys
from featuregate_confluent import ExactlyOnceProcessor, MustRejoin, SwitchFatal, processor
from featuregate_confluent.processor import ProcessorRounds

nowhere = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
processor = ExactlyOnceProcessor(
    consumer={**nowhere, "group.id": "g"}, producer=nowhere, topics=["t"], app_id="a", state_dir=sys.argv[1],
    transform=lambda messages: [],
)

def child():
    with processor:
        processor.run()

forked = multiprocessing.get_context("fork").Process(target=child)
forked.start()
forked.join(60)
print(forked.exitcode)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_processor_that_was_made_before_a_fork_says_so(tmp_path: Path) -> None:
    """It does not wait for the threads of its parent, neither to run nor to close."""
    command = [sys.executable, "-c", FORKED, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout == "1\n", ended.stderr
    assert "SwitchFatal: this switch was made in another process" in ended.stderr


def test_an_input_topic_that_does_not_exist_is_said(kafka: MockKafka) -> None:
    """The member would start for ever; it waits, names the topic, and begins once it is there."""
    base = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    processor = ExactlyOnceProcessor(
        consumer={**base, "group.id": "billing", "topic.metadata.refresh.interval.ms": 500},
        producer=base,
        topics=["^orders$"],
        app_id="billing",
        features=StaticFeatures(),
        group_interval=0.1,
        transform=lambda _messages: [],
    )
    thread = threading.Thread(target=processor.run)
    thread.start()
    try:
        eventually(lambda: processor.health()["status"] == "waiting", "it says so")
        assert "no topic that this user may describe matches '^orders$'" in processor.health()["why"]
        kafka.create_topic("orders")
        eventually(lambda: processor.health()["status"] == "ok", "it has begun")
        assert "orders" not in processor.health()["why"]
    finally:
        processor.close()
        thread.join()
