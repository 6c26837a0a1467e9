"""Members on the ready-made loop, each in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from waiting import eventually

from eos.ledger import Ledger
from eos.pipes import BOUND, Pipe, provenance
from featuregate_confluent import ExactlyOnceProcessor, Record
from featuregate_confluent.events import SwitchEvent
from featuregate_confluent.transform import Transform

if TYPE_CHECKING:
    from confluent_kafka import Message

WHOLE_BATCH = 500
"""The default of ``batch_size``."""


class Copier:
    """A transform that copies, says where each record came from, and takes its time."""

    def __init__(self, sink: str, *, seconds: float = 0.0) -> None:
        self.sink = sink
        self.seconds = seconds
        self.called = 0

    def __call__(self, messages: Sequence[Message], /) -> Iterator[Record]:
        self.called += 1
        if self.seconds:
            time.sleep(self.seconds)
        for message in messages:
            yield Record(self.sink, message.value(), key=message.key(), headers=provenance(message))


def processor(
    pipe: Pipe,
    *,
    name: str | None = "one",
    transform: Transform | None = None,
    consumer: Mapping[str, object] | None = None,
    producer: Mapping[str, object] | None = None,
    **options: Any,
) -> ExactlyOnceProcessor:
    return ExactlyOnceProcessor(
        consumer={
            **pipe.client,
            "group.id": pipe.group,
            "client.id": name or "app",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            **(consumer or {}),
        },
        producer={**pipe.client, "linger.ms": 0, **(producer or {})},
        **{
            "topics": [pipe.source],
            "app_id": pipe.group,
            "instance_id": name,
            "transform": transform or Copier(pipe.sink),
            "linger": 0.05,
            "interval": 1.0,
            "group_interval": 0.2,
            **options,
        },
    )


class Running:
    """A processor in a thread: what it told, and how it ended."""

    def __init__(self, pipe: Pipe, **options: Any) -> None:
        self.events: list[SwitchEvent] = []
        self.processor = processor(pipe, **{"metrics": self.events.append, **options})
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"running {options.get('name', 'one')}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self.processor.run()
        except Exception as failure:  # noqa: BLE001 - the test asks for it
            self.failure = failure

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def health(self) -> dict[str, Any]:
        return self.processor.health()

    def stop(self, timeout: float = 2 * BOUND) -> None:
        self.processor.stop()
        self.wait(timeout)

    def wait(self, timeout: float = 2 * BOUND) -> None:
        self._thread.join(timeout)
        assert not self._thread.is_alive(), f"it did not end within {timeout:g} s: {self.health}"

    def ended(self) -> BaseException | None:
        self.wait()
        return self.failure

    def warm_up(self, ledger: Ledger) -> None:
        """Feed it until a round may have its whole batch: the first rounds of a processor are small."""
        until = time.monotonic() + BOUND
        while (self.health["round_size"] or 0) < WHOLE_BATCH:
            assert time.monotonic() < until, self.health
            ledger.feed_now(100)
            ledger.wait_for(ledger.fed)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def until(self, what: Callable[[dict[str, Any]], object], timeout: float = BOUND) -> None:
        eventually(lambda: what(self.health) or not self.alive, f"{self.health}", timeout)
        assert self.alive, self.failure
