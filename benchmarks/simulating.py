"""What a simulated cluster costs: events, and 1,000 brokers rolled."""

from __future__ import annotations

import time
from collections.abc import Callable

from measuring import Sample, Section, each, take_turns

from featuregate.testing.simulator import CatchUp, KRaft, Lag, Roll, Script, Tick, apply, upgrade, view_of
from featuregate.testing.simulator import run as run_script

ROUNDS, BROKERS = 100, 1000
"""A thousand events: each round rolls a cluster, lets a broker lag, raises a level, and lets time pass."""


def script() -> Script:
    rolls = [Roll(node_id, "4.2") for node_id in (3000, 3001, 3002, 1, 2, 3)]
    events = (*rolls, Lag(2), upgrade({"group.version": 1}), CatchUp(2), Tick(20))
    return Script(KRaft("3.9"), events * ROUNDS)


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def roll() -> None:
    cluster = KRaft("3.9", brokers=BROKERS).create()
    for node_id in cluster.nodes:
        cluster = apply(cluster, Roll(node_id, "4.2")).cluster
    assert all(node.build == "4.2" and node.status == "running" for node in cluster.nodes.values())


def run(rounds: int) -> Section:
    one = script()
    large = KRaft("3.9", brokers=BROKERS).create()
    took = take_turns(
        "simulate", rounds, {"event": lambda: seconds(lambda: run_script(one)) / len(one.events) * 1e6}, "us"
    )
    many = take_turns(
        "simulate 1,000 brokers",
        rounds,
        {"roll": lambda: seconds(roll), "look": lambda: seconds(lambda: view_of(large))},
        "s",
    )
    rate = Sample("rate", "events/s", tuple(1e6 / value for value in took["event"].values))
    return Section(
        name="simulate",
        title="The simulated cluster",
        rows=(
            each(None, "one event, 3 brokers and 3 controllers", took["event"]),
            each(None, "the same, as a rate", rate),
            each(None, f"{BROKERS:,} brokers rolled one by one", many["roll"]),
            each(None, f"a look at {BROKERS:,} brokers, messages included", many["look"]),
        ),
        notes=("Processor time of one process; nothing waits.",),
    )
