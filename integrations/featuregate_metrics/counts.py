"""What has happened so far, counted from the events of a discoverer. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import assert_never

from featuregate.gating.events import Changed, Event, GateMoved, Polled, PollFailed


class EventCounts:
    """Counts events. One thread at a time counts, and any thread may read."""

    def __init__(self) -> None:
        self.failed_polls = 0
        self._changes: Counter[str] = Counter()
        self._gate_moves: Counter[tuple[str, bool]] = Counter()

    def __call__(self, event: Event) -> None:
        """Count an event, as a hook of a discoverer."""
        match event:
            case PollFailed():
                self.failed_polls += 1
            case Changed(differences=differences):
                self._changes.update(difference.kind for difference in differences)
            case GateMoved(gate=gate, open=is_open):
                self._gate_moves[gate, is_open] += 1
            case Polled():
                pass
            case _:
                assert_never(event)

    @property
    def changes(self) -> Mapping[str, int]:
        """How often each kind of difference was seen."""
        return self._changes.copy()

    @property
    def gate_moves(self) -> Mapping[tuple[str, bool], int]:
        """How often each gate was decided anew, by its name and whether it was open then."""
        return self._gate_moves.copy()
