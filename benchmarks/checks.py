"""What a check costs the app: reading `gate.open`, and calling a guarded function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from measuring import Row, Section, at_least, at_most, loop, take_turns
from openfeature.api import get_client, set_provider
from openfeature.provider.in_memory_provider import InMemoryFlag, InMemoryProvider

import featuregate as fg
from featuregate.gating.gates import Gate
from featuregate.gating.store import Store
from featuregate.view.answers import ApiRange, BrokerAnswer
from featuregate.view.merging import merge

REQUIREMENT = "TxnOffsetCommit>=3"


class NoOwner:
    """An owner that never polls."""

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:  # noqa: ARG002 - what owners have
        return done()

    def ensure_polling(self) -> None:
        pass


@dataclass(slots=True)
class Slot:
    """The cheapest thing that could be asked."""

    open: bool


def gate_of(store: Store, name: str) -> Gate:
    requirement = fg.parse(REQUIREMENT)
    return store.add_gate(name, lambda: Gate(name, requirement, policy="sticky", owner=NoOwner()))


def gates(*, qualifies: bool) -> Gate:
    """Give a sticky gate that a real store has decided."""
    store = Store(wall=lambda: 0.0)
    gate = gate_of(store, "bench")
    broker = BrokerAnswer(node_id=1, host="b1", port=9092, api_ranges={28: ApiRange(0, 5 if qualifies else 2)})
    store.commit(merge([broker], cluster_id="bench", seen_at=0.0))
    assert gate.open is qualifies
    return gate


def new_way(batch: int) -> int:
    return batch


def old_way(batch: int) -> int:
    return batch


def passed_through(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def run(rounds: int) -> Section:
    opened, closed = gates(qualifies=True), gates(qualifies=False)
    reads = take_turns(
        "checks", rounds, {"gate.open": loop("x.open", opened), "a slot": loop("x.open", Slot(open=True))}, "ns"
    )
    calls = take_turns(
        "guards",
        rounds,
        {
            "guarded, open": loop("x(1)", opened.guard(fallback=old_way)(new_way)),
            "guarded, closed": loop("x(1)", closed.guard(fallback=old_way)(new_way)),
            "a bare wrapper": loop("x(1)", passed_through(new_way)),
        },
        "ns",
    )
    wrapper = calls["a bare wrapper"]
    return Section(
        name="checks",
        title="A check",
        rows=(
            at_most(1.2, "`gate.open`", reads["gate.open"], reads["a slot"]),
            at_most(1.25, "a guarded call, gate open", calls["guarded, open"], wrapper),
            at_most(1.25, "a guarded call, gate closed", calls["guarded, closed"], wrapper),
            beside_openfeature(rounds, opened),
        ),
    )


def beside_openfeature(rounds: int, gate: Gate) -> Row:
    """Hold a check against what an app might ask instead, for information."""
    set_provider(InMemoryProvider({"bench": InMemoryFlag("on", {"on": True, "off": False})}))
    client = get_client()
    assert client.get_boolean_value("bench", default_value=False)
    contestants = {
        "gate.open": loop("x.open", gate),
        "OpenFeature, in memory": loop('x.get_boolean_value("bench", False)', client, repeat=10),
    }
    took = take_turns("peers", rounds, contestants, "ns")
    return at_least(None, "`gate.open`", took["gate.open"], took["OpenFeature, in memory"])
