"""The gates of a relay as the page shows them: open or not, and the brokers that a gate waits for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.view.names import members

if TYPE_CHECKING:
    from featuregate import Decision, Gate, View

_MOST: Final = 8
_EPOCH: Final = re.compile(r" at epoch \d+")
"""Brokers learn of an epoch one after the other: with it, brokers that report the same levels would differ."""


class Blocker(NamedTuple):
    """A condition that is not met, and the brokers of which one fact keeps it from that."""

    condition: str
    brokers: str
    """Their ids or addresses; empty: the cluster as a whole."""
    number: int
    """How many brokers these are."""
    fact: str


class ShownGate(NamedTuple):
    """A gate at one moment."""

    name: str
    requirement: str
    policy: str
    state: str
    """``open``, ``held``, ``closed`` or ``unknown``."""
    summary: str
    blockers: tuple[Blocker, ...]
    more: int
    """Further blockers, which are not shown."""


def shown_gate(gate: Gate, view: View | None, *, seen: bool = False) -> ShownGate:
    """Return what the page shows of a gate; ``seen``: a client has seen it latched, by this relay or another one."""
    decision = gate.decision
    held = decision.held is not None or (seen and not decision.open)
    blockers = tuple(_blockers(decision, view)) if decision.verdict != "open" and not held else ()
    return ShownGate(
        name=gate.name,
        requirement=str(gate.requirement),
        policy=gate.policy,
        state="held" if held else decision.verdict,
        summary=decision.summary if decision.open or not held else f"another relay has latched it; {decision.summary}",
        blockers=blockers[:_MOST],
        more=max(len(blockers) - _MOST, 0),
    )


def _blockers(decision: Decision, view: View | None) -> Iterator[Blocker]:
    """Yield the reasons that keep a gate closed. Brokers of which the same is true are one."""
    brokers = {(broker.node_id, broker.address): broker for broker in view.brokers} if view else {}
    alike: dict[tuple[str, str], list[tuple[int | None, str | None]]] = {}
    for reason in decision.sorted_reasons:
        if reason.verdict != "open":
            broker = brokers.get((reason.node_id, reason.address or ""))
            fact = reason.text if broker is None else _EPOCH.sub("", reason.text.removeprefix(f"{broker.name} "))
            alike.setdefault((reason.condition, fact), []).append((reason.node_id, reason.address))
    for (condition, fact), keys in alike.items():
        known = [brokers[node_id, address] for node_id, address in keys if address and (node_id, address) in brokers]
        yield Blocker(condition, members(known), len(known), fact)
