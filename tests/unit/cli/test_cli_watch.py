"""``watch``: from events to lines."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest
from builders import broker, deaf, view

from featuregate.cli.commands.watch import EventFormatter, Line, _consume, summarize
from featuregate.gating.decisions import evaluate
from featuregate.gating.events import Changed, Event, GateMoved, Polled, PollFailed
from featuregate.requirements import Feature
from featuregate.testing import FakeCluster
from featuregate.view.changes import differences

if TYPE_CHECKING:
    from conftest import Run

POLLED = Polled(cluster_id="c", epoch=1, seconds=0.1, answered=3, known=3)
FAILED = PollFailed(error="no broker answered: b1:9092: refused", failures=1, seconds=0.1)
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def changed(before, after) -> Changed:
    """Say what became of a view."""
    return Changed(before=before, after=after, differences=differences(before, after))


def lines(formatter: EventFormatter, *events: object) -> list[str]:
    """Tell one poll."""
    return [happening.text for happening in formatter.lines(events)]


def test_the_first_view_is_introduced() -> None:
    """Who it is, how many answered, and what is finalized, by name."""
    event = Changed(before=None, after=view(broker(1, metadata_version=21), deaf(2)), differences=())
    assert lines(EventFormatter(), event) == ["cluster c: 1 of 2 brokers answered, epoch 10: metadata.version 3.9-IV0"]


def test_each_difference_is_a_line() -> None:
    """In the words of the difference."""
    event = changed(view(broker(1)), view(broker(1, epoch=11, group_version=1)))
    assert lines(EventFormatter(), event) == [str(difference) for difference in event.differences]
    assert len(event.differences) > 0


def test_what_changed_comes_before_the_gate_that_it_opened() -> None:
    """Cause, then effect, whatever order they were heard in."""
    after = view(broker(1, epoch=11, group_version=1))
    moved = GateMoved(gate="g", open=True, decision=evaluate(after, Feature("group.version") >= 1))
    told = lines(EventFormatter(), moved, changed(view(broker(1)), after))
    assert told[-1] == "gate g: open: group.version>=1"


def test_polls_that_follow_closely_are_told_one_by_one() -> None:
    """However short the interval, nothing waits for a pause."""
    events: SimpleQueue[Event] = SimpleQueue()
    said: list[list[Event]] = []
    for event in (POLLED, FAILED, POLLED):
        events.put(event)

    def say(told: list[Event]) -> None:
        said.append(told)
        if events.empty():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _consume(events, say, until=None)
    assert said == [[POLLED], [FAILED], [POLLED]]


def test_watch_bounds_each_poll(run: Run) -> None:
    """With the same option as every other command."""
    with FakeCluster(1) as cluster:
        cluster.broker(1).pause()
        done = run("watch", "--timeout", "0.2", "--for", "1", "--bootstrap-server", cluster.bootstrap)
    assert done.code == 2
    assert "0.2 s" in done.out


def test_a_gate_is_not_given_twice(run: Run) -> None:
    """Or the first would be dropped without a word."""
    done = run("watch", "--gate", "a=kip447", "--gate", "a=kip848", "--bootstrap-server", "127.0.0.1:1", "--for", "1")
    assert (done.code, done.out) == (64, "")
    assert "'a' is given twice" in done.err


def test_polls_that_bring_nothing_are_not_told() -> None:
    """One line for each change, not for each poll."""
    assert lines(EventFormatter(), POLLED, POLLED) == []


def test_silence_is_told_once() -> None:
    """However often polls fail."""
    formatter = EventFormatter()
    assert lines(formatter, FAILED) == [FAILED.error]
    assert lines(formatter, FAILED) == []


def test_the_end_of_silence_is_told() -> None:
    """Even where nothing changed meanwhile."""
    formatter = EventFormatter()
    list(formatter.lines([FAILED]))
    assert lines(formatter, POLLED) == ["3 of 3 brokers answer again"]
    assert lines(formatter, POLLED) == []


def test_what_was_never_seen_stays_so() -> None:
    """The exit code tells whether anybody ever answered."""
    formatter = EventFormatter()
    list(formatter.lines([FAILED]))
    assert not formatter.answered
    list(formatter.lines([POLLED]))
    assert formatter.answered


def test_json_lines_have_a_time_in_utc() -> None:
    """And what programs look for."""
    line = Line(kind="gate", text="t", facts={"gate": "g", "open": True}).to_json(AT)
    assert json.loads(line) == {
        "at": "2026-01-02T03:04:05.000+00:00",
        "kind": "gate",
        "text": "t",
        "gate": "g",
        "open": True,
    }


def test_text_lines_have_the_time_of_day() -> None:
    """Where the reader is."""
    line = Line(kind="gate", text="t").to_text(AT)
    assert line == f"{AT.astimezone():%H:%M:%S}  t"


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    """Names come from brokers."""
    assert "\x1b" not in Line(kind="change", text="\x1b[2J").to_text(AT)


def api(name: str) -> Line:
    """Say that one API range is another one."""
    return Line(kind="change", text=f"all brokers serve {name} 0..1", facts={"what": "api", "subject": name})


def test_many_api_ranges_at_once_are_one_line_for_people() -> None:
    """A roll moves dozens, and what matters would scroll away."""
    other = Line(kind="change", text="broker 1 answers again", facts={"what": "broker returned"})
    told = [api(name) for name in ("Produce", "Fetch", "EndTxn", "Metadata", "JoinGroup")] + [other]
    assert [each.text for each in summarize(told)] == [
        "the common range of 5 APIs changed: Produce, Fetch, EndTxn and 2 more",
        "broker 1 answers again",
    ]


def test_a_few_api_ranges_are_a_line_each() -> None:
    """They fit."""
    told = [api("Produce"), api("Fetch"), api("EndTxn")]
    assert list(summarize(told)) == told


def test_what_many_brokers_say_at_once_is_one_line_for_people() -> None:
    """A level that is raised reaches a thousand brokers."""
    told = [
        Line(kind="change", text="...", facts={"what": "broker changed", "subject": f"broker {number}"})
        for number in range(1, 1001)
    ]
    assert [each.text for each in summarize(told)] == [
        "1000 brokers changed: broker 1, broker 2, broker 3 and 997 more"
    ]
