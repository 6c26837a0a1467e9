"""Show what a rolling upgrade does to exactly-once, with featuregate and without.

Run it with ``make demo``. It rolls three real Kafka brokers from 2.4.1 to 2.8.2 one by one, under load. Two apps copy
the same inputs, each with two instances: ``exactly_once_app.py``, and ``naive_app.py``, which has one producer for each
process and passes the group metadata of KIP-447 from the start. At each step the demo stops the first instance of both
apps in the middle of a transaction until the other instance has taken over, and then lets it continue as a zombie. At
the end it looks for every input among the committed outputs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException
from demo_apps import Group
from demo_picture import Key, Lane, Panel, Picture, draw
from demo_story import BOUND, WORK_MS, Step, Story
from demo_tally import Count, faults, judged, tally
from demo_timeline import Span, Timeline
from demo_traffic import Load, Reader, count_outputs
from rich.console import Console
from rich.table import Table

from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.processes import ProcessGroup
from featuregate.testing.local_kafka.topics import create_topics
from featuregate.testing.traffic import CommittedOutput, Loop, duplicates, wait_for

HERE = Path(__file__).parent
GUARDED, NAIVE = "featuregate", "naive"
SCRIPTS = {GUARDED: HERE / "exactly_once_app.py", NAIVE: HERE / "naive_app.py"}
PICTURE = Path("build/demo/exactly-once.svg")
MODELS = {name: name for name in ("legacy", "bridge", "v2")}
LEGEND = (
    (
        Key(24, "asleep", "a zombie: stopped inside a transaction, resumed after the other instance took over"),
        Key(740, "open", "gate open: brokers refuse such zombies"),
    ),
    (
        Key(24, "legacy", "legacy: a producer for each partition"),
        Key(370, "bridge", "bridge: the same, and brokers check the group"),
        Key(770, "v2", "v2: a producer for each process"),
    ),
)
PARTITIONS = 4
BURST = 40
EVERY_SECONDS = 1.5
"""How often as many inputs are sent: one instance alone can bear it."""
SESSION_MS = 3000
"""After this time the others take over from a zombie. Brokers allow no less than 6 s unless they are told to."""
CLIENTS = ("--consumer", f"session.timeout.ms={SESSION_MS}", "--consumer", "heartbeat.interval.ms=500")


@dataclass(frozen=True)
class Outcome:
    """What a run showed."""

    lanes: Mapping[str, list[Span]]
    steps: list[Step]
    sent: Mapping[str, float]
    seen: Mapping[str, list[CommittedOutput]]
    models: Mapping[str, str | None]
    """The last model of each instance with featuregate."""

    def counts(self) -> dict[str, list[Count]]:
        """Count duplicates and losses of each app, step by step."""
        return {name: tally(self.sent, seen, self.lanes["step"]) for name, seen in self.seen.items()}


def run(old: str, new: str, *, quick: bool) -> Outcome:
    """Start the cluster and the apps, run the story, stop them, and look for every input among the outputs."""
    print(f"demo | starting three real Kafka brokers of {old}", flush=True)
    with ExitStack() as stack:
        kafka = stack.enter_context(LocalKafka(old, nodes=3, properties={"group.min.session.timeout.ms": SESSION_MS}))
        groups = [Group(name, kafka.bootstrap, partitions=PARTITIONS) for name in SCRIPTS]
        inputs, outputs = [group.input for group in groups], [group.output for group in groups]
        topics = dict.fromkeys([*inputs, *outputs], PARTITIONS)
        create_topics({"bootstrap.servers": kafka.bootstrap}, topics, brokers=len(kafka.nodes))
        family = ProcessGroup("demo")
        stack.callback(family.close)
        timeline = Timeline()
        reader = Reader(kafka.bootstrap, outputs, partitions=PARTITIONS, clock=timeline.now)
        stack.callback(reader.close)
        load = Load(kafka.bootstrap, inputs, partitions=PARTITIONS, size=BURST, clock=timeline.now)
        reading = stack.enter_context(Loop(reader.read))
        sending = stack.enter_context(Loop(load.send, every=EVERY_SECONDS))
        story = Story(kafka, groups[0], groups[1], timeline, load, [reading, sending])
        start(groups, family)
        stack.enter_context(Loop(story.watch, every=0.2))
        try:
            story.play(new, quick=quick)
            sending.close()
            story.catch_up()
        except (TimeoutError, RuntimeError):
            show_logs(groups)
            raise
        timeline.say("no more inputs; the apps are told to stop, and the committed outputs are counted")
        for group in groups:
            group.stop()
        for group in groups:
            truth = count_outputs(kafka.bootstrap, group.output, partitions=PARTITIONS, seconds=BOUND)
            wait_for("the outputs are seen", partial(reader.agrees, group.output, truth), BOUND)
        return Outcome(
            timeline.spans(),
            story.steps,
            load.sent,
            {group.name: list(reader.seen[group.output]) for group in groups},
            {one.name: (one.status() or {}).get("model") for one in groups[0].instances},
        )


def start(groups: Iterable[Group], family: ProcessGroup) -> None:
    """Start two instances of each app with the same options; only the app with featuregate keeps a state."""
    for group in groups:
        options = ["--work-ms", str(WORK_MS), *CLIENTS]
        if group.name == GUARDED:
            options += ["--state-dir", str(family.folder / "state"), "--interval", "1", "--verbose"]
        group.start(SCRIPTS[group.name], family, options)


def show_logs(groups: Iterable[Group]) -> None:
    """Print the last log lines of the apps, and the states of their groups."""
    for group in groups:
        with suppress(KafkaException):
            print(f"--- group {group.name} is {group.state()}", file=sys.stderr)
        for instance in group.instances:
            print(f"--- {instance.name}: {instance.status()}\n{instance.child.last_lines(15)}", file=sys.stderr)


def print_table(outcome: Outcome) -> None:
    """Print the counts, one row for each step."""
    counts = outcome.counts()
    table = Table(title="Inputs that came out twice, or never", title_justify="left", show_footer=True)
    total = {name: _total(rows) for name, rows in counts.items()}
    table.add_column("step", footer="together")
    table.add_column("inputs", justify="right", footer=f"{total[GUARDED].inputs:,}")
    table.add_column("featuregate:\nmodel")
    table.add_column("\nduplicates", justify="right", footer=judged(total[GUARDED].duplicates))
    table.add_column("\nlost", justify="right", footer=judged(total[GUARDED].lost))
    table.add_column("naive:\ncoordinated by")
    table.add_column("\nzombie's commit")
    table.add_column("\nduplicates", justify="right", footer=judged(total[NAIVE].duplicates))
    table.add_column("\nlost", justify="right", footer=judged(total[NAIVE].lost))
    for step, guarded, naive in zip(outcome.steps, counts[GUARDED], counts[NAIVE], strict=True):
        ours = (step.model, judged(guarded.duplicates), judged(guarded.lost))
        theirs = (step.coordinator, step.fate, judged(naive.duplicates), judged(naive.lost))
        table.add_row(step.name, f"{guarded.inputs:,}", *ours, *theirs)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def picture(outcome: Outcome, old: str, new: str) -> Picture:
    """Return the content of the picture."""
    lanes = outcome.lanes
    counts = outcome.counts()

    def panel(name: str, title: str) -> Panel:
        instances = [f"{name}-1", f"{name}-2"]
        rows = [
            Lane(f"instance {number}", lanes[instance], lanes.get(f"{instance} sleeps", []))
            for number, instance in enumerate(instances, start=1)
        ]
        return Panel(title, rows, [output.at for output in duplicates(outcome.seen[name])], counts[name], MODELS)

    return Picture(
        title=f"Exactly-once while Kafka {old} is rolled to {new}",
        subtitle="Two apps copy the same inputs, two instances each. At each step, the first of both is made a zombie.",
        steps=lanes["step"],
        brokers=[Lane(name, spans) for name, spans in sorted(lanes.items()) if name.startswith("broker")],
        gate=Lane("gate kip447", lanes.get("gate", [])),
        panels=[
            panel(GUARDED, "With featuregate"),
            panel(NAIVE, "Without: the app that everybody writes, v2 from the start"),
        ],
        old=old,
        legend=LEGEND,
    )


def _total(counts: Sequence[Count]) -> Count:
    return Count(
        sum(count.inputs for count in counts),
        sum(count.duplicates for count in counts),
        sum(count.lost for count in counts),
    )


def main() -> None:
    """Run the story, and print and draw its outcome; fail if the outcome is not as expected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", default="2.4.1", help="the release to start with (default: %(default)s)")
    parser.add_argument("--new", default="2.8.2", help="the release to roll to (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="zombies before and after the roll alone")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where to draw it (default: %(default)s)")
    options = parser.parse_args()
    try:
        outcome = run(options.old, options.new, quick=options.quick)
    except (TimeoutError, RuntimeError) as failure:
        sys.exit(f"demo: {failure}")
    print_table(outcome)
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    options.picture.write_text(draw(picture(outcome, options.old, options.new)))
    print(f"demo | the timeline as a picture: {options.picture}")
    if found := faults(outcome.counts(), outcome.models, guarded=GUARDED, naive=NAIVE):
        sys.exit("\n".join(f"demo: {fault}" for fault in found))


if __name__ == "__main__":
    main()
