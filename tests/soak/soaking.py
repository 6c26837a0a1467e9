"""The loop of a soak: harnesses in a row, each with a seed of its own, until the time is up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soak.harnesses import Harness
    from soak.ledger import Run
    from soak.reports import Report
    from soak.running import Ended

SILENCE = 30.0
"""Seconds between two lines about the same run."""


@dataclass
class Progress:
    """What all runs of a soak have counted so far, and what the present one adds."""

    say: Callable[[str], None]
    clock: Callable[[], float]
    began: float = field(init=False)
    runs: int = 0
    failed: int = 0
    inputs: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    duplicated: int = 0
    _name: str = ""
    _said: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the soak began."""
        return self.clock() - self.began

    def begin(self, harness: Harness, seed: int) -> None:
        """Say that a run begins."""
        self.runs += 1
        self._name = harness.name
        self._said = self.clock()
        self._tell(f"begins with seed {seed}")

    def watch(self, report: Report) -> None:
        """Say how far the run is, now and then."""
        if self.clock() - self._said >= SILENCE:
            self._said = self.clock()
            self._tell(f"{report.inputs:,} messages, {sum(report.faults.values())} faults")

    def end(self, run: Run) -> None:
        """Count a run that has ended, and say so; one without a balance adds to the runs alone."""
        self.failed += run.failure is not None
        if run.has_balance:
            self.inputs += run.inputs
            self.faults.update(run.faults)
            self.lost += run.lost or 0
            self.duplicated += run.duplicated or 0
        self._tell(f"{'passed' if run.failure is None else f'FAILED, seed {run.seed}: {run.failure}'}; {self.total()}")

    def total(self) -> str:
        """Say what all runs together have counted."""
        return (
            f"all runs: {self.inputs:,} messages, {self.faults.total()} faults, {self.lost} lost, "
            f"{self.duplicated} duplicated, {self.failed} of {self.runs} failed"
        )

    def _tell(self, text: str) -> None:
        minutes, seconds = divmod(int(self.elapsed), 60)
        self.say(f"{minutes:3d}:{seconds:02d}  run {self.runs}, {self._name}: {text}")


def soak(
    harnesses: Sequence[Harness],
    *,
    seconds: float,
    seed: int,
    progress: Progress,
    run: Callable[[Harness, int, Callable[[Report], None]], Ended],
    keep: Callable[[Harness, int, float, Ended], Run],
) -> None:
    """Run one harness after the other until ``seconds`` have passed; a run that was begun is finished.

    ``keep`` writes the run to the ledger, and returns what it wrote.
    """
    for harness, own_seed in zip(cycle(harnesses), seeds(seed), strict=False):
        began = progress.clock()
        progress.begin(harness, own_seed)
        ended = run(harness, own_seed, progress.watch)
        progress.end(keep(harness, own_seed, progress.clock() - began, ended))
        if progress.elapsed >= seconds:
            return


def seeds(first: int) -> Iterator[int]:
    """Give the seeds of a soak: the first one as it is, so that one run can be repeated, then those it leads to."""
    yield first
    chance = random.Random(first)
    while True:
        yield chance.getrandbits(32)
