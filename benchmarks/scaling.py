"""How the cost of a look grows with the number of brokers: 1 to 1,000, on the loopback interface."""

from __future__ import annotations

import asyncio
import gc
import pickle
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from fakes import raise_file_limit, running
from measuring import Bar, Growth, Line, Row, Sample, Section, announce, each, loop, take_turns

import featuregate as fg
from featuregate.sources.brokers import BrokerSource

if TYPE_CHECKING:
    from featuregate.sources.source import BrokerAnswers

BROKERS = (1, 3, 10, 30, 100, 300, 1000)
MOST, HUNDRED = 1000, 100
SECONDS = 60.0
"""No look takes that long; a machine that is busy with something else must not cut one short."""
KIB = 1024
T = TypeVar("T")


class Look(NamedTuple):
    wall: float
    cpu: float


def look(bootstrap: str, brokers: int) -> Look:
    """Ask every broker once: seconds that pass, and seconds that this process computes."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    view = fg.discover(bootstrap, timeout=SECONDS)
    took = Look(time.perf_counter() - wall, time.process_time() - cpu)
    assert len(view.answering) == brokers, f"{len(view.answering)} of {brokers} brokers answered"
    return took


def asked(bootstrap: str) -> BrokerAnswers:
    return asyncio.run(BrokerSource(bootstrap, timeout=SECONDS, keep_connections=False).fetch())


def merged(found: BrokerAnswers, previous: fg.View | None = None) -> fg.View:
    return found.merge(previous=previous)


def kept(make: Callable[[], T]) -> tuple[T, float]:
    """Make something, and give it with the KiB that it holds."""
    make()
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        gc.collect()
        return made, tracemalloc.get_traced_memory()[0] / KIB
    finally:
        tracemalloc.stop()


def run(rounds: int) -> Section:
    raise_file_limit()
    with ExitStack() as stack:
        announce(f"  starting {sum(BROKERS):,} fake brokers")
        clusters = {brokers: stack.enter_context(running(brokers)) for brokers in BROKERS}
        look(clusters[1], 1)  # imports what a first look needs
        looks: dict[int, list[Look]] = {brokers: [] for brokers in BROKERS}

        def one(brokers: int) -> float:
            looks[brokers].append(look(clusters[brokers], brokers))
            return looks[brokers][-1].wall

        take_turns("discover", rounds, {str(brokers): partial(one, brokers) for brokers in BROKERS}, "s")
        answers = {brokers: asked(bootstrap) for brokers, bootstrap in clusters.items()}
        view, view_size = kept(lambda: fg.discover(clusters[MOST], timeout=SECONDS))
        _, answers_size = kept(lambda: asked(clusters[MOST]))
    pure = {brokers: computed(found, rounds) for brokers, found in answers.items()}
    most, hundred = looks[MOST], looks[HUNDRED]
    per_broker = tuple((a.cpu / MOST) / (b.cpu / HUNDRED) for a, b in zip(most, hundred, strict=True))
    return Section(
        name="scale",
        title="A look at many brokers",
        rows=(
            each(1.5, "discover 1,000 brokers", Sample("featuregate", "s", tuple(a.wall for a in most))),
            each(None, "the same, processor time", Sample("featuregate", "s", tuple(a.cpu for a in most))),
            Row(
                what="processor time per broker at 1,000 brokers",
                ours=Sample("at 1,000", "us", tuple(a.cpu / MOST * 1e6 for a in most)),
                peer=Sample("at 100", "us", tuple(b.cpu / HUNDRED * 1e6 for b in hundred)),
                score=Sample("ratio", "x", per_broker),
                bar=Bar(1.5, "linear: <= 1.5x of that at 100"),
            ),
            each(30, "answers of 1,000 brokers, before merging", kib_each("answers", answers_size)),
            each(30, "view of 1,000 brokers of one release", kib_each("view", view_size)),
            each(None, "the view, pickled", kib_each("view", len(pickle.dumps(view)) / KIB)),
        ),
        notes=(
            (
                "The fake brokers speak the real protocol on the loopback interface, in a process of their own on the "
                "same machine: each is asked on a fresh connection, as real ones are. Brokers that say the same share "
                "what they said, which is why a view is so much smaller than the answers that it was made of."
            ),
        ),
        growth=Growth(
            by="brokers",
            rows=tuple(grown(brokers, looks[brokers], pure[brokers]) for brokers in BROKERS),
            said=(
                "How the cost grows; both axes of the picture are logarithmic, where linear growth is a straight line "
                "of slope one:"
            ),
            drawn=(Line("one discovery, ms", "#1f77b4"), Line("its processor time, ms", "#d62728")),
            unit=" ms",
            picture="benchmarks.svg",
            shows="Milliseconds to discover a cluster, by its number of brokers",
        ),
    )


def kib_each(name: str, size: float) -> Sample:
    return Sample(name, "KiB a broker", (size / MOST,))


def computed(found: BrokerAnswers, rounds: int) -> dict[str, float]:
    """Time what is pure: merging, comparing and deciding, in microseconds."""
    before = merged(found)
    same = merged(found, before)
    contestants = {
        "merge": loop("x()", lambda: merged(found, before), repeat=1),
        "compare": loop("x()", lambda: before.same_content(same), repeat=1),
        "evaluate": loop("x()", lambda: fg.evaluate(before, fg.presets.kip447), repeat=1),
    }
    took = take_turns(f"merge and evaluate, {len(found.answers)} brokers", rounds, contestants, "us", 1e-3)
    return {name: sample.median for name, sample in took.items()}


def grown(brokers: int, looks: list[Look], pure: dict[str, float]) -> dict[str, float]:
    wall = Sample("wall", "ms", tuple(a.wall * 1e3 for a in looks)).median
    cpu = Sample("cpu", "ms", tuple(a.cpu * 1e3 for a in looks)).median
    return {
        "brokers": brokers,
        "one discovery, ms": wall,
        "its processor time, ms": cpu,
        "processor a broker, us": cpu / brokers * 1e3,
        "merge, us": pure["merge"],
        "compare, us": pure["compare"],
        "evaluate kip447, us": pure["evaluate"],
    }
