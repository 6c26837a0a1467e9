"""The story of ``make demo-spark``: both drivers are killed twice, and the brokers are rolled in between."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, TypeVar

from demo_timeline import Timeline, show_brokers

from featuregate.cli import main as featuregate
from featuregate.testing.traffic import Loop, wait_for

if TYPE_CHECKING:
    from demo_traffic import Load
    from spark_demo_jobs import Job

    from featuregate.testing import LocalKafka

BOUND = 900.0
"""Seconds that anything may take which usually takes less than twenty."""
_T = TypeVar("_T")


class Story:
    """Kills drivers, rolls the brokers, and records what happens."""

    def __init__(
        self, kafka: LocalKafka, jobs: Sequence[Job], timeline: Timeline, load: Load, loops: Sequence[Loop]
    ) -> None:
        self.kafka, self.jobs, self.timeline, self.load, self.loops = kafka, jobs, timeline, load, loops
        self.kills = 0

    def watch(self) -> None:
        """Record the format that each job writes, and the releases of the brokers."""
        for job in self.jobs:
            if (written := job.format()) is not None:
                self.timeline.show(job.name, written)
        show_brokers(self.kafka, self.timeline)

    # ------------------------------------------------------------ the plot

    def play(self, new: str) -> None:
        """Kill both drivers, roll all brokers, finalize the features of the new release, and kill both again."""
        old = self.kafka.node(1).version
        self.timeline.show("gate", "closed")
        self.timeline.show("step", f"all {old}")
        for job in self.jobs:
            job.start()
        self._wait("both jobs write", lambda: all(job.done() >= 1 for job in self.jobs))
        self.kill_and_start()
        self.timeline.show("step", "rolling")
        for node in self.kafka.nodes:
            self.timeline.say(f"broker {node} is stopped, and comes back with {new}")
            self.kafka.roll(node, new)
        self.timeline.show("step", f"all {new}")
        self.finalize(new)
        self._wait("both jobs write the new format", lambda: all(job.format() == "new format" for job in self.jobs))
        self.timeline.show("gate", "open")
        self.timeline.say("the gate is open, and both jobs write the new format")
        self.kill_and_start()

    def kill_and_start(self) -> None:
        """Kill each driver in the middle of a batch, start it again, and wait until both have caught up."""
        for job in self.jobs:
            job.kill_amid_batch(BOUND)
            self.timeline.show(job.name, "killed")
            self.timeline.say(f"the driver {job.name} was killed in the middle of a batch (kill -9)")
        self.kills += 1
        for job in self.jobs:
            job.start()
        self.catch_up()
        self.timeline.say("both were started again with their checkpoints, and have caught up")

    def finalize(self, version: str) -> None:
        """Raise the levels as an operator does; again while a controller has not registered its new release yet."""
        release = ".".join(version.split(".")[:2])
        where = ["--bootstrap-server", self.kafka.bootstrap, "--controllers", self.kafka.controller_bootstrap]
        command = ["upgrade", "--release-version", release, "--yes", *where]
        self.timeline.say(f"$ featuregate upgrade --release-version {release}")
        said = io.StringIO()

        def done() -> bool:
            with redirect_stdout(said), redirect_stderr(said):
                return featuregate(command) == 0

        try:
            self._wait(f"the levels of {release} are finalized", done)
        except TimeoutError as late:
            raise RuntimeError(f"{late}: {said.getvalue()[-500:]}") from late

    def catch_up(self) -> None:
        """Wait until both jobs have done all inputs so far."""
        ends = {job: dict(self.load.ends[job.input]) for job in self.jobs}

        def caught_up(job: Job) -> bool:
            done = job.offsets()
            return all(done.get(partition, 0) >= end for partition, end in ends[job].items())

        self._wait("both jobs catch up", lambda: all(caught_up(job) for job in self.jobs))

    def _wait(self, what: str, ask: Callable[[], _T]) -> _T:
        checks = [*(loop.check for loop in self.loops), *(job.check for job in self.jobs)]
        return wait_for(what, ask, BOUND, *checks)
