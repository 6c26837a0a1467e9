"""Usage reports: what they say, that they survive the way to a topic, and that sending them costs the app nothing."""

import asyncio
import gc
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from builders import update
from hypothesis import given
from hypothesis import strategies as st
from waiting import eventually

import featuregate as fg
from featuregate.errors import ConfigError, UsageReportError
from featuregate.gating.store import Store
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate.usage.report import ReportedGate, Reporter, UsageReport, WaitsFor, make_report
from featuregate.usage.reporting import Reporting, seconds_until_due
from featuregate.view.merging import merge

BOUND = 60.0
TV2 = fg.Feature("transaction.version") >= 2
REPORT = UsageReport(
    reporter=Reporter("orders", "pod-1", "featuregate", "0.1.0"),
    reported_at=1700000000.5,
    cluster_id="4L6g3nShT-eMCtK--X86sw",
    epoch=5613,
    age_seconds=2.25,
    gates=(
        ReportedGate(
            name="eos",
            requirement="transaction.version>=2",
            policy="sticky",
            state="held",
            latched=True,
            levels={"transaction.version": 1},
        ),
    ),
)


def reported(features: StaticFeatures) -> tuple[ReportedGate, ...]:
    store = features._store
    assert store.view is not None
    report = make_report(
        REPORT.reporter, store.view, store.gates(), store.latch_state, age_seconds=0.0, reported_at=1.0
    )
    return report.gates


@pytest.mark.parametrize("waits", ["hold", "burn-in", None])
def test_a_report_says_what_keeps_a_gate_closed(waits: WaitsFor | None) -> None:
    """Beside its requirement."""
    report = replace(REPORT, gates=(replace(REPORT.gates[0], waits=waits),))
    assert UsageReport.from_json(report.to_json()) == report
    with pytest.raises(UsageReportError, match=r"report.gates\[0\].waits"):
        UsageReport.from_json(report.to_json().replace(json.dumps(waits), '"x"'))


def test_a_report_says_what_will_delay_a_gate() -> None:
    """Its burn-in."""
    report = replace(REPORT, gates=(replace(REPORT.gates[0], open_after=60.0),))
    assert UsageReport.from_json(report.to_json()) == report
    features = StaticFeatures(release_view("4.2"))
    features.gate("eos", TV2, open_after=timedelta(seconds=60))
    (gate,) = reported(features)
    assert (gate.open_after, gate.waits) == (60.0, "burn-in")


def test_a_held_gate_is_reported_as_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators see which apps wait, and for what."""
    monkeypatch.setenv("FEATUREGATE_HOLD", "eos")
    features = StaticFeatures(release_view("4.2"))
    features.gate("eos", TV2)
    features.gate("other", TV2)
    assert [(gate.name, gate.state, gate.waits) for gate in reported(features)] == [
        ("eos", "closed", "hold"),
        ("other", "open", None),
    ]


class Topic:
    """A sender that keeps what it is given, or does what the test wants."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.reports: list[UsageReport] = []
        self.then = then

    def __call__(self, value: bytes, /) -> None:
        self.reports.append(UsageReport.from_json(value))
        self.then()

    def wait_for_the_last(self) -> UsageReport:
        """Wait until the last report is there: ``close()`` waits for it, but not longer than two seconds."""
        return eventually(lambda: [report for report in self.reports if report.closing], "the last report", BOUND)[0]

    def wait_for(self, count: int) -> None:
        eventually(lambda: len(self.reports) >= count, f"{count} reports", BOUND)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as started:
        started.finalize({"transaction.version": 2})
        yield started


def usage_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "featuregate-usage"]


# ---------------------------------------------------------------- the document


def test_a_report_survives_the_way_to_a_topic() -> None:
    """Each field comes back as it was."""
    assert UsageReport.from_json(REPORT.to_json()) == REPORT
    closing = replace(REPORT, cluster_id=None, epoch=-1, gates=(), gates_left_out=3, closing=True)
    assert UsageReport.from_json(closing.to_json().encode()) == closing


