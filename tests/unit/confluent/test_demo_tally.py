"""What the demo counts, and when it fails."""

import importlib
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def demo(monkeypatch):
    """The modules of the demo, which are scripts beside each other and no package."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("demo_tally"), importlib.import_module("demo_timeline")


@pytest.fixture
def steps(demo):
    """Two steps: seconds 1 to 10, and 10 to 20."""
    return [demo[1].Span("first", 1.0, 10.0), demo[1].Span("second", 10.0, 20.0)]


def test_a_duplicate_counts_where_it_appeared_and_a_loss_where_it_was_sent(demo, steps):
    """The second output of an input is the duplicate; an input without any output is lost."""
    tally, _ = demo
    sent = {"a": 2.0, "b": 3.0, "c": 12.0, "d": 4.0}
    seen = [
        tally.CommittedOutput(2.5, "a"),
        tally.CommittedOutput(3.5, "b"),
        tally.CommittedOutput(11.0, "a"),
        tally.CommittedOutput(13.0, "c"),
    ]
    assert tally.tally(sent, seen, steps) == [tally.Count(3, 0, 1), tally.Count(1, 1, 0)]


def test_a_third_output_is_a_second_duplicate(demo):
    """Each output beyond the first is one too many."""
    tally, _ = demo
    outputs = [tally.CommittedOutput(at, "a") for at in (1.0, 2.0, 3.0)]
    assert tally.duplicates(outputs) == outputs[1:]


def test_what_lies_before_the_first_step_or_after_the_last_goes_to_the_nearest(demo, steps):
    """The table counts everything that was seen."""
    tally, _ = demo
    seen = [tally.CommittedOutput(0.1, "a"), tally.CommittedOutput(0.2, "a"), tally.CommittedOutput(99.0, "a")]
    assert tally.tally({"a": 0.0}, seen, steps) == [tally.Count(1, 1, 0), tally.Count(0, 1, 0)]


GOOD, TWICE, LOST, NOTHING = (9, 0, 0), (9, 2, 0), (9, 0, 1), (0, 0, 0)


@pytest.mark.parametrize(
    ("guarded", "naive", "model", "wrong"),
    [
        (GOOD, TWICE, "v2", []),
        (TWICE, TWICE, "v2", ["ours duplicated 2 of 9 inputs in step 1"]),
        (LOST, TWICE, "v2", ["ours lost 1 of 9 inputs in step 1"]),
        (GOOD, GOOD, "v2", ["theirs duplicated nothing, so that nothing was shown"]),
        (GOOD, TWICE, "bridge", ["ours-1 ended in model bridge, not v2"]),
        (GOOD, TWICE, None, ["ours-1 ended in model None, not v2"]),
        (NOTHING, TWICE, "v2", ["nothing was sent"]),
    ],
)
def test_the_demo_fails_unless_it_shows_what_it_should(demo, guarded, naive, model, wrong):
    """It expects no duplicate and no loss with featuregate, some without, and v2 in the end."""
    tally, _ = demo
    counts = {"ours": [tally.Count(*guarded)], "theirs": [tally.Count(*naive)]}
    assert tally.faults(counts, {"ours-1": model}, guarded="ours", naive="theirs") == wrong


def test_a_lane_goes_from_state_to_state_and_to_none(demo):
    """Showing the same state again changes nothing; None ends a state."""
    now = iter([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    line = demo[1].Timeline(lambda: next(now))
    for state in ("old", "old", None, "new"):
        line.show("broker", state)
    assert line.spans() == {
        "broker": [demo[1].Span("old", 1.0, 2.0), demo[1].Span("new", 3.0, 4.0)],
    }
