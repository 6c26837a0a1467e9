"""The discoverer against brokers that speak the real protocol: polling, waiting, closing, forking, pickling."""

import asyncio
import gc
import json
import logging
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from waiting import eventually

import featuregate as fg
from featuregate.errors import ClosedError, DiscoveryError, NotPicklable, RefreshTimedOut
from featuregate.gating.events import Changed, Event, GateMoved, Polled, PollFailed
from featuregate.polling.worker import Worker
from featuregate.testing import FakeCluster, StaticFeatures

BOUND = 30.0
HOUR = 3600.0
TXN_OFFSET_COMMIT = 28
TV2 = fg.Feature("transaction.version") >= 2
NEW_TXN = fg.Api("TxnOffsetCommit") >= 5


@pytest.fixture
def old() -> Iterator[FakeCluster]:
    """Three brokers of 3.9, which do not list brokers that are down."""
    with FakeCluster(3, release="3.9") as cluster:
        yield cluster


@pytest.fixture
def new() -> Iterator[FakeCluster]:
    """Three brokers of 4.2, which list fenced brokers too."""
    with FakeCluster(3, release="4.2") as cluster:
        yield cluster


class Circle:
    """A callback that holds the discoverer which holds it."""

    def __init__(self, features: fg.Discoverer) -> None:
        self.features = features

    def __call__(self, _change: Changed, /) -> None:
        self.features.health()


def is_collected(gone: weakref.ref[Any]) -> bool:
    """Collect garbage and return whether an object is gone: a thread at the very end of its poll holds the poller."""
    gc.collect()
    return gone() is None


# ---------------------------------------------------------------------- one look


def test_discover_looks_once(new: FakeCluster) -> None:
    view = fg.discover(new.bootstrap)
    assert [broker.node_id for broker in view.brokers] == [1, 2, 3]
    assert view.cluster_id == new.cluster_id
    assert view.missing == ()
    assert view.level("metadata.version") == new.finalized["metadata.version"]


def test_discover_finds_no_broker() -> None:
    with FakeCluster(1) as gone:
        address = gone.bootstrap
    with pytest.raises(DiscoveryError, match=address):
        fg.discover(address)


def test_an_app_learns_that_the_cluster_advertises_what_it_cannot_reach(caplog: pytest.LogCaptureFixture) -> None:
    """From an error, from the log and from its health: the address that the app gave is not the one that fails."""
    with FakeCluster(1) as cluster:
        given = cluster.bootstrap
        cluster.broker(1).node = replace(cluster.broker(1).node, host="kafka.invalid")
        advice = f"{given} answered, and lists these addresses: set advertised.listeners"
        with pytest.raises(DiscoveryError, match=advice):
            fg.discover(given)
        with fg.Discoverer(given, interval=HOUR) as features:
            with pytest.raises(DiscoveryError, match=advice):
                features.refresh(BOUND)
            assert advice in features.health()["reasons"][0]
    assert advice in caplog.text


# ---------------------------------------------------------------------- polling


def test_it_starts_without_blocking_and_waits_with_a_bound(new: FakeCluster) -> None:
    """`with` returns at once; wait() tells when there is a view."""
    with fg.Discoverer(new.bootstrap, interval=HOUR) as features:
        assert features.wait(BOUND)
        assert features.view is not None
        assert features.health()["status"] == "ok"
        assert features.health()["polling"]


def test_invariant_3_a_broker_that_comes_back_old_was_never_forgotten(old: FakeCluster) -> None:
    """Down while the others are new already: a gate that forgot it would open, and be wrong when it comes back."""
    with fg.Discoverer(old.bootstrap, interval=HOUR) as features:
        gate = features.gate("new-txn", "TxnOffsetCommit>=5")
        ranges = dict(features.refresh(BOUND).brokers[0].api_ranges)
        old.broker(3).stop()
        for node_id in (1, 2):
            # Not upgrade("4.2"): such brokers would list the one that is down, and nothing had to be remembered.
            old.broker(node_id).set(api_ranges={**ranges, TXN_OFFSET_COMMIT: (0, 5)})
        view = features.refresh(BOUND)
        assert [broker.node_id for broker in view.missing] == [3]
        assert not gate.open
        old.broker(3).start()
        features.refresh(BOUND)
        assert not gate.open
        assert "broker 3" in gate.decision.summary


