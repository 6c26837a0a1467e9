"""The producer switch beside loops that were written by hand: throughput, latency, and what is held open.

`python benchmarks/switch.py --nodes 3` does it on a cluster of three; `make bench` on one node.
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from live import KAFKA
from measuring import Growth, Line, Row, Sample, Section, Table, announce, as_fast_as, beside, number, progress
from members import Feed, Held, Process, topics
from report import show
from switching import LOOPS, MODELS, QUIET, Options, Turn
from takeover import takeovers

from featuregate.testing import LocalKafka

PARTITIONS = (1, 8, 64)
OUTPUTS = 8
"""Partitions of the output topic."""
BATCH = 512
WAIT = 0.1
TRANSACTIONS = 32
"""Transactions of one turn: a third of a second of work. Many short turns tell two loops apart, on a machine whose pace
changes from one second to the next, where few long ones do not."""
LEAST_BATCHES = 2
TOGETHER = 4
"""Turns that are looked at together for the latency of their transactions: of 32, no hundredth is slowest."""
WARM_UPS = 4
"""Turns that do not count: the brokers, too, are slow at first."""
TAKEOVERS = 20
"""One round of takeovers for so many rounds of turns."""
PROMPT = {"retry.backoff.ms": 2}
"""For all producers. A transaction that begins before the brokers have finished the one before is told to try again;
librdkafka's own 100 ms would make a few such waits decide who is faster."""
FETCH = {"fetch.wait.max.ms": 50}
COLOURS = {"legacy": "#d62728", "bridge": "#ff7f0e", "v2": "#1f77b4"}


@dataclass(frozen=True, slots=True)
class Found:
    """What one contestant did with one model and so many partitions."""

    ready: float
    """Seconds from its making until it had its first messages."""
    turns: tuple[Turn, ...]
    held: Held

    def rate(self, name: str) -> Sample:
        return Sample(name, "messages/s", tuple(turn.messages / turn.seconds for turn in self.turns))

    def latency(self, name: str, percent: int) -> Sample:
        together = [self.turns[start : start + TOGETHER] for start in range(0, len(self.turns), TOGETHER)]
        timed = [tuple(chain.from_iterable(turn.transactions for turn in turns)) for turns in together]
        return Sample(name, "ms", tuple(percentile(seconds, percent) * 1e3 for seconds in timed))

    def processor(self, name: str) -> Sample:
        return Sample(name, "us a message", tuple(turn.processor / turn.messages * 1e6 for turn in self.turns))


