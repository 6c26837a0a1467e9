"""The one mutable box: what it takes in, what it refuses, and who is told."""

import asyncio
import gc
import logging
import re
import sys
import threading
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from builders import broker, deaf, update, view
from memory_latches import MemoryLatchStore

from featuregate.errors import LatchStoreCorrupt, LatchStoreError
from featuregate.gating.decisions import FRESH, Staleness
from featuregate.gating.events import Changed, Event, GateMoved
from featuregate.gating.gates import Gate
from featuregate.gating.latch_store import FileLatchStore, LatchStore
from featuregate.gating.latches import LatchState, Policy
from featuregate.gating.store import KEPT_GATES, Store
from featuregate.requirements import Api, Feature, Requirement
from featuregate.testing import StaticFeatures
from featuregate.view.answers import SupportedRange

BOUND = 20.0
TXN = Api("TxnOffsetCommit") >= 3
TV2 = Feature("transaction.version") >= 2


def make(latch_store: LatchStore | None = None) -> tuple[Store, list[Event]]:
    events: list[Event] = []
    store = Store(latch_store=latch_store, wall=lambda: 7.0)
    store.hooks.hook(events.append)
    return store, events


def add(store: Store, requirement: Requirement = TXN, *, name: str = "eos", policy: Policy = "sticky") -> Gate:
    return store.add_gate(name, lambda: Gate(name, requirement, policy=policy, owner=StaticFeatures()))


def test_a_gate_that_comes_late_is_settled_by_the_view_so_far() -> None:
    store, _ = make()
    update(store, view(broker(txn=3)))
    assert add(store).open


def test_a_wait_needs_a_number_of_seconds() -> None:
    """Not a text, which a configuration may have."""
    store, _ = make()
    assert store.wait_for(lambda: True, 0)
    with pytest.raises(TypeError, match=r"^a timeout is a number of seconds, not '5'$"):
        store.wait_for(lambda: True, "5")  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [float("inf"), 1e10, 10**400])
def test_a_wait_may_be_for_ever(timeout: float) -> None:
    """An app that has nothing else to do says so with a number that no clock reaches."""
    store, _ = make()
    timer = threading.Timer(0.1, lambda: update(store, view(broker(1))))
    timer.start()
    assert store.wait_for(lambda: store.view is not None, timeout)
    timer.join()


def test_invariant_18_a_gate_that_cannot_be_decided_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each poll would fail on it, and so every other gate."""
    store, _ = make()
    with monkeypatch.context() as patched:
        patched.setattr(store.holds, "renew", Mock(side_effect=OverflowError))
        with pytest.raises(OverflowError):
            add(store)
    assert store.gates() == []
    update(store, view(broker(txn=3)))
    assert add(store).open


def test_a_gate_lives_as_long_as_its_store() -> None:
    """An app that keeps no reference gets its events, and health shows the gate."""
    store, events = make()
    add(store)
    gc.collect()
    update(store, view(broker(txn=3)))
    assert [gate.open for gate in store.gates()] == [True]
    assert "eos" in {event.gate for event in events if isinstance(event, GateMoved)}


@pytest.mark.parametrize(
    ("feature", "warns"), [("group.versio", True), ("group.version", False), ("brand.new.thing", False)]
)
def test_a_misspelt_feature_is_warned_of_at_once(
    caplog: pytest.LogCaptureFixture, feature: str, *, warns: bool
) -> None:
    """The gate would stay closed for ever; a new feature that resembles no known one may come with the next release."""
    store, _ = make()
    add(store, Feature(feature) >= 1)
    add(store, Feature(feature) >= 1)  # the same gate, and no second warning
    said = [record.getMessage() for record in caplog.records]
    assert said == ["gate eos: no feature is known as group.versio; did you mean group.version?"] * warns


def test_a_misspelt_feature_is_a_trouble_until_a_broker_lists_it() -> None:
    """A broker of a release that this one does not know may have a feature of such a name."""
    store, _ = make()
    add(store, Feature("group.versio") >= 1)
    said = ["gate eos: no feature is known as group.versio; did you mean group.version?"]
    assert store.troubles() == said
    update(store, view(broker(1)))
    assert store.troubles() == said
    update(store, view(replace(broker(1), supported={"group.versio": SupportedRange(0, 1)})))
    assert store.troubles() == []


def test_gates_without_end_are_not_all_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Names that are made for each request neither fill the memory nor slow the polls down without bound."""
    store, _ = make()
    for number in range(KEPT_GATES + 50):
        add(store, name=f"request-{number}")
    held = add(store, name="held")
    gc.collect()
    assert len(store.gates()) == KEPT_GATES + 1
    assert add(store, name="held") is held
    said = [record.getMessage()[:20] for record in caplog.records if record.name == "featuregate"]
    assert said == ["there are 1000 gates"]