def test_invariant_3_a_broker_that_is_down_is_remembered_while_another_cluster_answers(old: FakeCluster) -> None:
    """A bootstrap list that leads to two clusters in turn must not make us forget the old broker of one."""
    with FakeCluster(1, release="3.9") as other:
        both = f"{old.bootstrap},{other.bootstrap}"
        with fg.Discoverer(both, interval=HOUR) as features:
            other.broker(1).stop()
            gate = features.gate("new-txn", "TxnOffsetCommit>=5")
            ranges = dict(features.refresh(BOUND).brokers[0].api_ranges)
            for broker in old.brokers:
                broker.stop()
            other.broker(1).start()
            assert features.refresh(BOUND).cluster_id == other.cluster_id
            other.broker(1).stop()
            for node_id in (1, 2):
                old.broker(node_id).set(api_ranges={**ranges, TXN_OFFSET_COMMIT: (0, 5)})
                old.broker(node_id).start()
            view = features.refresh(BOUND)
            assert view.cluster_id == old.cluster_id
            assert [broker.node_id for broker in view.missing] == [3]
            assert not gate.open


def test_the_bootstrap_list_is_asked_again_when_all_known_brokers_are_gone() -> None:
    """The first broker's address stays in the list; those that were known besides are all gone."""
    with FakeCluster(2) as cluster:
        bootstrap = cluster.broker(1).address
        with fg.Discoverer(bootstrap, interval=HOUR) as features:
            cluster.broker(1).stop()
            cluster.broker(2).stop()
            with pytest.raises(DiscoveryError):
                features.refresh(BOUND)
            cluster.broker(1).start()
            view = features.refresh(BOUND)
            assert [broker.node_id for broker in view.missing] == [2]


def test_invariant_2_a_latch_outlives_a_restart(new: FakeCluster, tmp_path: Path) -> None:
    """The second life meets only stale brokers, and finds the gate open."""
    new.finalize({"transaction.version": 2})
    with fg.Discoverer(new.bootstrap, interval=HOUR, latch_store=tmp_path) as features:
        assert features.gate("tv2", TV2).wait(BOUND)
    for broker in new.brokers:
        broker.set(epoch=3, finalized={"transaction.version": 1})
    with fg.Discoverer(new.bootstrap, interval=HOUR, latch_store=tmp_path) as features:
        gate = features.gate("tv2", TV2)
        assert gate.wait(BOUND)
        assert "held open: finalized level fell to 1 at epoch 3" in str(gate.decision)


def test_invariant_7_brokers_that_lie_in_bytes_are_failed_answers(new: FakeCluster) -> None:
    """Garbage and cut frames cost that broker its answer, and no other. On a kept connection it is asked again."""
    with fg.Discoverer(source=fg.BrokerSource(new.bootstrap, keep_connections=False), interval=HOUR) as features:
        features.refresh(BOUND)
        for _ in range(2):  # a broker may be asked twice in one look: who is there, and what it can do
            new.broker(2).garbage_once(b"\xff" * 64)
            new.broker(3).cut_once(after_bytes=20)
        view = features.refresh(BOUND)
        assert [broker.node_id for broker in view.missing] == [2, 3]
        assert any(not features.refresh(BOUND).missing for _ in range(3))


# ---------------------------------------------------------------------- asking


def test_refresh_is_bounded(new: FakeCluster) -> None:
    """A hanging poll does not hang who waits for it."""
    for broker in new.brokers:
        broker.pause()
    with fg.Discoverer(new.bootstrap, interval=HOUR) as features, pytest.raises(RefreshTimedOut, match=r"0\.05 s"):
        features.refresh(0.05)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda features: features.gate(5, "kip447"), "a gate is named by text, not by"),
        (lambda features: features.gate(fg.presets.kip447, "kip447"), "a gate is named by text, not by"),
        *(
            (lambda features, wrong=wrong: features.gate("x", wrong), "is not a requirement: give one such as")
            for wrong in (None, 5, fg.Feature("group.version"))  # as an app gives whose configuration lacks it
        ),
        (lambda _: fg.Discoverer("127.0.0.1:1").wait("5"), "a timeout is a number of seconds, not '5'"),
        (lambda features: features.on_change(5), "a function is called with events, not 5"),
        (lambda features: features.on_event(5), "a function is called with events, not 5"),
        (lambda _: StaticFeatures("4.2"), r"a view is shown, such as release_view\('4.2'\), and not '4.2'"),
    ],
)
def test_an_argument_of_another_kind_is_refused_at_once(call: Callable[[StaticFeatures], object], match: str) -> None:
    """Otherwise each event would log that the hook has failed, or a lock within would raise."""
    with StaticFeatures() as features, pytest.raises(TypeError, match=match):
        call(features)


