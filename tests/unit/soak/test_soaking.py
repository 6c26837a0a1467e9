"""The loop of a soak, with harnesses that take as long as they are told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from soak.harnesses import Harness
from soak.ledger import Run
from soak.reports import Report
from soak.running import Ended
from soak.soaking import Progress, seeds, soak

HARNESSES = [Harness(name=name, test=name, bound=100) for name in ("first", "second", "third")]
GOOD = Report(inputs=1000, outputs=1000, faults={"a broker is killed": 2}, lost=0, duplicated=0, changed=0)
CUT_OFF = Report(inputs=500, outputs=400, faults={"a broker is killed": 1})


class Soaked:
    """A soak in which each run takes a minute and reports every ten seconds; a failing seed ends without a balance."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.now = 0.0
        self.lines: list[str] = []
        self.runs: list[Run] = []
        self.progress = Progress(say=self.lines.append, clock=lambda: self.now)

    def of(self, seconds: float, seed: int = 5) -> Soaked:
        """Soak so long."""
        soak(HARNESSES, seconds=seconds, seed=seed, progress=self.progress, run=self.run, keep=self.keep)
        return self

    def run(self, harness: Harness, _seed: int, watch: Callable[[Report], None]) -> Ended:
        """Take a minute."""
        for _ in range(6):
            self.now += 10
            watch(CUT_OFF)
        if harness.name in self.failing:
            return Ended(report=CUT_OFF, failure="failure: it hung", output="")
        return Ended(report=GOOD, failure=None, output="")

    def keep(self, harness: Harness, seed: int, seconds: float, ended: Ended) -> Run:
        """Keep it in memory."""
        run = Run.of(
            ended.report,
            time="now",
            commit="abc",
            harness=harness.name,
            seed=seed,
            seconds=round(seconds),
            failure=ended.failure,
        )
        self.runs.append(run)
        return run


@pytest.mark.parametrize(("seconds", "runs"), [(0, 1), (60, 1), (61, 2), (200, 4)])
def test_a_run_that_was_begun_is_finished_and_none_begins_when_the_time_is_up(seconds: float, runs: int) -> None:
    """Of no time at all, one run is made, so that a seed can be repeated."""
    soaked = Soaked().of(seconds)
    assert [run.seconds for run in soaked.runs] == [60] * runs


def test_harnesses_take_turns() -> None:
    """And begin again when each had its turn."""
    assert [run.harness for run in Soaked().of(300).runs] == ["first", "second", "third", "first", "second"]


def test_the_first_run_has_the_seed_that_was_given_and_the_others_follow_from_it() -> None:
    """The same seed gives the same soak; no two runs of it are the same."""
    one, other = ([run.seed for run in Soaked().of(300, seed=42).runs] for _ in range(2))
    assert one == other
    assert one[0] == 42
    assert len(set(one)) == 5
    assert all(0 <= seed < 2**32 for _, seed in zip(range(100), seeds(1), strict=False))


def test_a_failing_run_is_kept_and_counted_and_the_soak_goes_on() -> None:
    """Its messages are not counted, because the run did not compare them."""
    soaked = Soaked("second").of(180)
    assert [run.failure for run in soaked.runs] == [None, "failure: it hung", None]
    assert soaked.progress.failed == 1
    assert soaked.progress.total() == "all runs: 2,000 messages, 4 faults, 0 lost, 0 duplicated, 1 of 3 failed"
    assert any(f"FAILED, seed {soaked.runs[1].seed}: failure: it hung" in line for line in soaked.lines)


def test_a_run_tells_now_and_then_how_far_it_is() -> None:
    """Twice a minute, though it is looked at more often."""
    assert Soaked().of(0).lines == [
        "  0:00  run 1, first: begins with seed 5",
        "  0:30  run 1, first: 500 messages, 1 faults",
        "  1:00  run 1, first: 500 messages, 1 faults",
        "  1:00  run 1, first: passed; all runs: 1,000 messages, 2 faults, 0 lost, 0 duplicated, 0 of 1 failed",
    ]
