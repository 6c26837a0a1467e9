"""The gate of a group: whatever happens in which order, no two members are on two sides."""

import os
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from builders import broker, view
from group_world import TXN, MemoryGroupStore, World
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import carried_out

from featuregate.errors import ClosedError, ConfigError, GateClosed
from featuregate.gating.latches import Policy
from featuregate.testing import StaticFeatures
from featuregate_confluent import GroupGate, GroupLatchState
from featuregate_confluent.latch.group_agreement import GroupLatch, GroupSeen, GroupStep

BOUND = 30.0
LOOKS = st.tuples(st.just("looks"), st.integers(0, 3), st.integers(1, 8))
OTHERS = st.one_of(
    st.just(("start",)),
    *(st.tuples(st.just(step), st.integers(0, 3)) for step in ("join", "list", "leave", "kill", "ready")),
)
BEGIN = (("start",), ("start",), ("join", 0), ("list", 0), ("join", 1), ("list", 1), ("ready", 0), ("ready", 1))
SCHEDULES = st.lists(st.one_of(LOOKS, LOOKS, LOOKS, OTHERS), min_size=10, max_size=40).map(lambda more: [*BEGIN, *more])


def carry_out(schedule: Iterable[tuple[Any, ...]], gate_class: type[GroupGate] = GroupGate) -> World:
    world = World(gate_class)
    try:
        return carried_out(world, schedule)
    finally:
        world.end()


@given(SCHEDULES)
@settings(max_examples=200, deadline=None)
def test_no_two_members_are_on_two_sides(schedule: list[tuple[Any, ...]]) -> None:
    """Members join late, leave, join again and are killed in the middle of a look."""
    carry_out(schedule)


class OpensAtOnce(GroupGate):
    """Opens when every member is ready, and does not wait until each has stopped."""

    def _write(self, key: GroupLatch, seen: GroupSeen, step: GroupStep) -> None:
        super()._write(key, seen, step)
        if step.writes == "stopped":
            self._store.save_group(key, GroupLatchState(opened_at=1.0))


class StateFirst(GroupGate):
    """Reads what members have written before it reads which members there are."""

    def _see(self, key: GroupLatch) -> GroupSeen:
        state = self._store.load_group(key)
        return replace(super()._see(key), state=state)


class EndsItsLook(GroupGate):
    """Takes for true what it has seen before it joined again."""

    def _settle(self, step: GroupStep, joins: int) -> bool:  # noqa: ARG002 - that is the fault
        return super()._settle(step, self._joins)


class NeverJoinsAgain(GroupGate):
    """Does not hear that it has joined again."""

    def joined(self, member: str | None) -> None:
        if self._member is None:
            super().joined(member)


ONE = (("start",), ("start",), ("join", 0), ("list", 0), ("ready", 0))
TWO = (*ONE, ("join", 1), ("list", 1))
AGAIN = (("leave", 1), ("looks", 0, 40), ("join", 1), ("list", 1))
FAULTS = {
    OpensAtOnce: (*TWO, ("ready", 1), ("looks", 0, 7), ("looks", 1, 40)),
    StateFirst: (*ONE, ("join", 1), ("looks", 1, 3), ("looks", 0, 40), ("list", 1), ("looks", 1, 6)),
    EndsItsLook: (*TWO, ("looks", 1, 6), *AGAIN, ("looks", 1, 1)),
    NeverJoinsAgain: (*TWO, ("looks", 1, 30), *AGAIN),
}


@pytest.mark.parametrize(("fault", "schedule"), FAULTS.items(), ids=[fault.__name__ for fault in FAULTS])
def test_without_a_rule_two_members_are_on_two_sides(
    fault: type[GroupGate], schedule: tuple[tuple[Any, ...], ...]
) -> None:
    """Each rule has a schedule that needs it."""
    carry_out(schedule)
    with pytest.raises(AssertionError, match="two members are on two sides"):
        carry_out(schedule, fault)


# ---------------------------------------------------------------- a group of two


@pytest.fixture
def world() -> Iterator[World]:
    world = carried_out(World(), TWO)
    yield world
    world.end()


def look(world: World, times: int = 3) -> None:
    for _ in range(times):
        for process in world:
            if not process.killed:
                process.finish()
                world.check()


def test_a_group_opens_once_every_member_is_ready(world: World) -> None:
    look(world)
    one, other = world
    assert (one.gate.side, other.gate.side, one.gate.open) == ("old", "old", False)
    assert "m2: the gate is closed there" in one.gate.decision.summary
    assert other.gate.health()["why"] == "the gate of this member is closed"
    with pytest.raises(GateClosed, match="members that are not ready: m2"):
        one.gate.require()
    world.ready(1)
    look(world)
    assert (one.gate.side, other.gate.side) == ("new", "new")
    assert (one.stopped_old, other.stopped_old) == (1, 1)
    assert str(one.gate.decision).startswith("open: TxnOffsetCommit>=3")
    assert one.gate.health()["members"] == ["m1", "m2"]
    (state,) = world.store.states.values()
    assert (dict(state.stages), state.opened_at is not None) == ({}, True)