def test_invariant_1_a_lower_epoch_of_the_same_cluster_is_refused() -> None:
    """A stale broker that speaks late changes nothing."""
    store, events = make()
    fresh = view(broker(epoch=10, transaction_version=2))
    update(store, fresh)
    events.clear()
    assert not update(store, view(broker(epoch=9, transaction_version=1)))
    assert store.view is fresh
    assert events == []


def test_invariant_1_a_new_cluster_id_starts_afresh_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Rebuilt under the same addresses: lower epochs are right, and latches of the old one are not held."""
    store, _ = make()
    gate = add(store)
    update(store, view(broker(epoch=10, txn=3)))
    update(store, view(broker(epoch=1, txn=2), cluster_id="d"))
    assert not gate.open
    assert "cluster id changed from c to d" in caplog.text


def test_invariant_2_the_latches_of_a_cluster_are_there_when_it_comes_back() -> None:
    """A bootstrap list that led astray for a while costs nothing."""
    store, _ = make()
    gate = add(store)
    update(store, view(broker(txn=3)))
    update(store, view(broker(txn=2), cluster_id="d"))
    update(store, view(broker(txn=2)))
    assert gate.open


def test_a_gate_that_its_latch_alone_holds_open_is_a_trouble() -> None:
    """The app goes on with what was taken away. An outage is none: what was proved may still be there."""
    store, _ = make()
    add(store, TV2)
    update(store, view(broker(epoch=10, transaction_version=2)))
    assert store.troubles() == []
    update(store, view(broker(epoch=20, transaction_version=1)))
    (trouble,) = store.troubles()
    assert re.search(
        r"held open: finalized level fell to 1 .*: the cluster no longer has what the app relies on", trouble
    )
    update(store, view(broker(epoch=30, transaction_version=2)))
    assert store.troubles() == []


def test_invariant_2_a_sticky_gate_stays_open(caplog: pytest.LogCaptureFixture) -> None:
    """Through a downgrade at a higher epoch: one warning when it is noticed, and none at each poll after."""
    store, _ = make()
    gate = add(store, TV2)
    update(store, view(broker(epoch=10, transaction_version=2)))
    caplog.clear()
    for epoch in (20, 30):
        update(store, view(broker(epoch=epoch, transaction_version=1)))
    assert [record.levelno for record in caplog.records if record.name == "featuregate"] == [logging.WARNING]
    assert gate.open
    assert "fell to 1 at epoch 30" in str(gate.decision)
    assert store.view is not None
    assert store.view.level("transaction.version") == 1  # the view may fall
    assert store.latch_state.levels["transaction.version"] == 2  # what is kept does not


def test_invariant_3_a_deaf_broker_opens_nothing_and_closes_nothing() -> None:
    """What was latched stays, what was closed stays closed."""
    store, _ = make()
    latched, shut = add(store), add(store, Api("TxnOffsetCommit") >= 4, name="more")
    update(store, view(broker(1), broker(2)))
    update(store, view(broker(1, txn=4), deaf(2)))
    assert latched.open
    assert not shut.open


def test_invariant_9_what_is_stale_proves_no_live_gate() -> None:
    """Sticky gates stay, and say that they are held; live ones close with the reason."""
    age = [FRESH]
    events: list[Event] = []
    store = Store(wall=lambda: 7.0, staleness=lambda: age[0])
    store.hooks.hook(events.append)
    live, sticky = add(store, name="live", policy="live"), add(store)
    update(store, view(broker()))
    events.clear()
    age[0] = Staleness(view="no broker has answered for 200 s")
    store.reevaluate()
    assert not live.open
    assert sticky.open
    assert "no broker has answered for 200 s" in str(live.decision)
    assert "no broker has answered for 200 s" in str(sticky.decision.held)
    assert [event.gate for event in events if isinstance(event, GateMoved)] == ["eos", "live"]


@pytest.mark.parametrize("policy", ["sticky", "live"])
@pytest.mark.parametrize(
    ("staleness", "api_opens"), [(Staleness(view="old"), False), (Staleness(levels="old"), True), (FRESH, True)]
)
def test_invariant_9_a_gate_that_is_made_late_goes_by_the_age_of_the_view(
    policy: Policy, staleness: Staleness, *, api_opens: bool
) -> None:
    """What is stale opens no new gate, of either policy, and latches none; old levels concern features alone."""
    age, latch_store = [FRESH], MemoryLatchStore()
    store: Store = Store(latch_store=latch_store, wall=lambda: 7.0, staleness=lambda: age[0])
    update(store, view(broker(txn=3, transaction_version=2)))
    age[0] = staleness
    api, level = add(store, name="api", policy=policy), add(store, TV2, name="level", policy=policy)
    assert (api.open, level.open) == (api_opens, staleness is FRESH)
    latched = {key.gate for key in store.latch_state.gates}
    assert latched == {gate.name for gate in (api, level) if gate.open and policy == "sticky"}
    assert latched <= {key.gate for key in latch_store.load("c").gates}
    if not level.open:
        assert "old" in level.decision.summary


def test_invariant_9_old_levels_close_no_latch_and_open_none() -> None:
    """Not even where brokers answer, and the view before is offered again with a new time."""
    age = [FRESH]
    store: Store = Store(wall=lambda: 7.0, staleness=lambda: age[0])
    live, sticky = add(store, TV2, name="live", policy="live"), add(store, TV2)
    seen = view(broker(epoch=10, transaction_version=2))
    update(store, seen)
    assert live.open
    age[0] = Staleness(levels="no broker reports them")
    update(store, view(broker(epoch=-1), previous=seen))
    assert not live.open
    assert "no broker reports them" in live.decision.summary
    assert sticky.open


def test_a_shelf_that_is_emptied_gets_back_what_a_running_process_holds() -> None:
    """A latch is let go only where no process holds it any more."""
    latch_store = MemoryLatchStore()
    store, _ = make(latch_store)
    gate = add(store)
    update(store, view(broker(txn=3)))
    latch_store.there.clear()
    update(store, view(broker(txn=2)))
    assert gate.open
    assert gate.name in {key.gate for key in latch_store.load("c").gates}


def test_invariant_4_an_epoch_that_moves_is_no_change() -> None:
    """KRaft's epoch rises twice a second on an idle cluster."""
    store, events = make()
    assert update(store, view(broker(epoch=10)))
    events.clear()
    assert not update(store, view(broker(epoch=11)))
    assert events == []
    assert store.view is not None
    assert store.view.epoch == 11