def test_events_tell_what_happened(new: FakeCluster) -> None:
    """Polls, failed polls, changes and gates that moved; never checks."""
    events: list[Event] = []
    with fg.Discoverer(new.bootstrap, interval=HOUR) as features:
        features.on_event(events.append)
        gate = features.gate("txn", NEW_TXN)
        assert gate.wait(BOUND)
        for _ in range(1000):
            assert gate.open
        for broker in new.brokers:
            broker.stop()
        with pytest.raises(DiscoveryError):
            features.refresh(BOUND)
    kinds = {type(event) for event in events}
    assert kinds == {Polled, PollFailed, Changed, GateMoved}
    assert len(events) < 10


def stop(cluster: FakeCluster) -> None:
    for broker in cluster.brokers:
        broker.stop()


@pytest.mark.parametrize("requirement", [NEW_TXN, TV2, NEW_TXN | TV2], ids=str)
def test_invariant_9_a_gate_that_is_made_after_hours_of_silence_does_not_open(
    new: FakeCluster, tmp_path: Path, requirement: fg.Requirement
) -> None:
    """Neither a live nor a sticky gate opens, also where the app drops it; no latch comes, and latches stay."""
    now = [0.0]
    new.finalize({"transaction.version": 2})
    with fg.Discoverer(
        new.bootstrap, interval=HOUR, stale_after=10, latch_store=tmp_path, clock=lambda: now[0]
    ) as features:
        early = features.gate("early", requirement)
        assert early.wait(BOUND)
        stop(new)
        now[0] = 3 * HOUR
        assert not features.gate("late-live", requirement, policy="live").open
        assert not features.gate("late", requirement).open
        assert early.open
        assert features.gate("early", requirement).open
    assert "late" not in "".join(file.read_text() for file in tmp_path.glob("*.json"))