class Case(NamedTuple):
    model: str
    partitions: int

    @property
    def turn(self) -> int:
        """Messages of a turn: as many for each contestant, and for each case as make so many transactions."""
        a_batch = 1 if self.model == "v2" else self.partitions
        return BATCH * max(LEAST_BATCHES, TRANSACTIONS // a_batch)

    def __str__(self) -> str:
        return f"{self.model}, {self.partitions} partition{'s' if self.partitions > 1 else ''}"


def percentile(values: tuple[float, ...], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def run(rounds: int, nodes: int = 1) -> Section:
    announce(f"  starting {nodes} Kafka {KAFKA} node{'s' if nodes > 1 else ''}")
    with LocalKafka(KAFKA, nodes=nodes) as kafka:
        found = {
            case: contest(kafka.bootstrap, case, rounds, replicas=min(3, nodes))
            for case in (Case(model, partitions) for partitions in PARTITIONS for model in MODELS)
        }
        taken = takeovers(kafka.bootstrap, max(1, rounds // TAKEOVERS), replicas=min(3, nodes))
    rows: list[Row] = []
    for case, by_loop in found.items():
        rows.append(as_fast_as(0.97, f"{case}: throughput", *(by_loop[loop].rate(loop) for loop in LOOPS)))
        rows += [
            beside(f"{case}: p{percent} of a transaction", *(by_loop[loop].latency(loop, percent) for loop in LOOPS))
            for percent in (50, 99)
        ]
        rows.append(beside(f"{case}: processor time", *(by_loop[loop].processor(loop) for loop in LOOPS)))
    return Section(
        name="switch",
        title="The producer switch",
        rows=(*rows, *taken.rows),
        notes=(*notes(nodes), *taken.notes),
        tables=(held_open(found),),
        growth=Growth(
            by="partitions",
            rows=tuple(grown(found, partitions) for partitions in PARTITIONS),
            said=(
                "How throughput, in messages a second, falls with the number of input partitions; both axes of the "
                "picture are logarithmic:"
            ),
            drawn=tuple(
                Line(column(loop, model), COLOURS[model], dashed=loop != LOOPS[0]) for model in MODELS for loop in LOOPS
            ),
            unit="/s",
            picture="benchmarks-switch.svg",
            shows="Messages a second of each model, by the number of input partitions",
        ),
    )


def contest(bootstrap: str, case: Case, rounds: int, replicas: int) -> dict[str, Found]:
    """Let the loops take turns, and the first turn too."""
    announce(f"  {case}")
    turns: dict[str, list[Turn]] = {loop: [] for loop in LOOPS}
    with ExitStack() as stack:
        playing = {loop: stack.enter_context(contestant(bootstrap, case, loop, replicas)) for loop in LOOPS}
        for number_of_round in range(rounds):
            progress(f"{case}: round {number_of_round + 1} of {rounds}")
            for loop in LOOPS if number_of_round % 2 else reversed(LOOPS):
                turns[loop].append(playing[loop].play(case.turn))
        progress("")
        return {loop: Found(one.ready, tuple(turns[loop]), one.process.held()) for loop, one in playing.items()}


class Contestant(NamedTuple):
    """A group of one member, and its input."""

    feed: Feed
    process: Process
    ready: float

    def play(self, messages: int) -> Turn:
        self.feed.give(messages)
        return self.process.turn()


@contextmanager
def contestant(bootstrap: str, case: Case, loop: str, replicas: int) -> Iterator[Contestant]:
    """Have a group of one member that is warm."""
    name = f"{case.model}-{case.partitions}-{loop}-{uuid.uuid4().hex[:8]}"
    given, made = f"{name}-in", f"{name}-out"
    with topics(bootstrap, {given: case.partitions, made: OUTPUTS}, replicas):
        feed = Feed(bootstrap, given, case.partitions, BATCH)
        options = Options(
            loop=loop,
            model=case.model,
            bootstrap=bootstrap,
            group=name,
            topic=given,
            output=made,
            app_id=name,
            batch=BATCH,
            wait=WAIT,
            slot="0",
            turn=case.turn,
            consumer=feed.fetching | FETCH | QUIET,
            producer=PROMPT | QUIET,
        )
        feed.give(case.turn)
        with Process(options) as process:
            warm = Contestant(feed, process, ready=process.turn().waited)
            for _ in range(WARM_UPS - 1):
                warm.play(case.turn)
            yield warm


def column(loop: str, model: str) -> str:
    return f"{model}, {loop}"


def grown(found: dict[Case, dict[str, Found]], partitions: int) -> dict[str, float]:
    return {"partitions": float(partitions)} | {
        column(loop, model): found[Case(model, partitions)][loop].rate(loop).median
        for model in MODELS
        for loop in LOOPS
    }


def held_open(found: dict[Case, dict[str, Found]]) -> Table:
    rows = [("model", "partitions", "loop", "clients", "threads", "connections", "resident, MiB", "ready after, s")]
    rows += [
        (
            case.model,
            str(case.partitions),
            loop,
            str(one.held.clients),
            str(one.held.threads),
            str(one.held.connections),
            number(one.held.resident),
            number(one.ready),
        )
        for case, by_loop in found.items()
        for loop, one in by_loop.items()
    ]
    return Table(
        "What one member holds open at the end of its turns, and how long it took from its making until it had its "
        "first messages: group joined, ids taken, offsets read. Clients are those of librdkafka: one is the consumer.",
        tuple(rows),
    )


def notes(nodes: int) -> tuple[str, ...]:
    return (
        (
            f"Kafka {KAFKA}, {nodes} node{'s' if nodes > 1 else ''}. Each contestant is a process of its own with a "
            f"group and topics of its own, and takes turns with its peer; who begins a round alternates. A turn's "
            f"messages ({BATCH} for each consume, of 100 bytes) become visible at one moment, spread over all "
            f"partitions as a live stream is: each consume brings some of every partition. The clock runs from the "
            f"first batch to the end of the last commit. A transaction is timed from before it begins until its commit "
            f"has returned; percentiles are those of {TOGETHER} turns together. Output goes to {OUTPUTS} partitions."
        ),
        (
            "The hand-written loops do what a careful author would: they take ids before they read offsets, send the "
            "group's metadata of that moment (legacy has none), drop what a rebalance overtook, and rewind after an "
            f"abort. All producers have retry.backoff.ms={PROMPT['retry.backoff.ms']}: with librdkafka's 100 ms, one "
            "v2 transaction in thirty or so waits that long for the markers of the one before. They run one "
            "transaction after the other; in the models with a producer for each partition, featuregate has up to 16 "
            "commits under way at once. There one transaction takes longer than alone, and all are done sooner."
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=60)
    args = parser.parse_args()
    show([run(args.rounds, args.nodes)])


if __name__ == "__main__":
    main()