def test_listeners_run_outside_the_lock() -> None:
    store, _ = make()
    done: list[bool] = []

    def listener(_change: Changed) -> None:
        other = threading.Thread(target=store.gates)
        other.start()
        other.join(20)
        done.append(not other.is_alive())

    store.hooks.listen(listener)
    update(store, view(broker()))
    assert done == [True]


def test_a_hook_that_comes_later_gets_each_event_until_it_is_taken_off() -> None:
    """Beside the one that the store was made with."""
    store, events = make()
    later: list[Event] = []
    off = store.hooks.hook(later.append)
    add(store)
    update(store, view(broker()))
    assert later == events != []
    off()
    update(store, view(broker(txn=2)))
    assert len(events) > len(later)


def test_invariant_2_a_gate_opens_only_once_its_latch_is_durable(caplog: pytest.LogCaptureFixture) -> None:
    """An app that switched and crashed must find the gate open again; a full disk keeps it shut, loudly."""
    latch_store = MemoryLatchStore()
    store, _ = make(latch_store)
    gate = add(store)
    latch_store.full = LatchStoreError("/latches", "No space left on device")
    update(store, view(broker(txn=3)))
    update(store, view(broker(txn=3)))
    assert not gate.open
    assert "durable" in str(gate.decision)
    assert store.latches.error == "latches are not durable: /latches: No space left on device"
    assert caplog.text.count("latches are not durable") == 1
    latch_store.full = None
    update(store, view(broker(txn=3)))
    assert gate.open
    assert store.latches.error is None