def test_invariant_9_a_closed_discoverer_proves_nothing_new(
    new: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What it has latched stays; live gates close with it, and gates that are made later stay shut. None warns."""
    with fg.Discoverer(new.bootstrap, interval=HOUR, latch_store=tmp_path) as features:
        live, sticky = features.gate("live", NEW_TXN, policy="live"), features.gate("sticky", NEW_TXN)
        assert sticky.wait(BOUND)
        assert live.open
    assert not live.open
    assert "has been closed" in live.decision.summary
    assert sticky.open
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert not features.gate("late-live", NEW_TXN, policy="live").open
    assert not features.gate("late", NEW_TXN).open
    assert "late" not in "".join(file.read_text() for file in tmp_path.glob("*.json"))


def test_invariant_9_gates_learn_that_the_view_is_stale_before_the_next_poll_would_come(new: FakeCluster) -> None:
    """An interval of an hour does not make a view of a second ago the truth for an hour."""
    with fg.Discoverer(new.bootstrap, interval=HOUR, stale_after=0.5) as features:
        live = features.gate("live", NEW_TXN, policy="live")
        assert live.wait(BOUND)
        stop(new)
        assert features.wait_until(lambda: not live.open, BOUND)
        new.broker(1).start()
        new.broker(2).start()
        new.broker(3).start()
        assert live.wait(BOUND)


def test_listed_brokers_keep_their_latches_under_the_id_that_the_app_gives(new: FakeCluster, tmp_path: Path) -> None:
    """After a restart with one broker down the gate is open, as it was."""
    for broker_is_down in (False, True):
        if broker_is_down:
            new.broker(2).stop()
        with fg.Discoverer(
            source=fg.BrokerSource(new.bootstrap, broker_list="bootstrap", cluster_id="orders"),
            interval=HOUR,
            latch_store=tmp_path,
        ) as features:
            gate = features.gate("eos", NEW_TXN)
            assert gate.wait(BOUND)
            assert features.refresh(BOUND).cluster_id == "orders"
            assert bool(gate.decision.held) is broker_is_down
            assert features.health()["status"] == ("degraded" if broker_is_down else "ok")


def test_a_cluster_of_another_id_than_the_app_gives_is_not_asked(new: FakeCluster) -> None:
    """The bootstrap list leads elsewhere than the app believes."""
    with fg.Discoverer(new.bootstrap, interval=HOUR, cluster_id="orders") as features:
        with pytest.raises(DiscoveryError, match=f"belongs to cluster {new.cluster_id}, not to orders"):
            features.refresh(BOUND)
        assert features.view is None
    with fg.Discoverer(new.bootstrap, interval=HOUR, cluster_id=new.cluster_id) as features:
        assert features.refresh(BOUND).cluster_id == new.cluster_id


def test_a_cluster_that_tells_no_id_gets_the_one_that_the_app_gives(tmp_path: Path) -> None:
    """Kafka before 0.10.1 reports no cluster id."""
    with (
        FakeCluster(1, release="0.10.0") as ancient,
        fg.Discoverer(ancient.bootstrap, interval=HOUR, cluster_id="orders", latch_store=tmp_path) as features,
    ):
        gate = features.gate("any", "Produce>=2")
        assert gate.wait(BOUND)
        assert features.view.cluster_id == "orders"
    assert (tmp_path / "orders.json").exists()


def test_health_is_plain_and_whole(new: FakeCluster) -> None:
    with fg.Discoverer(new.bootstrap, interval=HOUR) as features:
        gate = features.gate("txn", NEW_TXN)
        assert gate.wait(BOUND)
        health = json.loads(json.dumps(features.health()))
    varies = {"epoch", "epoch_advancing", "age_seconds", "polls"}
    assert varies <= health.keys()
    assert {key: value for key, value in health.items() if key not in varies} == {
        "status": "ok",
        "reasons": [],
        "cluster_id": new.cluster_id,
        "brokers_known": 3,
        "brokers_answered": 3,
        "failures": 0,
        "last_error": None,
        "polling": True,
        "gates": {"txn": True},
        "waits": {},
        "states": {"txn": "open"},
        "usage": None,
    }


# ---------------------------------------------------------------------- life and death


def test_invariant_8_closing_twice_is_closing_once(
    new: FakeCluster, poll_threads: Callable[[], list[threading.Thread]]
) -> None:
    features = fg.Discoverer(new.bootstrap, interval=HOUR).start()
    (polling,) = poll_threads()
    gate = features.gate("txn", NEW_TXN)
    assert gate.wait(BOUND)
    features.close()
    features.close()
    assert not polling.is_alive()
    assert gate.open
    assert features.view is not None
    assert features.health()["status"] == "closed"


def test_invariant_8_what_is_closed_stays_closed(
    new: FakeCluster, poll_threads: Callable[[], list[threading.Thread]]
) -> None:
    """Neither starting, nor asking, nor waiting brings it back."""
    features = fg.Discoverer(new.bootstrap, interval=HOUR)
    features.close()
    for use in (features.start, lambda: features.refresh(1), lambda: features.wait(1)):
        with pytest.raises(ClosedError):
            use()
    assert not features.gate("txn", NEW_TXN).open
    assert poll_threads() == []


def test_invariant_8_closing_wakes_who_waits(new: FakeCluster) -> None:
    """The decision cannot change any more."""
    features = fg.Discoverer(new.bootstrap, interval=HOUR).start()
    gate = features.gate("never", "Fetch>=30000")
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            gate.wait(HOUR)
        except ClosedError as error:
            caught.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    features.close()
    waiter.join(BOUND)
    assert len(caught) == 1


def test_invariant_8_a_forgotten_discoverer_dies(
    new: FakeCluster, poll_threads: Callable[[], list[threading.Thread]]
) -> None:
    """Its thread ends, also where a callback holds it in a circle."""
    features = fg.Discoverer(new.bootstrap, interval=HOUR).start()
    features.on_change(Circle(features))
    features.refresh(BOUND)
    (thread,) = poll_threads()
    gone = weakref.ref(features)
    del features

    eventually(lambda: is_collected(gone), "the discoverer lives on")
    thread.join(BOUND)
    assert not thread.is_alive()


def test_a_gate_that_is_held_keeps_its_discoverer(
    new: FakeCluster, poll_threads: Callable[[], list[threading.Thread]]
) -> None:
    """An app that keeps only the gate wants it to open; the two, which reference each other, end together."""
    gate = fg.Discoverer(new.bootstrap, interval=0.05).gate("tv2", fg.Feature("share.version") >= 2)
    gc.collect()
    assert not gate.wait(0.01)
    new.finalize({"share.version": 2})
    assert gate.wait(BOUND)
    (thread,) = poll_threads()
    gone = weakref.ref(gate)
    del gate
    eventually(lambda: is_collected(gone), "the gate lives on")
    thread.join(BOUND)
    assert not thread.is_alive()


def test_invariant_8_a_discoverer_does_not_travel(new: FakeCluster) -> None:
    """The error says to send the View instead."""
    features = fg.Discoverer(new.bootstrap)
    with pytest.raises(NotPicklable, match="send the View instead"):
        pickle.dumps(features)
    view = fg.discover(new.bootstrap)
    assert pickle.loads(pickle.dumps(view)) == view


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_invariant_8_a_forked_child_starts_again_at_its_first_check(new: FakeCluster) -> None:
    """No thread survives a fork. The child's own poll loop sees what was finalized after the fork."""
    with fg.Discoverer(new.bootstrap, interval=0.05) as features:
        gate = features.gate("share2", fg.Feature("share.version") >= 2)
        open_already = features.gate("txn", NEW_TXN)
        assert open_already.wait(BOUND)
        told_r, told_w = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                before = [thread.name for thread in threading.enumerate()]
                latched = open_already.open  # what was open stays open, and this check starts the loop
                os.write(told_w, b"x")
                opened = gate.wait(BOUND)
                code = 0 if latched and opened and "featuregate-poll" not in before else 2
            finally:
                os._exit(code)
        os.close(told_w)
        assert os.read(told_r, 1) == b"x"
        os.close(told_r)
        new.finalize({"share.version": 2})
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0


def test_a_poll_that_was_cut_off_is_not_waited_for(new: FakeCluster) -> None:
    """As a fork in the middle of a poll cuts it off: refresh() waits for the poll that it asked for, and no more."""
    features = fg.Discoverer(new.bootstrap, interval=HOUR)
    features._poller.state.started = 1
    with features:
        assert features.refresh(BOUND).cluster_id == new.cluster_id
        assert features.refresh(BOUND).cluster_id == new.cluster_id


def test_invariant_8_a_signal_handler_may_close_it_at_any_time(
    new: FakeCluster, poll_threads: Callable[[], list[threading.Thread]]
) -> None:
    """Handlers run in the main thread, which may be inside start() just then: no dead-lock, and no thread left."""
    features = fg.Discoverer(new.bootstrap, interval=HOUR)

    def start() -> None:
        def interrupt(frame: FrameType, event: str, _arg: object) -> None:
            if event == "return" and frame.f_code is Worker.in_thread.__func__.__code__:
                sys.setprofile(None)
                features.close()

        sys.setprofile(interrupt)
        try:
            with suppress(ClosedError):
                features.start()
        finally:
            sys.setprofile(None)

    starter = threading.Thread(target=start, daemon=True)
    starter.start()
    starter.join(BOUND)
    assert not starter.is_alive()
    assert poll_threads() == []


# ---------------------------------------------------------------------- as a task


async def test_it_polls_as_a_task_of_the_callers_loop(
    new: FakeCluster, poll_threads: Callable[[], list[threading.Thread]]
) -> None:
    """No thread is started; callbacks run in the loop."""
    heard: list[threading.Thread] = []
    async with fg.Discoverer(new.bootstrap, interval=HOUR) as features:
        features.on_change(lambda _change: heard.append(threading.current_thread()))
        gate = features.gate("txn", NEW_TXN)
        assert await asyncio.to_thread(gate.wait, BOUND)
        assert await asyncio.to_thread(features.refresh, BOUND) is features.view
        assert poll_threads() == []
        assert heard == [threading.current_thread()]
    assert features.health()["status"] == "closed"
    assert not features.health()["polling"]


@pytest.mark.parametrize("wait", [lambda f, _: f.wait(1), lambda f, _: f.refresh(1), lambda _, gate: gate.wait(1)])
async def test_waiting_in_the_loop_that_polls_is_refused(
    new: FakeCluster, wait: Callable[[fg.Discoverer, fg.Gate], object]
) -> None:
    """It would wait for itself: also in the first line, before the task that polls has run."""
    async with fg.Discoverer(new.bootstrap, interval=HOUR) as features:
        with pytest.raises(RuntimeError, match="to_thread"):
            wait(features, features.gate("txn", NEW_TXN))
        assert await asyncio.to_thread(features.wait, BOUND)
        with pytest.raises(RuntimeError, match="to_thread"):
            wait(features, features.gate("txn", NEW_TXN))


def test_invariant_8_a_callback_cannot_wait_for_the_poll_it_runs_in(new: FakeCluster) -> None:
    """A thread refuses the wait as a task does."""
    caught: list[BaseException] = []

    def callback(_change: Changed) -> None:
        try:
            features.refresh(1)
        except RuntimeError as error:
            caught.append(error)

    features = fg.Discoverer(new.bootstrap, interval=HOUR)
    features.on_change(callback)
    with features:
        features.refresh(BOUND)
    assert len(caught) == 1
