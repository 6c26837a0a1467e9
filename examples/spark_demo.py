"""Show what an exactly-once Spark job is worth: in, out, lost and doubled, beside the same job with Spark's own sink.

Run it with ``make demo-spark``. Two jobs copy the same records between topics of real brokers. Both drivers are
killed with SIGKILL in the middle of a batch, once before and once after the brokers are rolled from 3.9.2 to 4.2.0.
A gate opens when the features of 4.2 are finalized, and from the next batch on both jobs write a new format.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from demo_picture import Key, Lane, Panel, Picture, draw
from demo_tally import Count, faults, judged, tally
from demo_timeline import Span, Timeline
from demo_traffic import Load, Reader, count_outputs
from rich.console import Console
from rich.table import Table
from spark_demo_jobs import Job
from spark_demo_story import BOUND, Story

from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.topics import create_topics
from featuregate.testing.traffic import CommittedOutput, Loop, duplicates, wait_for

GUARDED, PLAIN = "featuregate's sink", "Spark's own sink"
SINKS = {GUARDED: "featuregate", PLAIN: "spark"}
OLD, NEW = "3.9.2", "4.2.0"
PICTURE = Path("build/demo/spark.svg")
PARTITIONS = 2
BURST = 40
EVERY_SECONDS = 1.0
FORMATS = {"old format": "legacy", "new format": "v2", "killed": "down"}
LEGEND = (
    (
        Key(24, "legacy", "a batch of the old format is written"),
        Key(330, "v2", "one of the new format"),
        Key(560, "down", "killed (kill -9), and started again"),
        Key(850, "open", "gate transaction.version>=2"),
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What a run showed."""

    lanes: Mapping[str, list[Span]]
    sent: Mapping[str, float]
    seen: Mapping[str, list[CommittedOutput]]
    kills: int

    def counts(self) -> dict[str, list[Count]]:
        """Count duplicates and losses of each job, step by step."""
        return {name: tally(self.sent, seen, self.lanes["step"]) for name, seen in self.seen.items()}


def run(folder: Path, brokers: int) -> Outcome:
    """Start the cluster and the jobs, run the story, stop them, and look for every input among the outputs."""
    print(f"demo | starting real Kafka ({OLD}, brokers: {brokers}), and two Spark jobs", flush=True)
    with ExitStack() as stack:
        kafka = stack.enter_context(LocalKafka(OLD, nodes=brokers))
        jobs = [Job(name, kafka.bootstrap, folder, sink=sink) for name, sink in SINKS.items()]
        for job in jobs:
            stack.callback(job.close)
        topics = [topic for job in jobs for topic in (job.input, job.output)]
        create_topics({"bootstrap.servers": kafka.bootstrap}, dict.fromkeys(topics, PARTITIONS), brokers=brokers)
        timeline = Timeline()
        reader = Reader(kafka.bootstrap, [job.output for job in jobs], partitions=PARTITIONS, clock=timeline.now)
        stack.callback(reader.close)
        load = Load(kafka.bootstrap, [job.input for job in jobs], partitions=PARTITIONS, size=BURST, clock=timeline.now)
        reading = stack.enter_context(Loop(reader.read))
        sending = stack.enter_context(Loop(load.send, every=EVERY_SECONDS))
        story = Story(kafka, jobs, timeline, load, [reading, sending])
        stack.enter_context(Loop(story.watch, every=0.2))
        try:
            story.play(NEW)
            sending.close()
            story.catch_up()
        except (TimeoutError, RuntimeError):
            for job in jobs:
                print(f"--- {job.name}\n{job.last_lines(25)}", file=sys.stderr)
            raise
        timeline.say("no more inputs; the outputs are counted")
        for job in jobs:
            truth = count_outputs(kafka.bootstrap, job.output, partitions=PARTITIONS, seconds=BOUND)
            wait_for("the outputs are seen", partial(reader.agrees, job.output, truth), BOUND)
        seen = {job.name: list(reader.seen[job.output]) for job in jobs}
        return Outcome(timeline.spans(), load.sent, seen, story.kills)


def print_table(outcome: Outcome) -> None:
    """Print the counts, one row for each job."""
    table = Table(title=f"Drivers killed {outcome.kills} times, brokers rolled {OLD} to {NEW}", title_justify="left")
    for name in ("", "in", "out", "lost", "doubled"):
        table.add_column(name, justify="right" if name else "left")
    for name, counts in outcome.counts().items():
        lost, doubled = sum(count.lost for count in counts), sum(count.duplicates for count in counts)
        out = len(outcome.seen[name])
        table.add_row(name, f"{len(outcome.sent):,}", f"{out:,}", judged(lost), judged(doubled))
    Console(width=None if sys.stdout.isatty() else 100).print(table)


def picture(outcome: Outcome) -> Picture:
    """Return the content of the picture."""
    lanes, counts = outcome.lanes, outcome.counts()
    return Picture(
        title=f"A Spark job while its driver is killed and Kafka {OLD} is rolled to {NEW}",
        subtitle="Two jobs copy the same records, and differ in their sink. Each driver is killed twice, amid a batch.",
        steps=lanes["step"],
        brokers=[Lane(name, spans) for name, spans in sorted(lanes.items()) if name.startswith("broker")],
        gate=Lane("gate", lanes["gate"]),
        panels=[
            Panel(f"With {name}", [Lane("driver", lanes[name])], _times(outcome.seen[name]), counts[name], FORMATS)
            for name in SINKS
        ],
        old=OLD,
        legend=LEGEND,
    )


def _times(seen: Sequence[CommittedOutput]) -> list[float]:
    return [output.at for output in duplicates(seen)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the story, and print and draw its outcome; fail if the outcome is not as expected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where to draw it (default: %(default)s)")
    parser.add_argument("--brokers", type=int, default=3, metavar="N", help="how many (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        with TemporaryDirectory(prefix="featuregate-demo-spark-") as folder:
            outcome = run(Path(folder), options.brokers)
    except (TimeoutError, RuntimeError) as failure:
        sys.exit(f"demo: {failure}")
    print_table(outcome)
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    options.picture.write_text(draw(picture(outcome)))
    print(f"demo | the timeline as a picture: {options.picture}")
    if found := faults(outcome.counts(), {}, guarded=GUARDED, naive=PLAIN):
        sys.exit("\n".join(f"demo: {fault}" for fault in found))


if __name__ == "__main__":
    main()