def test_fields_of_a_later_release_are_skipped() -> None:
    """Within one schema version a release may add fields anywhere."""
    document = json.loads(REPORT.to_json())
    document["more"] = document["gates"][0]["more"] = document["software"]["more"] = {"a": [1]}
    assert UsageReport.from_json(json.dumps(document)) == REPORT


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("schema_version", 2, "report.schema_version: 2 is newer than 1"),
        ("schema_version", 0, "report.schema_version: expected an integer from 1"),
        ("app", "", "report.app: expected 1 to 256 characters"),
        ("app", "a" * 257, "report.app: expected 1 to 256 characters"),
        ("instance", "half \ud800", "report.instance: expected 1 to 256 characters of Unicode"),
        ("reported_at", -1, "report.reported_at: expected a number of seconds"),
        ("reported_at", 1e300, "report.reported_at: expected a number of seconds"),
        ("epoch", 2**63, "report.epoch: expected an integer of 64 bits"),
        ("closing", 1, "report.closing: expected true or false"),
        ("gates", [{}], "report.gates[0].policy: this is missing"),
        ("gates", None, "report.gates: expected an array"),
        ("software", "kafka", "report.software: expected an object"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_place(field: str, value: object, says: str) -> None:
    """Anybody with the right to write to the topic can send anything."""
    document = json.loads(REPORT.to_json())
    document[field] = value
    with pytest.raises(UsageReportError) as error:
        UsageReport.from_json(json.dumps(document))
    assert str(error.value).startswith(says)


def test_a_report_of_any_size_is_refused_before_it_is_parsed() -> None:
    """What is larger than a broker accepts by default is no report."""
    with pytest.raises(UsageReportError, match="bytes are more than"):
        UsageReport.from_json(b" " * 1_048_577)


@given(st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_invariant_7_no_bytes_crash_the_reader(value: bytes | str) -> None:
    """The bytes parse, or the reader raises its one error."""
    with pytest.raises(UsageReportError):
        UsageReport.from_json(value)


# ---------------------------------------------------------------- what it says


def test_a_report_names_each_gate_with_what_it_requires(cluster: FakeCluster) -> None:
    """The last one says that the process ends; both have the levels of the view."""
    topic = Topic()
    with fg.Discoverer(cluster.bootstrap, usage=fg.UsageReporter(topic, app="orders", instance="pod-1")) as features:
        features.gate("eos", TV2)
        features.gate("share", fg.presets.kip932, policy="live")
        assert features.wait(BOUND)
        topic.wait_for(1)
    last = topic.wait_for_the_last()
    assert last.reporter == Reporter("orders", "pod-1", "featuregate", fg.__version__)
    assert (last.cluster_id, last.closing, last.gates_left_out) == (cluster.cluster_id, True, 0)
    assert [(gate.name, gate.state, gate.latched, dict(gate.levels)) for gate in last.gates] == [
        ("eos", "open", True, {"transaction.version": 2}),
        ("share", "open", False, {"share.version": 1}),
    ]
    assert last.gates[0].requirement == "transaction.version>=2"
    assert not topic.reports[0].closing


def test_a_gate_that_only_its_latch_holds_is_held(cluster: FakeCluster) -> None:
    """A downgrade came too late for this app."""
    topic = Topic()
    with fg.Discoverer(cluster.bootstrap, usage=fg.UsageReporter(topic, app="orders")) as features:
        assert features.gate("eos", TV2).wait(BOUND)
        cluster.finalize({"transaction.version": 1})
        features.refresh(BOUND)
    (gate,) = topic.wait_for_the_last().gates
    assert (gate.state, gate.latched, dict(gate.levels)) == ("held", True, {"transaction.version": 1})


def test_a_report_has_room_for_a_thousand_gates() -> None:
    """An app that makes names at run time must not send more than a broker accepts."""
    topic, clock = Topic(), [0.0]
    reporting, store = made(topic, clock)
    features = fg.Discoverer(source=NoSource())
    store.gates = lambda: [fg.Gate(f"{n}", TV2, policy="live", owner=features) for n in range(1001)]  # type: ignore[method-assign]
    reporting.report()
    assert (len(topic.reports[0].gates), topic.reports[0].gates_left_out) == (1000, 1)


# ---------------------------------------------------------------- when, and at which cost


class NoSource:
    """A source that is never asked."""

    timeout = 1.0

    async def fetch(self) -> Any:
        raise NotImplementedError


def made(send: Callable[[bytes], None], clock: list[float], *, seen: bool = True) -> tuple[Reporting, Store]:
    store = Store(wall=lambda: 0.0)
    reporter = fg.UsageReporter(send, app="orders")
    reporting = Reporting(reporter, store, age=lambda: None, wall=lambda: 1.0, clock=lambda: clock[0])
    if seen:
        update(store, merge([], cluster_id="c", seen_at=0.0))
    return reporting, store


def test_there_is_one_report_a_minute_at_most() -> None:
    """The thread may wake more often."""
    topic, clock = Topic(), [0.0]
    reporting, _ = made(topic, clock)
    assert reporting.report_when_due() == 60
    clock[0] = 59.0
    assert reporting.report_when_due() == 1
    assert len(topic.reports) == 1
    clock[0] = 61.0
    assert reporting.report_when_due() == 60
    assert len(topic.reports) == 2
    assert seconds_until_due(None, 5.0, 60.0) == 0


def test_without_a_view_there_is_nothing_to_report() -> None:
    """The reporter does not know yet which cluster the report is about."""
    topic, clock = Topic(), [0.0]
    reporting, _ = made(topic, clock, seen=False)
    assert reporting.report_when_due() == 60
    reporting.report(closing=True)
    assert topic.reports == []


def test_a_sender_that_fails_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The app goes on, and its health says what is lost."""

    def fail(_value: bytes) -> None:
        raise OSError("no route")

    reporting, _ = made(fail, [0.0])
    reporting.report()
    reporting.report()
    assert reporting.health() == {"sent": 0, "failed": 2, "last_error": "no route", "age_seconds": None}
    said = [record.message for record in caplog.records if record.name == "featuregate"]
    assert said == ["a usage report was not sent: no route"]


def test_a_sender_that_blocks_holds_neither_polls_nor_the_end(cluster: FakeCluster) -> None:
    """Gates open meanwhile, and close() has a bound of its own."""
    entered, release = threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        release.wait(BOUND)

    features = fg.Discoverer(cluster.bootstrap, usage=fg.UsageReporter(Topic(block), app="orders"))
    try:
        with features:
            assert features.wait(BOUND)
            assert entered.wait(BOUND)
            assert features.gate("eos", TV2).wait(BOUND)
            features.refresh(BOUND)
            assert features.health()["usage"]["sent"] == 0
        assert features.health()["status"] == "closed"
    finally:
        release.set()
    eventually(lambda: not usage_threads(), "the thread ends once the sender returns", BOUND)


async def test_a_sender_that_blocks_does_not_hold_the_loop_of_the_app(cluster: FakeCluster) -> None:
    """The end waits for the last report in a thread."""
    topic = Topic()
    features = fg.Discoverer(cluster.bootstrap, usage=fg.UsageReporter(topic, app="orders"))
    async with features:
        await asyncio.to_thread(topic.wait_for, 1)
        turns = 0
        release = threading.Event()
        topic.then = lambda: release.wait(BOUND)

        async def turn() -> None:
            nonlocal turns
            while not release.is_set():
                turns += 1
                if topic.reports and topic.reports[-1].closing:
                    release.set()
                await asyncio.sleep(0)

        turning = asyncio.create_task(turn())
    await turning
    assert turns


def test_a_closed_discoverer_lets_go_of_the_sender(cluster: FakeCluster) -> None:
    """The connections of the sender end with it, also where the discoverer is kept."""
    topic = Topic()
    gone = weakref.ref(topic)
    features = fg.Discoverer(cluster.bootstrap, usage=fg.UsageReporter(topic, app="orders"))
    with features:
        topic.wait_for(1)
    del topic
    eventually(lambda: gone() is None, "the sender is gone", BOUND)
    eventually(lambda: features.health()["usage"]["sent"] >= 2, "both reports count", BOUND)


def test_without_a_reporter_no_thread_runs(cluster: FakeCluster) -> None:
    """Reports are off by default."""
    before = usage_threads()
    with fg.Discoverer(cluster.bootstrap) as features:
        assert features.wait(BOUND)
        assert features.health()["usage"] is None
        assert [each for each in usage_threads() if each not in before] == []


def test_invariant_8_the_thread_ends_with_a_forgotten_discoverer(cluster: FakeCluster) -> None:
    """The poll thread ends then, too."""
    topic = Topic()
    features = fg.Discoverer(cluster.bootstrap, usage=fg.UsageReporter(topic, app="orders")).start()
    gone = weakref.ref(features)
    topic.wait_for(1)
    del features
    eventually(lambda: gc.collect() >= 0 and gone() is None and not usage_threads(), "the thread ends", BOUND)


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_invariant_8_a_forked_child_reports_as_a_process_of_its_own(cluster: FakeCluster) -> None:
    """Its thread starts at its first check."""
    reader, writer = os.pipe()
    topic = Topic()
    with fg.Discoverer(cluster.bootstrap, usage=fg.UsageReporter(topic, app="orders")) as features:
        gate = features.gate("eos", TV2)
        assert gate.wait(BOUND)
        topic.wait_for(1)
        child = os.fork()
        if child == 0:
            try:
                topic.reports.clear()
                assert gate.open
                topic.wait_for(1)
                os.write(writer, topic.reports[0].reporter.instance.encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            instance = pipe.read()
        os.waitpid(child, 0)
    assert instance.endswith(f"-{child}")
    assert topic.wait_for_the_last().reporter.instance.endswith(f"-{os.getpid()}")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"app": ""}, "app: must be a text of 1 to 256 characters"),
        ({"app": "team-\udce9"}, "app: must be a text of 1 to 256 characters of Unicode"),
        ({"instance": ""}, "instance: must be a text"),
        ({"software": ("kafka", "")}, "software: must be a text"),
        ({"software": "ab"}, "software: must be a name and a version"),
        ({"software": ["kafka"]}, "software: must be a name and a version"),
        ({"interval": 1}, "interval: must be 60 seconds or more, not 1"),
        ({"interval": float("inf")}, "interval: must be 60 seconds or more"),
    ],
)
def test_what_a_reporter_cannot_use_is_refused(changed: dict[str, Any], says: str) -> None:
    """When it is made, not when the first report is due."""
    with pytest.raises(ConfigError, match=says):
        fg.UsageReporter(Topic(), **{"app": "orders", **changed})


def test_a_reporter_keeps_the_software_that_it_was_given() -> None:
    """A list that the app changes later would make reports that nobody can read."""
    software = ["kafka", "1"]
    reporter = fg.UsageReporter(lambda _: None, app="orders", software=software)  # type: ignore[arg-type]
    software.clear()
    assert reporter.name_process()[2:] == ("kafka", "1")
