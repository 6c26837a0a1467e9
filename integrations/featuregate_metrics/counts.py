"""The numbers of a discoverer, once for all backends: from its health, and counted from its events. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, assert_never

from featuregate.gating.decisions import STATES
from featuregate.gating.events import Changed, Event, GateMoved, Polled, PollFailed
from featuregate.polling.poll_state import STATUSES

_UP: Final = {"ok", "degraded"}
Values = Mapping[tuple[str, ...], float | None]
"""By the values of the labels; None: there is no such number yet."""


class EventCounts:
    """Counts events. One thread at a time counts, and any thread may read.

    Parameters
    ----------
    is_open
        Whether each gate is open now, so that a gate that is held open does not count as one that opens.
    """

    def __init__(self, is_open: Mapping[str, bool]) -> None:
        self.polls_failed = 0
        self.changes: Counter[tuple[str, ...]] = Counter()
        self.gate_moves: Counter[tuple[str, ...]] = Counter()
        self._is_open = dict(is_open)

    def __call__(self, event: Event) -> None:
        """Count an event, as a hook of a discoverer."""
        match event:
            case PollFailed():
                self.polls_failed += 1
            case Changed(differences=differences):
                self.changes.update((difference.kind,) for difference in differences)
            case GateMoved(gate=gate, open=is_open, decision=decision):
                if decision.held is not None:
                    self.gate_moves[gate, "held"] += 1
                elif is_open != self._is_open.get(gate, False):
                    self.gate_moves[gate, "open" if is_open else "closed"] += 1
                self._is_open[gate] = is_open
            case Polled():
                pass
            case _:
                assert_never(event)


class Number(NamedTuple):
    """A number, or one for each value of its labels."""

    name: str
    """With dots, and without the prefix of the package."""
    unit: str
    meaning: str
    read: Callable[[Mapping[str, Any], EventCounts], Values]
    labels: tuple[str, ...] = ()
    kind: Literal["gauge", "counter"] = "gauge"


def _of_health(name: str, unit: str, meaning: str, key: str, kind: Literal["gauge", "counter"] = "gauge") -> Number:
    return Number(name, unit, meaning, lambda health, _: {(): health[key]}, (), kind)


def _states(health: Mapping[str, Any], _: EventCounts) -> Values:
    return {(gate, each): each == state for gate, state in health["states"].items() for each in STATES}


_HELD: Final = "1 for the state of the gate: open, held open by its latch alone, waiting, closed or unknown."
_MOVES: Final = "Gates that opened, that closed, or that only their latch holds open since then."
NUMBERS: Final = (
    Number("up", "1", "1 if there is a view, and it is not stale.", lambda health, _: {(): health["status"] in _UP}),
    Number(
        *("status", "1", "1 for the status of now."),
        lambda health, _: {(each,): each == health["status"] for each in STATUSES},
        ("status",),
    ),
    _of_health("view.age", "s", "Seconds since a broker answered.", "age_seconds"),
    _of_health("epoch", "1", "Epoch of the finalized levels; -1 if there is none.", "epoch"),
    _of_health("brokers.known", "{broker}", "Brokers of the cluster.", "brokers_known"),
    _of_health("brokers.answered", "{broker}", "Brokers that answered the last poll.", "brokers_answered"),
    Number(
        *("gate.open", "1", "1 if the gate is open."),
        lambda health, _: {(gate,): is_open for gate, is_open in health["gates"].items()},
        ("gate",),
    ),
    Number("gate.state", "1", _HELD, _states, ("gate", "state")),
    Number(
        *("gate.waits", "1", "1 if a hold or the burn-in keeps the gate closed."),
        lambda health, _: {(gate, waiting["for"]): 1 for gate, waiting in health["waits"].items()},
        ("gate", "for"),
    ),
    _of_health("polls", "{poll}", "Polls that have ended.", "polls", "counter"),
    Number(
        *("failed.polls", "{poll}", "Polls that no broker answered."),
        lambda _, counts: {(): counts.polls_failed},
        kind="counter",
    ),
    Number(
        *("changes", "{change}", "Differences between two views, by their kind."),
        lambda _, counts: counts.changes.copy(),
        ("kind",),
        "counter",
    ),
    Number("gate.moves", "{move}", _MOVES, lambda _, counts: counts.gate_moves.copy(), ("gate", "to"), "counter"),
)
