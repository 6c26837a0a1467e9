"""Records the states of the brokers and apps of ``make demo`` over time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from featuregate.testing.local_kafka.probe import serves

if TYPE_CHECKING:
    from featuregate.testing import LocalKafka


@dataclass(frozen=True, slots=True)
class Span:
    """A state, with its begin and end in seconds from the start."""

    state: str
    begin: float
    end: float


class Timeline:
    """Lanes by name; each lane is in one state or in none. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._lanes: dict[str, list[tuple[float, str | None]]] = {}

    def now(self) -> float:
        """Return the seconds since the start."""
        return self._clock() - self._began

    def say(self, text: str) -> None:
        """Print one line without buffering."""
        print(f"demo {self.now():6.1f} s | {text}", flush=True)

    def show(self, lane: str, state: str | None) -> None:
        """Record that a lane is in this state from now on; None: in no state."""
        with self._lock:
            changes = self._lanes.setdefault(lane, [])
            if not changes or changes[-1][1] != state:
                changes.append((self.now(), state))

    def spans(self) -> dict[str, list[Span]]:
        """Return the spans of each lane up to now."""
        with self._lock:
            now = self.now()
            return {lane: _spans([*changes, (now, None)]) for lane, changes in self._lanes.items()}


def _spans(changes: list[tuple[float, str | None]]) -> list[Span]:
    return [Span(state, begin, end) for (begin, state), (end, _) in pairwise(changes) if state is not None]


def show_brokers(kafka: LocalKafka, timeline: Timeline) -> None:
    """Show the release of each broker, or that it does not serve."""
    for node in map(kafka.node, kafka.nodes):
        timeline.show(f"broker {node.node_id}", node.version if serves(node.host, node.port) else "down")