def test_a_member_without_featuregate_keeps_the_group_closed(world: World) -> None:
    world.strangers.add("python-app-7")
    world.ready(1)
    look(world)
    assert "python-app-7: no word of this gate, so it may be an app without featuregate" in str(
        next(iter(world)).gate.decision
    )
    world.strangers.clear()
    look(world)
    assert all(process.gate.open for process in world)


def test_a_member_that_joins_late_follows_the_group(world: World) -> None:
    """Also where its own gate is closed: the group has opened for good."""
    world.ready(1)
    look(world)
    carried_out(world, [("start",), ("join", 2), ("list", 2)])
    look(world, 1)
    late = list(world)[2]
    assert late.gate.open
    assert (
        late.gate.decision.held
        == "open for group billing: every member of the group was ready, and the group has opened"
    )


def test_a_member_that_goes_holds_nothing_up(world: World) -> None:
    """What it has written is forgotten."""
    look(world)
    world.kill(1)
    look(world)
    assert next(iter(world)).gate.open


def test_a_hold_counts_until_the_group_is_about_to_open(world: World) -> None:
    """The gate below is closed by the hold, so this member is not ready."""
    held = list(world)[1]
    world.ready(1)
    held.features.force_closed("eos")
    look(world)
    assert not any(process.gate.open for process in world)


# ---------------------------------------------------------------- one process


class Lone:
    """A group of one, in memory; each part of it may be exchanged."""

    def __init__(self, features: StaticFeatures | None = None, policy: Policy = "sticky", **options: Any) -> None:
        self.features = features or StaticFeatures(view(broker(txn=3)))
        self.store = MemoryGroupStore()
        given: dict[str, Any] = {"group": "g", "store": self.store, "members": lambda: {"a"}, "member": "a"}
        self.gate = GroupGate(self.features, self.features.gate("eos", TXN, policy=policy), **{**given, **options})


def test_the_thread_looks_until_the_group_has_opened() -> None:
    """And ends then; a wait starts it."""
    gate = Lone().gate
    assert gate.wait(float("inf"))
    thread = gate._thread._thread
    assert thread is not None
    thread.join(BOUND)
    assert not thread.is_alive()
    assert gate.pin().open


def test_the_gate_below_wakes_the_thread() -> None:
    """A look follows at once."""
    lone = Lone(interval=3600.0)
    lone.features.show(view(broker(txn=2), cluster_id="d"))
    with lone.gate as gate:
        assert gate.wait_until(lambda: gate.side == "old", BOUND)
        lone.features.show(view(broker(txn=3), cluster_id="d"))
        assert gate.wait(BOUND)


def test_a_gate_that_nobody_keeps_ends_its_thread() -> None:
    """Neither the thread nor the discoverer keeps it."""
    lone = Lone(member=None, interval=3600.0)
    thread, reference = lone.gate.start()._thread._thread, weakref.ref(lone.gate)
    assert thread is not None
    lone.gate = None  # type: ignore[assignment]
    thread.join(BOUND)
    assert not thread.is_alive()
    assert reference() is None


def test_a_closed_gate_waits_for_nothing() -> None:
    """A wait that is under way ends, too."""
    gate = Lone(member=None).gate.start()
    gate.close()
    gate.close()
    with pytest.raises(ClosedError, match="cannot open any more"):
        gate.wait(BOUND)
    with pytest.raises(ClosedError, match="make a new one"):
        gate.start()


@pytest.mark.parametrize("failing", ["members", "stop_old"])
def test_what_fails_moves_nothing_and_is_in_health(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, and the next look goes on."""
    broken = True

    def call() -> Any:
        if broken:
            raise OSError("no route to group")
        return {"members": {"a"}, "stop_old": None}[failing]

    gate = Lone(**{failing: call}).gate
    for _ in range(2):
        gate.look()
    assert (gate.open, gate.side, gate.health()["error"]) == (False, "neither", "no route to group")
    assert caplog.text.count("no route to group") == 1
    broken = False
    gate.look()
    assert (gate.open, gate.health()["error"]) == (True, None)


def test_before_the_first_answer_nothing_is_known() -> None:
    """An agreement belongs to a cluster."""
    gate = Lone(StaticFeatures()).gate
    gate.look()
    assert (gate.side, gate.health()["why"]) == ("neither", "no broker has answered with a cluster id yet")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group": " "}, "must be a name"),
        ({"member": ""}, "must be a name"),
        ({"policy": "live"}, "must be sticky"),  # it may close after the group has opened
    ],
)
def test_an_option_that_cannot_be_used_is_refused(options: dict[str, Any], words: str) -> None:
    """Without names, all would be one."""
    with pytest.raises(ConfigError, match=words):
        Lone(**options)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_no_member() -> None:
    """What was open stays open, and nothing else opens."""
    closed, opened = Lone(member=None).gate, Lone().gate
    opened.look()
    child = os.fork()
    if not child:
        right = opened.open and closed.side == "neither" and "forked child" in closed.health()["why"]
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
