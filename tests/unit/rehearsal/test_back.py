"""The way back after a step: what ends the second run, and what it only reports."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="an extra")

from featuregate.errors import LocalKafkaError
from featuregate.rehearsal.rehearsal import Rehearsal, _EndedError, _Place, add_ways_back
from featuregate.rehearsal.runbook import RehearsalStep, Runbook, StepCounts, StepFinding, Verdict, worst

STEP = RehearsalStep(name="Node 1: 3.9.2 -> 4.2.0", commands=[], go_on_when="", way_back="start 3.9.2")
AGAIN = [StepFinding("block", "2 records came out again"), StepFinding("warn", "errors")]


class Rested(Rehearsal):
    """The cluster of a test does not change."""

    def _settled(self) -> dict[Any, str]:
        return {}


@pytest.mark.parametrize(
    ("counts", "findings", "said", "ends"),
    [
        (StepCounts(5, 5, 0, 2, 0.1), AGAIN, "block: took: 2 records came out again", False),
        (StepCounts(5, 4, 1, 0, 0.1), [], "block: took: 1 of 5 records did not come out", True),
        (StepCounts(5, 5, 0, 0, 0.1), [], "ok: took", False),
        (None, [], "warn: no return from here: it does not start", True),
    ],
)
def test_only_records_that_are_lost_and_nodes_that_do_not_start_end_the_second_run(
    counts: StepCounts | None, findings: list[StepFinding], said: str, *, ends: bool
) -> None:
    """An app that writes some records again at a restart does so on the way there, too."""

    def roll(_: int, version: str) -> None:
        if counts is None and version == "3.9.2":
            raise LocalKafkaError("it does not start")

    kafka: Any = SimpleNamespace(internal_bootstrap="localhost:1", roll=roll)
    watched = list[float]()
    watch: Any = SimpleNamespace(end_step=lambda *, at_least: watched.append(at_least) or (counts, findings))
    second = Runbook(releases=("3.9.2", "4.2.0"))
    back = Rested(kafka=kafka, runbook=second, watch=watch, back=True, on_begin=str, on_step=str)
    new, old = (_Place({1: (version, "")}, {}) for version in ("4.2.0", "3.9.2"))
    back._at = new
    try:
        back._go_back(STEP, new, old)
    except _EndedError:
        assert ends
    else:
        assert not ends
        assert watched[0] > 5, "each member of a group has to send a heartbeat to the old software"
    ((shown,),) = (step.findings for step in second.steps)
    assert f"{shown.verdict}: {shown.text}".replace("the way back was tried, and took 0 s", "took") == said


@pytest.mark.parametrize(
    ("first", "ended", "said", "verdict"),
    [
        (StepFinding("warn", "no return from here: it does not start"), "", "beyond the point of no return", "warn"),
        (StepFinding("ok", "the way back was tried"), "Node 2: no answer", "the second run ended: Node 2", "unknown"),
    ],
)
def test_a_way_back_that_was_not_tried_is_no_point_of_no_return(
    first: StepFinding, ended: str, said: str, verdict: Verdict
) -> None:
    """A second run that ends for another reason shows nothing of the steps behind that. A later one takes its place."""
    steps = [replace(STEP, findings=[]), replace(STEP, name="Node 2: 3.9.2 -> 4.2.0", findings=[])]
    tried = replace(STEP, name=f"back from {STEP.name}", findings=[first])
    runbook = Runbook(releases=("3.9.2", "4.2.0"), steps=steps)
    add_ways_back(runbook, Runbook(releases=runbook.releases, ended="it was stopped"))
    add_ways_back(runbook, Runbook(releases=runbook.releases, steps=[tried], ended=ended))
    assert (steps[0].back, steps[0].way_back, steps[0].findings) == (first, STEP.way_back, [])
    assert steps[1].back is not None
    assert said in steps[1].back.text
    assert worst(step.verdict for step in steps) == verdict
