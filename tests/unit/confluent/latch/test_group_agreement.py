"""What a member of a group does next, whole: its side, what it writes, and what it says to people."""

from dataclasses import replace

import pytest

from featuregate.gating.decisions import Decision, Reason
from featuregate_confluent.latch.group_agreement import (
    GroupLatchState,
    GroupSeen,
    GroupStep,
    Side,
    Stage,
    decide,
    group_decision,
)

ALONE = "this process is not among the members of the group"
OPENED = "every member of the group was ready, and the group has opened"
STOPPED, READY, WAITS = "stopped", "ready", "waits"


def seen(*, ready: bool = True, member: str | None = "a", opened_at: float | None = None, **stages: Stage) -> GroupSeen:
    state = GroupLatchState(stages, opened_at)
    return GroupSeen(member=member, members=frozenset({"a", "b", "c"}), state=state, ready=ready)


STEPS = {
    "the group has opened": (seen(member=None, opened_at=0.0), GroupStep(side="new", why=OPENED)),
    "in no group": (seen(member=None, b=STOPPED), GroupStep(side="neither", why=ALONE)),
    "not listed yet": (seen(member="d", d=STOPPED), GroupStep(side="neither", why=ALONE)),
    "one that is gone has stopped": (
        seen(d=STOPPED, a=READY, b=READY, c=READY),
        GroupStep(side="neither", why="every member is ready", writes="stopped"),
    ),
    "the gate is closed": (
        seen(ready=False, b=READY, c=READY),
        GroupStep(side="old", why="the gate of this member is closed", writes="waits"),
    ),
    "the gate is closed, which is written": (
        seen(ready=False, a=WAITS, b=READY, c=READY),
        GroupStep(side="old", why="the gate of this member is closed"),
    ),
    "the others are not ready": (
        seen(c=WAITS),
        GroupStep(
            side="old",
            why="members that are not ready: c: the gate is closed there; b: no word of this gate, so it may be an app "
            "without featuregate or without the gate",
            writes="ready",
        ),
    ),
    "the others have closed gates": (
        seen(a=READY, b=WAITS, c=WAITS),
        GroupStep(side="old", why="members that are not ready: b, c: the gate is closed there"),
    ),
    "the others are silent": (
        seen(a=WAITS),
        GroupStep(
            side="old",
            why="members that are not ready: b, c: no word of this gate, so it may be an app without featuregate or "
            "without the gate",
            writes="ready",
        ),
    ),
    "another one has stopped": (
        seen(ready=False, a=READY, b=STOPPED, c=READY),
        GroupStep(side="neither", why="the group is about to open", writes="stopped"),
    ),
    "this one has stopped": (
        seen(a=STOPPED, c=READY),
        GroupStep(side="neither", why="the group is about to open, and waits for b, c"),
    ),
    "each has stopped": (seen(a=STOPPED, b=STOPPED, c=STOPPED), GroupStep(side="new", why=OPENED, opens=True)),
}


@pytest.mark.parametrize(("given", "step"), STEPS.values(), ids=STEPS)
def test_each_state_has_one_step(given: GroupSeen, step: GroupStep) -> None:
    """And one sentence, which names the members that are waited for."""
    assert decide(given) == step


def test_a_member_without_a_newer_stage_keeps_its_own() -> None:
    """Records of one agreement are joined member by member."""
    one, other = GroupLatchState({"a": READY, "b": WAITS}, 2.0), GroupLatchState({"b": STOPPED, "c": WAITS}, 1.0)
    assert one.join(other) == GroupLatchState({"a": READY, "b": STOPPED, "c": WAITS}, 1.0)


OWN = Reason("TxnOffsetCommit>=3", None, None, "open", "all brokers")
OPEN = Decision(verdict="open", requirement="TxnOffsetCommit>=3", reasons=(OWN,), cluster_id="c", epoch=1)
GROUP_TEXT = "group billing: each has stopped"


@pytest.mark.parametrize("side", ["old", "neither"])
def test_the_decision_is_closed_before_the_group_has_opened(side: Side) -> None:
    """The first reason is that of the group."""
    decision = group_decision(replace(OPEN, held="latched"), "billing", side, "each has stopped")
    assert (decision.verdict, decision.held, decision.open) == ("closed", None, False)
    assert decision.reasons == (Reason("group", None, None, "closed", GROUP_TEXT), OWN)


def test_the_decision_is_open_once_the_group_has_opened() -> None:
    """The gate of the member itself may be closed then: a group never goes back."""
    decision = group_decision(OPEN, "billing", "new", "each has stopped")
    assert decision.reasons == (OWN, Reason("group", None, None, "open", GROUP_TEXT))
    assert decision.open
    closed = replace(OPEN, verdict="closed")
    assert group_decision(closed, "billing", "new", "each has stopped").held == f"open for {GROUP_TEXT}"
