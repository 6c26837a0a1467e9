"""The law of latch stores, as a check for those who write their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Final

from featuregate.gating.latches import BurnIn, LatchedGate, LatchState, join

if TYPE_CHECKING:
    from featuregate.gating.latch_store import LatchStore

CLUSTER: Final = "law-of-latch-stores"
_REQUIREMENT: Final = "group.version>=1"


def check_latch_store(make: Callable[[], LatchStore]) -> None:
    """Check that a latch store keeps its law: what is saved is joined with what is there, and is never lost.

    - The order in which states are saved makes no difference, and saving twice is saving once.
    - ``save`` returns at least what was saved and what was there, and a later ``load``, also by another object that
      ``make`` returns, returns the same.
    - Clusters do not mix, and a cluster that was never saved has no state.

    Raises `AssertionError`: the law is broken; the error says how.

    Parameters
    ----------
    make
        Returns a new object for one and the same empty place, such as a folder: as a process does that starts.
    """
    states = _states()
    for number, order in enumerate(permutations(states)):
        cluster_id = f"{CLUSTER}-{number}"
        there = LatchState(cluster_id=cluster_id)
        _require(make().load(cluster_id) in (None, there), "a cluster that was never saved has a state")
        for state in order:
            saved = replace(state, cluster_id=cluster_id)
            there = join(there, saved)
            returned = make().save(saved)
            _require(join(returned, there) == returned, f"save() returned {returned}, which is less than {there}")
            _require(make().save(saved) == returned, "saving the same state twice changed something")
            _require(make().load(cluster_id) == there, f"load() did not return {there}")
    _require(make().load(CLUSTER) in (None, LatchState(cluster_id=CLUSTER)), "clusters mix")


def _states() -> list[LatchState]:
    """Return states that overlap: other levels, another time of one opening, a later and a longer attempt."""
    key = {"gate": "eos", "requirement": _REQUIREMENT}
    early = LatchedGate(gate="eos", requirement=_REQUIREMENT, opened_at=1.0, epoch=5)
    late = LatchedGate(gate="eos", requirement=_REQUIREMENT, opened_at=2.0, epoch=7)
    other = LatchedGate(gate="a|b %\u00e9", requirement=_REQUIREMENT, opened_at=3.0, epoch=-1)
    counts = [
        BurnIn(**key, attempt=1, seconds=9.5, since=1.0),
        BurnIn(**key, attempt=2, seconds=0.0, since=None),
        BurnIn(**key, attempt=2, seconds=4.25, since=2.0),
    ]
    return [
        LatchState(levels={"group.version": 1}, gates={late.key: late}, burn_ins={counts[0].key: counts[0]}),
        LatchState(levels={"group.version": 2}, gates={early.key: early}, burn_ins={counts[1].key: counts[1]}),
        LatchState(levels={"share.version": 1}, gates={other.key: other}, burn_ins={counts[2].key: counts[2]}),
    ]


def _require(holds: bool, problem: str) -> None:  # noqa: FBT001 - as an assert
    if not holds:
        raise AssertionError(problem)
