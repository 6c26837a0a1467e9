"""What a store says of itself: in its log, in events, in health and before the first answer."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from builders import broker, update, view
from memory_latches import MemoryLatchStore

from featuregate.errors import LatchStoreError
from featuregate.gating.conditions import lacks_configs
from featuregate.gating.decisions import FRESH, Staleness
from featuregate.gating.durable_latches import LatchStart
from featuregate.gating.events import Changed, Event, GateMoved
from featuregate.gating.gates import Gate
from featuregate.gating.holds import NO_HOLDS
from featuregate.gating.latch_store import FileLatchStore
from featuregate.gating.latches import BurnIn, LatchedGate, LatchKey, LatchState, Policy
from featuregate.gating.store import MOST_CONFIGS, Store
from featuregate.requirements import parse
from featuregate.testing import StaticFeatures
from featuregate.view.answers import BrokerConfig

TXN = "TxnOffsetCommit>=3"
OPEN, CLOSED = view(broker(txn=3)), view(broker(txn=2))


def add(store: Store, name: str = "eos", requirement: str = TXN, *, policy: Policy = "sticky") -> Gate:
    wanted = parse(requirement)
    return store.add_gate(name, lambda: Gate(name, wanted, policy=policy, owner=StaticFeatures()))


def messages(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "featuregate"]


def test_before_the_first_gate_nothing_is_held_latched_or_wrong() -> None:
    store = Store(wall=lambda: 7.0)
    assert (store.view, store.last("c"), store.gates(), store.pin()) == (None, None, [], {})
    assert (store.holds.found, store.latch_state, store.troubles()) == (NO_HOLDS, LatchState(), [])
    assert (store.latches.may_block, store.latches.error) == (False, None)
    assert not store.wait_for(lambda: False, 0)
    store.reevaluate()
    assert store.wanted_configs() == frozenset()


def test_a_gate_that_moves_is_an_event_with_its_decision_and_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A live gate that closes is a warning, unless the app closes its discoverer."""
    caplog.set_level(logging.INFO)
    events: list[Event] = []
    store = Store(wall=lambda: 7.0)
    store.hooks.hook(events.append)
    gate, other = add(store, policy="live"), add(store, "more", "TxnOffsetCommit>=4", policy="live")
    decisions = []
    for seen in (OPEN, CLOSED, OPEN):
        for _ in range(2):  # the second moves nothing
            update(store, seen)
        decisions.append(gate.decision)
    moved = [event for event in events if isinstance(event, GateMoved) and event.gate == "eos"]
    assert moved == [GateMoved(gate="eos", open=each.open, decision=each) for each in decisions]
    broken = "closed: TxnOffsetCommit>=3: broker 1 (b1:9092) serves TxnOffsetCommit 0..2"
    assert [line for line in messages(caplog) if "gate eos" in line[1]] == [
        (logging.INFO, f"gate eos: open: {TXN}"),
        (logging.WARNING, f"gate eos: {broken}"),
        (logging.INFO, f"gate eos: open: {TXN}"),
    ]
    assert messages(caplog)[1][1].startswith("gate more: closed: ")
    assert not other.open


def test_closing_closes_live_gates_alone_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """What was latched can still be relied on."""
    caplog.set_level(logging.INFO)
    age, events = [FRESH], list[Event]()
    store = Store(wall=lambda: 7.0, staleness=lambda: age[0])
    store.hooks.hook(events.append)
    live, sticky = add(store, "live", policy="live"), add(store)
    update(store, OPEN)
    caplog.clear()
    events.clear()
    age[0] = Staleness(view="closed")
    store.close()
    assert (live.open, sticky.open, sticky.decision.held) == (False, True, None)
    assert messages(caplog) == [(logging.INFO, "gate live: unknown: the view is fresh: closed")]
    assert events == [GateMoved(gate="live", open=False, decision=live.decision)]


def test_a_latch_store_that_fails_is_logged_once_for_each_error(caplog: pytest.LogCaptureFixture) -> None:
    """Health says what is wrong now."""
    latch_store = MemoryLatchStore()
    store = Store(wall=lambda: 7.0, latch_store=latch_store)
    add(store)
    for error in (full := LatchStoreError("/latches", "full"), full, OSError("gone")):
        latch_store.full = error
        update(store, OPEN)
    failures = "/latches: full", "the latch store failed: OSError('gone')"
    said = [f"latches are not durable: {each}" for each in failures]
    assert messages(caplog) == [(logging.ERROR, each) for each in said]
    assert store.troubles() == [store.latches.error] == [said[1]]
    update(store, view(broker(), cluster_id=None))
    assert f"{latch_store!r}: the cluster reports no id, and a latch belongs to a cluster: name" in str(
        store.latches.error
    )


class Counted(FileLatchStore):
    loads = notes = 0

    def load(self, cluster_id: str) -> LatchState | None:
        self.loads += 1
        return super().load(cluster_id)

    def note_cluster(self, source: str, cluster_id: str) -> None:
        self.notes += 1
        super().note_cluster(source, cluster_id)


