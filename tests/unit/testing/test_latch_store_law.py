"""The check of latch stores: those of featuregate pass, and each way to lose a latch fails."""

from dataclasses import replace
from pathlib import Path

import pytest

from featuregate.gating.latch_store import FileLatchStore
from featuregate.gating.latches import LatchState, join
from featuregate.testing import check_latch_store


class Broken:
    """A latch store in memory that loses something."""

    def __init__(self, loses: str, there: dict[str, LatchState]) -> None:
        self.loses, self.there = loses, there

    def load(self, cluster_id: str) -> LatchState | None:
        if self.loses == "cluster":
            return next((replace(each, cluster_id=cluster_id) for each in self.there.values()), None)
        found = self.there.get(cluster_id)
        return replace(found, burn_ins={}) if found and self.loses == "burn-ins" else found

    def save(self, state: LatchState) -> LatchState:
        assert state.cluster_id is not None
        before = self.there.get(state.cluster_id, LatchState(cluster_id=state.cluster_id))
        joined = state if self.loses == "before" else join(before, state)
        self.there[state.cluster_id] = joined
        return state if self.loses == "answer" else joined


def test_a_folder_keeps_the_law(tmp_path: Path) -> None:
    """Each object is a process that starts."""
    check_latch_store(lambda: FileLatchStore(tmp_path))


@pytest.mark.parametrize("loses", ["before", "answer", "burn-ins", "cluster"])
def test_a_latch_store_that_loses_something_fails(loses: str) -> None:
    there: dict[str, LatchState] = {}
    with pytest.raises(AssertionError, match=r"save\(\)|load\(\)|never saved|mix"):
        check_latch_store(lambda: Broken(loses, there))


def test_a_latch_store_that_loses_nothing_passes() -> None:
    """The failures above are of what is lost."""
    there: dict[str, LatchState] = {}
    check_latch_store(lambda: Broken("nothing", there))
