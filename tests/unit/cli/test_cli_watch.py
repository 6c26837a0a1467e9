"""``watch``: from events to lines."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest
from builders import broker, deaf, view

from featuregate.cli.commands.watch import EventFormatter, Line, _consume, summarize
from featuregate.gating.decisions import evaluate
from featuregate.gating.events import Changed, Event, GateMoved, Polled, PollFailed
from featuregate.requirements import Feature
from featuregate.testing import FakeCluster
from featuregate.view.answers import Failure
from featuregate.view.changes import differences

if TYPE_CHECKING:
    from conftest import Start

POLLED = Polled(cluster_id="c", epoch=1, seconds=0.1, answered=3, known=3)
FAILED = PollFailed(error="no broker answered: b1:9092: refused", failures=1, seconds=0.1)
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def changed(before, after) -> Changed:
    return Changed(before=before, after=after, differences=differences(before, after))


def lines(formatter: EventFormatter, *events: object) -> list[str]:
    return [line.text for line in formatter.lines(events)]


def test_the_first_line_describes_the_cluster() -> None:
    event = Changed(before=None, after=view(broker(1, metadata_version=21), deaf(2)), differences=())
    assert lines(EventFormatter(), event) == ["cluster c: 1 of 2 brokers answered, epoch 10: metadata.version 3.9-IV0"]


def test_each_difference_is_a_line() -> None:
    event = changed(view(broker(1)), view(broker(1, epoch=11, group_version=1)))
    assert lines(EventFormatter(), event) == [str(difference) for difference in event.differences]
    assert len(event.differences) > 0


def test_a_broker_that_stays_away_is_told_once() -> None:
    """A restart is seen as each of these in turn; a refused password is news."""
    kinds = ("ConnectFailed", "Unlisted", "ConnectionLost", "TimedOut", "AuthenticationFailed")
    seen = [view(broker(1), replace(deaf(2), failure=Failure(kind, kind))) for kind in kinds]
    said = lines(EventFormatter(), *(changed(before, after) for before, after in pairwise(seen)))
    assert said == ["broker 2 (b2:9092) does not answer: AuthenticationFailed"]


def test_changes_precede_the_gates_that_they_open() -> None:
    after = view(broker(1, epoch=11, group_version=1))
    moved = GateMoved(gate="g", open=True, decision=evaluate(after, Feature("group.version") >= 1))
    assert lines(EventFormatter(), moved, changed(view(broker(1)), after))[-1] == "gate g: open: group.version>=1"


def test_polls_in_quick_succession_are_printed_one_by_one() -> None:
    events: SimpleQueue[Event] = SimpleQueue()
    batches: list[list[Event]] = []
    for event in (POLLED, FAILED, POLLED):
        events.put(event)

    def handle(batch: list[Event]) -> None:
        batches.append(batch)
        if events.empty():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _consume(events, handle, until=None)
    assert batches == [[POLLED], [FAILED], [POLLED]]


def test_watch_bounds_each_poll(start: Start) -> None:
    with FakeCluster(1) as cluster:
        cluster.broker(1).pause()
        process = start("watch", "--timeout", "2.5", "--bootstrap-server", cluster.bootstrap)
        assert process.stdout is not None
        assert "2.5 s" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 2


def test_an_outage_and_its_end_are_printed_once() -> None:
    """However many polls fail; a poll without changes prints nothing. The exit code asks whether a broker answered."""
    formatter = EventFormatter()
    assert lines(formatter, FAILED, FAILED) == [FAILED.error]
    assert not formatter.answered
    assert lines(formatter, POLLED, POLLED) == ["3 of 3 brokers answer again"]
    assert formatter.answered


def test_a_line_has_its_time_and_steers_no_terminal() -> None:
    """The local time as text, UTC as JSON, in which each fact is a key."""
    line = Line(kind="gate", text="\x1b[2J", facts={"gate": "g", "open": True})
    assert line.to_text(AT) == f"{AT.astimezone():%H:%M:%S}  \\x1b[2J"
    said = {"at": "2026-01-02T03:04:05.000+00:00", "kind": "gate", "text": "\x1b[2J", "gate": "g", "open": True}
    assert json.loads(line.to_json(AT)) == said


def api(name: str) -> Line:
    return Line(kind="change", text=f"all brokers serve {name} 0..1", facts={"what": "api", "subject": name})


def test_many_changed_api_ranges_are_one_line_of_text() -> None:
    """A rolling upgrade changes dozens of ranges."""
    other = Line(kind="change", text="broker 1 answers again", facts={"what": "broker returned"})
    changes = [api(name) for name in ("Produce", "Fetch", "EndTxn", "Metadata", "JoinGroup")] + [other]
    assert [each.text for each in summarize(changes)] == [
        "the common range of 5 APIs changed: Produce, Fetch, EndTxn and 2 more",
        "broker 1 answers again",
    ]
    assert list(summarize(changes[:3])) == changes[:3], "a few are a line each"


def test_many_changed_brokers_are_one_line_of_text() -> None:
    """A raised level reaches a thousand brokers."""
    changes = [
        Line(kind="change", text="...", facts={"what": "broker changed", "subject": f"broker {number}"})
        for number in range(1, 1001)
    ]
    assert [each.text for each in summarize(changes)] == [
        "1000 brokers changed: broker 1, broker 2, broker 3 and 997 more"
    ]