def test_what_is_unchanged_is_neither_saved_nor_read_again() -> None:
    """One write when something rises; and ``features.gate(...).open``, where it is needed, may run for each message."""
    latch_store = MemoryLatchStore()
    store, _ = make(latch_store)
    gate = add(store)
    for epoch in range(10, 20):
        update(store, view(broker(epoch=epoch, group_version=1)))
    loads = latch_store.loads
    for _ in range(9):
        assert add(store) is gate
    assert gate.open
    assert (latch_store.saves, latch_store.loads) == (1, loads)


def test_what_was_damaged_is_reported_and_gates_start_afresh(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Health goes on saying so for the life of the process."""
    latch_store = FileLatchStore(tmp_path)
    (tmp_path / "c.json").write_text("{")
    store, _ = make(latch_store)
    gate = add(store)
    update(store, view(broker(txn=2)))
    assert not gate.open
    update(store, view(broker(txn=3)))
    assert gate.open
    assert "set aside" in str(store.latches.error)
    said = [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "featuregate"]
    assert said == [(logging.ERROR, store.latches.error)]


def test_a_shelf_that_could_not_be_read_is_read_again() -> None:
    """What it holds is joined in as soon as it can be read."""
    latch_store = MemoryLatchStore()
    before, _ = make(latch_store)
    held = add(before)
    update(before, view(broker(txn=3)))
    assert held.open
    store, _ = make(latch_store)
    gate = add(store)
    latch_store.unreadable = LatchStoreError("/latches", "Permission denied")
    update(store, view(broker(txn=2)))
    assert not gate.open
    latch_store.unreadable = None
    update(store, view(broker(txn=2)))
    assert gate.open


@pytest.mark.parametrize("kept", [False, True])
def test_a_cluster_without_an_id_latches_in_memory_alone(*, kept: bool) -> None:
    """On a latch store two such clusters could not be told apart: nothing opens there, and health says what to do."""
    latch_store = MemoryLatchStore()
    store, _ = make(latch_store if kept else None)
    gate = add(store)
    update(store, view(broker(txn=3), cluster_id=None))
    update(store, view(broker(txn=2), cluster_id=None))
    assert (gate.open, latch_store.saves) == (not kept, 0)
    assert ("name the cluster by cluster_id" in str(store.latches.error)) is kept


def test_damage_found_while_saving_is_reported() -> None:
    """Somebody else broke the file after it was read."""
    latch_store = MemoryLatchStore()
    store, _ = make(latch_store)
    update(store, view(broker(txn=2)))
    gate = add(store)
    latch_store.full = LatchStoreCorrupt("/latches/c.json", "/latches/c.damaged-1", "JSONDecodeError")
    update(store, view(broker(txn=3)))
    assert not gate.open
    assert "set aside" in str(store.latches.error)


def test_invariant_1_the_highest_epoch_of_a_cluster_is_remembered_while_another_one_answers() -> None:
    """A bootstrap list that leads to two clusters in turn must not let a stale broker of one speak for it."""
    store, _ = make()
    update(store, view(broker(epoch=100, transaction_version=1)))
    update(store, view(broker(epoch=1), cluster_id="d"))
    assert not update(store, view(broker(epoch=50, transaction_version=2)))
    assert not add(store, TV2).open


def test_only_so_many_clusters_are_remembered() -> None:
    """Ids come over the network: another one at each poll must not fill the memory."""
    store, _ = make()
    for number in range(20):
        update(store, view(broker(), cluster_id=str(number)))
    assert [store.last(str(number)) is None for number in (0, 15, 16, 19)] == [True, True, False, False]


class Hanging(MemoryLatchStore):
    def __init__(self) -> None:
        super().__init__()
        self.asked, self.back = threading.Event(), threading.Event()

    def save(self, kept: LatchState) -> LatchState:
        self.asked.set()
        assert self.back.wait(BOUND)
        return super().save(kept)


def test_invariant_5_a_shelf_that_hangs_holds_up_only_who_writes() -> None:
    """Health checks, pins, bounded waits and close() go on; the gate opens when the latch store is back."""
    latch_store = Hanging()
    store, _ = make(latch_store)
    gate = add(store)
    writer = threading.Thread(target=update, args=(store, view(broker(txn=3))))
    writer.start()
    assert latch_store.asked.wait(BOUND)
    pinned = threading.Thread(target=store.pin)
    pinned.start()
    pinned.join(BOUND)
    free = not pinned.is_alive()
    seen_meanwhile = store.view
    latch_store.back.set()
    writer.join(BOUND)
    assert free
    assert seen_meanwhile is None
    assert gate.open


def test_listing_gates_takes_no_lock() -> None:
    """A log line that shows a discoverer must not wait for a poll that waits to write a log line."""
    store, _ = make()
    gate = add(store)
    listed: list[Gate] = []
    other = threading.Thread(target=lambda: listed.extend(store.gates()))
    with store.changing():
        other.start()
        other.join(BOUND)
        assert listed == [gate]
    other.join(BOUND)


def test_a_shelf_that_raises_anything_costs_durability_and_not_the_view() -> None:
    """Live gates go on following the cluster; sticky ones stay shut, and health says why."""
    latch_store = MemoryLatchStore()
    latch_store.unreadable = latch_store.full = ZeroDivisionError()
    store, _ = make(latch_store)
    live, sticky = add(store, name="live", policy="live"), add(store)
    update(store, view(broker(txn=3)))
    assert live.open
    assert not sticky.open
    update(store, view(broker(txn=2)))
    assert not live.open
    assert "ZeroDivisionError" in str(store.latches.error)


class Forgetful(MemoryLatchStore):
    """A latch store that gives back an older record than it was given, as one that is copied late does."""

    forgets = False

    def save(self, kept: LatchState) -> LatchState:
        saved = super().save(kept)
        return replace(saved, gates={}, levels={}) if self.forgets else saved

    def load(self, cluster_id: str) -> LatchState | None:
        return None if self.forgets else super().load(cluster_id)


def test_invariant_2_a_shelf_that_forgets_closes_nothing() -> None:
    """What was latched in this process stays; what the latch store has not kept does not open."""
    latch_store = Forgetful()
    store, _ = make(latch_store)
    gate = add(store)
    update(store, view(broker(txn=3)))
    latch_store.forgets = True
    late = add(store, Api("TxnOffsetCommit") >= 4, name="late")
    update(store, view(broker(txn=4)))
    update(store, view(broker(txn=2)))
    assert gate.open
    assert not late.open


def test_taking_a_listener_off_twice_leaves_its_other_place() -> None:
    """Two modules may listen with the same function; each takes off its own. It gets both views and what differs."""
    store, _ = make()
    heard: list[Changed] = []
    off = store.hooks.listen(heard.append)
    store.hooks.listen(heard.append)
    off()
    off()
    first, second = view(broker(group_version=1)), view(broker(epoch=11, group_version=2))
    update(store, first)
    update(store, second)
    assert [(change.before, change.after) for change in heard] == [(None, first), (first, second)]
    assert "group.version" in str(heard[1].differences[0])


@pytest.mark.parametrize("error", [StopIteration, SystemExit, asyncio.CancelledError])
def test_a_listener_that_raises_anything_does_not_end_the_poll_loop(error: type[BaseException]) -> None:
    """``sys.exit()`` or the result of a cancelled future, in the thread that polls."""
    store, _ = make()
    ended: list[bool] = []

    def broken(_change: Changed) -> None:
        raise error

    def poll() -> None:
        update(store, view(broker()))
        ended.append(True)

    store.hooks.listen(broken)
    poller = threading.Thread(target=poll)
    poller.start()
    poller.join(BOUND)
    assert ended == [True]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_signal_during_a_hook_reaches_the_app(error: type[BaseException]) -> None:
    """Signal handlers run in the main thread, wherever it is; what they raise is not the hook's."""
    store, _ = make()

    def interrupted(_change: Changed) -> None:
        raise error

    store.hooks.listen(interrupted)
    with pytest.raises(error):
        update(store, view(broker()))


@pytest.fixture
def hasty():
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_gates_may_be_made_and_dropped_while_a_poll_decides_all_of_them() -> None:
    """The poll is that of another thread, which would end with an error."""
    store, _ = make()
    made = threading.Event()

    def make_gates() -> None:
        for number in range(300):
            add(store, name=f"g{number}")
        made.set()

    thread = threading.Thread(target=make_gates)
    thread.start()
    while thread.is_alive():
        store.reevaluate()
    thread.join()
    assert made.is_set()
    assert len(store.gates()) == 300
