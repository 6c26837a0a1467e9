"""What a member of the switch's benchmarks is told, and what it tells: one JSON line each."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self

LOOPS = ("featuregate", "hand-written")
MODELS = ("legacy", "bridge", "v2")
QUIET = {"log_level": 3}
"""For every client: coordinators that load and producers that are fenced are what is measured, not what goes wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a member works; the same for each loop."""

    loop: str
    """One of :data:`LOOPS`."""
    model: str
    bootstrap: str
    group: str
    topic: str
    output: str
    app_id: str
    batch: int
    """Messages of one call of consume(), at most."""
    wait: float
    """Seconds that consume() waits for them."""
    slot: str | None
    """The name of this process among its siblings, which it keeps over restarts; None: another one each time."""
    turn: int = sys.maxsize
    """Messages of one turn."""
    consumer: dict[str, Any] = field(default_factory=dict)
    producer: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


class Turn(NamedTuple):
    """What a member did in one turn."""

    waited: float
    """Seconds until the first batch was there: since the last turn, or since the loop was made."""
    messages: int
    seconds: float
    """From then on until its last transaction is committed."""
    processor: float
    """Seconds that the process computed meanwhile, librdkafka's threads included."""
    transactions: tuple[float, ...]
    """Seconds of each, from before begin until commit has returned."""


class Meter:
    """Counts what a member commits, and prints each turn when it is over."""

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._messages = 0
        self._ended = self._began = time.perf_counter()
        self._computed = 0.0
        self._transactions: list[float] = []

    def received(self) -> None:
        """Start the clock, where a turn has not begun yet."""
        if not self._messages and not self._transactions:
            self._began, self._computed = time.perf_counter(), time.process_time()

    def committed(self, messages: int, seconds: float) -> None:
        """Count a transaction."""
        self._messages += messages
        self._transactions.append(seconds)
        if self._messages >= self._turn:
            self._tell(
                Turn(
                    waited=self._began - self._ended,
                    messages=self._messages,
                    seconds=time.perf_counter() - self._began,
                    processor=time.process_time() - self._computed,
                    transactions=tuple(self._transactions),
                )
            )

    def _tell(self, turn: Turn) -> None:
        print(json.dumps(turn), flush=True)
        self._messages = 0
        self._transactions = []
        self._ended = time.perf_counter()
