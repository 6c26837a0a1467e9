"""What was in which state, and from when to when: the notebook of ``make demo``."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Span", "Timeline"]


@dataclass(frozen=True, slots=True)
class Span:
    """A state, and the seconds from the start of the story between which it held."""

    state: str
    begin: float
    end: float


class Timeline:
    """Lanes by name, each in one state at a time or in none. Any thread may write and read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._lanes: dict[str, list[tuple[float, str | None]]] = {}

    def now(self) -> float:
        """Tell the seconds since the story began."""
        return self._clock() - self._began

    def show(self, lane: str, state: str | None) -> None:
        """Note that a lane is in this state from now on; None: in none."""
        with self._lock:
            changes = self._lanes.setdefault(lane, [])
            if not changes or changes[-1][1] != state:
                changes.append((self.now(), state))

    def spans(self) -> dict[str, list[Span]]:
        """Tell what each lane went through, up to now."""
        with self._lock:
            now = self.now()
            return {lane: _spans([*changes, (now, None)]) for lane, changes in self._lanes.items()}


def _spans(changes: list[tuple[float, str | None]]) -> list[Span]:
    return [Span(state, begin, end) for (begin, state), (end, _) in pairwise(changes) if state is not None]
