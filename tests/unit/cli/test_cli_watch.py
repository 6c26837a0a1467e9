"""``watch``: from events to lines."""

from __future__ import annotations

import json
import signal
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
    from conftest import Run, Start

POLLED = Polled(cluster_id="c", epoch=1, seconds=0.1, answered=3, known=3)
FAILED = PollFailed(error="no broker answered: b1:9092: refused", failures=1, seconds=0.1)
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def changed(before, after) -> Changed:
    """Return the event of a changed view."""
    return Changed(before=before, after=after, differences=differences(before, after))


def lines(formatter: EventFormatter, *events: object) -> list[str]:
    """Return the texts of one poll."""
    return [line.text for line in formatter.lines(events)]


def test_the_first_line_describes_the_cluster() -> None:
    """The line has the cluster id, the number of answers, and the finalized levels by name."""
    event = Changed(before=None, after=view(broker(1, metadata_version=21), deaf(2)), differences=())
    assert lines(EventFormatter(), event) == ["cluster c: 1 of 2 brokers answered, epoch 10: metadata.version 3.9-IV0"]


def test_each_difference_is_a_line() -> None:
    """The line has the text of the difference."""
    event = changed(view(broker(1)), view(broker(1, epoch=11, group_version=1)))
    assert lines(EventFormatter(), event) == [str(difference) for difference in event.differences]
    assert len(event.differences) > 0


def test_changes_precede_the_gates_that_they_open() -> None:
    """The order of the events does not matter."""
    after = view(broker(1, epoch=11, group_version=1))
    moved = GateMoved(gate="g", open=True, decision=evaluate(after, Feature("group.version") >= 1))
    changes = lines(EventFormatter(), moved, changed(view(broker(1)), after))
    assert changes[-1] == "gate g: open: group.version>=1"


def test_polls_in_quick_succession_are_printed_one_by_one() -> None:
    """The command prints a poll when it ends, however short the interval."""
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
    """The option is that of every other command."""
    with FakeCluster(1) as cluster:
        cluster.broker(1).pause()
        process = start("watch", "--timeout", "2.5", "--bootstrap-server", cluster.bootstrap)
        assert process.stdout is not None
        assert "2.5 s" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 2


@pytest.mark.parametrize(
    "command", [["watch", "--for", "1"], ["plan", "upgrade", "--release-version", "4.2"], ["serve"]]
)
def test_a_gate_given_twice_is_an_error(run: Run, command: list[str]) -> None:
    """Otherwise the second gate would replace the first one."""
    done = run(*command, "--gate", "a=kip447", "--gate", "a=kip848", "--bootstrap-server", "127.0.0.1:1")
    assert (done.code, done.out) == (64, "")
    assert "'a' is given twice" in done.err


def test_a_poll_without_changes_prints_nothing() -> None:
    """A line stands for a change, not for a poll."""
    assert lines(EventFormatter(), POLLED, POLLED) == []


def test_an_outage_is_printed_once() -> None:
    """The command prints one line, however many polls fail."""
    formatter = EventFormatter()
    assert lines(formatter, FAILED) == [FAILED.error]
    assert lines(formatter, FAILED) == []


def test_the_end_of_an_outage_is_printed() -> None:
    """The command prints a line even if the cluster has not changed."""
    formatter = EventFormatter()
    list(formatter.lines([FAILED]))
    assert lines(formatter, POLLED) == ["3 of 3 brokers answer again"]
    assert lines(formatter, POLLED) == []


def test_a_failed_poll_is_no_answer() -> None:
    """The exit code depends on whether a broker ever answered."""
    formatter = EventFormatter()
    list(formatter.lines([FAILED]))
    assert not formatter.answered
    list(formatter.lines([POLLED]))
    assert formatter.answered


def test_json_lines_have_a_time_in_utc() -> None:
    """Each fact is a key of the JSON object."""
    line = Line(kind="gate", text="t", facts={"gate": "g", "open": True}).to_json(AT)
    assert json.loads(line) == {
        "at": "2026-01-02T03:04:05.000+00:00",
        "kind": "gate",
        "text": "t",
        "gate": "g",
        "open": True,
    }


def test_text_lines_have_the_local_time() -> None:
    """The time has no date."""
    line = Line(kind="gate", text="t").to_text(AT)
    assert line == f"{AT.astimezone():%H:%M:%S}  t"


def test_names_of_a_line_cannot_steer_a_terminal() -> None:
    """A broker sends the names."""
    assert "\x1b" not in Line(kind="change", text="\x1b[2J").to_text(AT)


def api(name: str) -> Line:
    """Return the line of a changed API range."""
    return Line(kind="change", text=f"all brokers serve {name} 0..1", facts={"what": "api", "subject": name})


def test_many_changed_api_ranges_are_one_line_of_text() -> None:
    """A rolling upgrade changes dozens of ranges."""
    other = Line(kind="change", text="broker 1 answers again", facts={"what": "broker returned"})
    changes = [api(name) for name in ("Produce", "Fetch", "EndTxn", "Metadata", "JoinGroup")] + [other]
    assert [each.text for each in summarize(changes)] == [
        "the common range of 5 APIs changed: Produce, Fetch, EndTxn and 2 more",
        "broker 1 answers again",
    ]


def test_a_few_api_ranges_are_a_line_each() -> None:
    """The limit is three lines."""
    changes = [api("Produce"), api("Fetch"), api("EndTxn")]
    assert list(summarize(changes)) == changes


def test_many_changed_brokers_are_one_line_of_text() -> None:
    """A raised level reaches a thousand brokers."""
    changes = [
        Line(kind="change", text="...", facts={"what": "broker changed", "subject": f"broker {number}"})
        for number in range(1, 1001)
    ]
    assert [each.text for each in summarize(changes)] == [
        "1000 brokers changed: broker 1, broker 2, broker 3 and 997 more"
    ]
