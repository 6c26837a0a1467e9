"""What a simulated cluster costs: events, checked scripts, and 1,000 brokers rolled."""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING

from measuring import Sample, Section, each, take_turns

from featuregate.testing.simulator import (
    ClusterEvent,
    KRaft,
    Roll,
    Script,
    ScriptChoices,
    apply,
    check_invariants,
    random_script,
    view_of,
)
from featuregate.testing.simulator import (
    run as run_script,
)

if TYPE_CHECKING:
    from collections.abc import Callable

EVENTS, BROKERS, SEED = 1000, 1000, 7


def script_of(events: int) -> Script:
    start = KRaft("3.9")
    words = ScriptChoices(builds=start.default_builds, levels=start.default_levels)
    return random_script(start, words, random.Random(SEED), events)


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
    script = script_of(EVENTS)
    clusters = [event for event in script.events if isinstance(event, ClusterEvent)]
    alone = Script(script.spec, tuple(clusters))
    large = KRaft("3.9", brokers=BROKERS).create()
    logging.disable(logging.WARNING)  # gates that are held open say so, thousands of times
    try:
        took = take_turns(
            "simulate",
            rounds,
            {
                "event": lambda: seconds(lambda: run_script(alone)) / len(clusters) * 1e6,
                "checked": lambda: seconds(lambda: check_invariants(script)) / len(script.events) * 1e6,
            },
            "us",
        )
        many = take_turns(
            "simulate 1,000 brokers",
            rounds,
            {"roll": lambda: seconds(roll), "look": lambda: seconds(lambda: view_of(large))},
            "s",
        )
    finally:
        logging.disable(logging.NOTSET)
    rate = Sample("rate", "events/s", tuple(1e6 / value for value in took["event"].values))
    return Section(
        name="simulate",
        title="The simulated cluster",
        rows=(
            each(None, "one event, 3 brokers and 3 controllers", took["event"]),
            each(None, "the same, as a rate", rate),
            each(None, "one event of a made-up script, with the app's looks and all checks", took["checked"]),
            each(None, f"{BROKERS:,} brokers rolled one by one", many["roll"]),
            each(None, f"a look at {BROKERS:,} brokers, messages included", many["look"]),
        ),
        notes=("Processor time of one process; nothing waits.",),
    )