def test_the_cluster_of_a_source_is_noted_when_it_becomes_another(tmp_path: Path) -> None:
    """Not at each poll; and the latches of a start are read once, however many gates there are."""
    latch_store = Counted(tmp_path)
    start = LatchStart(cluster_id="c", source="b1:9092")
    store = Store(wall=lambda: 7.0, latch_store=latch_store, start=start)
    add(store)
    add(store, "other")
    assert latch_store.loads == 1
    for cluster_id in ("c", "c", "d", "d"):
        update(store, view(broker(), cluster_id=cluster_id))
    assert (latch_store.notes, latch_store.last_cluster("b1:9092")) == (2, "d")


def test_a_start_without_gates_reads_the_latches_once() -> None:
    latch_store = MemoryLatchStore()
    update(Store(wall=lambda: 7.0, latch_store=latch_store, start=LatchStart(cluster_id="c")), OPEN)
    assert latch_store.loads == 1


def test_a_hook_that_fails_is_named_with_the_event(caplog: pytest.LogCaptureFixture) -> None:
    class Unnamed:
        def __call__(self, _: Event) -> None:
            raise RuntimeError

        def __repr__(self) -> str:
            return "a metrics library"

    def broken(_: Changed) -> None:
        raise RuntimeError

    store = Store(wall=lambda: 7.0)
    store.hooks.hook(Unnamed())
    store.hooks.listen(broken)
    heard: list[Changed] = []
    store.hooks.listen(heard.append)
    update(store, OPEN)
    assert len(heard) == 1
    assert [text.rpartition("<locals>.")[2] for _, text in messages(caplog)] == [
        "hook a metrics library failed on Changed",
        "broken failed on Changed",
    ]


@pytest.mark.parametrize("register", [lambda store: store.hooks.hook, lambda store: store.hooks.listen])
def test_what_is_no_function_is_no_hook(register: Callable[[Store], Callable[[object], object]]) -> None:
    """It would fail at each poll."""
    with pytest.raises(TypeError, match=r"^a function is called with events, not 5$"):
        register(Store(wall=lambda: 7.0))(5)


def test_gates_that_are_latched_elsewhere_are_latched_at_the_epoch_of_the_view() -> None:
    """Where they are latched here already, the time of that stays."""
    now = [7.0]
    store = Store(wall=lambda: now[0])
    key = LatchKey("eos", TXN)
    gate = add(store)
    for epoch in (10, 20):
        store.commit(view(broker(epoch=epoch, txn=2)), latched=[key])
        now[0] = 8.0
    assert [(one.opened_at, one.epoch) for one in store.latch_state.gates.values()] == [(7.0, 10)]
    assert gate.open


def test_brokers_are_asked_for_the_configs_of_gates_and_of_some_questions() -> None:
    """An app that asks for a config of each request does not make the list longer without end."""
    store = Store(wall=lambda: 7.0)
    add(store, "gate", "config:a has x")
    wanted = parse("config:b has x")
    assert not lacks_configs(store.view, wanted)
    store.evaluate(wanted)
    assert store.wanted_configs() == {"a", "b"}
    update(store, OPEN)
    assert lacks_configs(store.view, wanted)
    assert not lacks_configs(store.view, parse(TXN))
    update(store, view(replace(broker(), configs={"b": BrokerConfig("x")})))
    assert not lacks_configs(store.view, wanted)
    assert lacks_configs(store.view, wanted & parse("config:a has x"))
    for number in range(2 * MOST_CONFIGS):
        store.evaluate(parse(f"config:c{number} has x"))
    assert len(store.wanted_configs()) == MOST_CONFIGS + 1


def test_invariant_18_what_a_latch_store_leaves_out_is_a_trouble_and_stops_no_gate() -> None:
    """A latch may be among it, of a gate that is closed now."""
    latches = MemoryLatchStore()
    latches.unread = "the record k is damaged"
    store = Store(wall=lambda: 7.0, latch_store=latches)
    gate = add(store)
    update(store, OPEN)
    assert gate.open
    assert store.troubles() == ["the record k is damaged"]
    latches.unread = None
    assert store.troubles() == []


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1e308, 253_402_300_800.0])
def test_no_latch_has_a_time_that_cannot_be_shown(at: float) -> None:
    """Whichever store an app brings: the poll fails there, and not in each decision of each gate."""
    with pytest.raises(ValueError, match="opened_at is not a time"):
        LatchedGate(gate="a", requirement="b", opened_at=at, epoch=1)
    for changed in ({"since": at}, {"seconds": at}, {"attempt": 0}):
        given = {"gate": "a", "requirement": "b", "attempt": 1, "seconds": 1.0, "since": None, **changed}
        with pytest.raises(ValueError, match=f"{next(iter(changed))} is not"):
            BurnIn(**given)
