"""Plans: the judgement, the gates that open and close, and the gates that are affected."""

import pytest

from featuregate.admin.plans import latched_in, plan
from featuregate.admin.updates import Update, disable, downgrade, upgrade
from featuregate.errors import InvalidUpdate
from featuregate.gating.latches import LatchedGate, LatchKey, LatchState
from featuregate.testing import release_view

VIEW = release_view("4.2.0", "4.2.0", epoch=50)


def test_a_latch_of_a_file_is_read_as_it_was_written() -> None:
    """Two latches with one gate name and two requirements stay two."""
    keys = [LatchKey("g", "group.version>=1"), LatchKey("g", "transaction.version>=2")]
    gates = {key: LatchedGate(gate=key.gate, requirement=key.requirement, opened_at=1.0, epoch=5) for key in keys}
    found = latched_in(LatchState(cluster_id="c", gates=gates))
    assert {name: str(requirement) for name, requirement in found.items()} == {
        "g": "group.version>=1",
        "g (transaction.version>=2)": "transaction.version>=2",
    }


@pytest.mark.parametrize(
    ("updates", "stays"),
    [
        (disable("transaction.version"), ["transaction.version=2"]),
        (downgrade({"transaction.version": 1}), ["transaction.version=2"]),
        (
            (*disable("group.version"), *downgrade({"transaction.version": 1})),
            ["group.version=1", "transaction.version=2"],
        ),
        ((*downgrade({"metadata.version": 28}), *disable("group.version")), ["group.version=1", "metadata.version=29"]),
        (downgrade({"metadata.version": 28}), ["metadata.version=29"]),
        (upgrade({"share.version": 1}), []),
        ((*downgrade({"metadata.version": 7}), *disable("group.version")), []),
        ((*upgrade({"metadata.version": 30}), *disable("group.version")), ["group.version=1"]),
        (disable("bogus.version"), []),
        (disable("share.version"), []),
    ],
)
def test_a_lowered_level_stays_in_the_metadata_log(updates: tuple[Update, ...], stays: list[str]) -> None:
    """Until a snapshot, which no change of a level writes. Where one update is refused, nothing is lowered."""
    finalized = {"metadata.version": 29, "group.version": 1, "transaction.version": 2}
    made = plan(release_view("4.3", epoch=50, finalized=finalized), updates)
    notes = [note for note in made.in_log if "may have been" not in note]
    assert [note.partition(" ")[0] for note in notes] == stays
    assert all("wait until every node has written a snapshot" in note for note in notes)


def test_a_plan_needs_updates_and_one_cluster() -> None:
    with pytest.raises(InvalidUpdate):
        plan(VIEW, ())
    with pytest.raises(ValueError, match=r"^a plan needs the view of brokers, or that of controllers$"):
        plan(None, upgrade({"a": 1}))
    other = release_view("4.2.0", cluster_id="another")
    with pytest.raises(ValueError, match=rf"^these are views of two clusters: {VIEW.cluster_id} and another$"):
        plan(VIEW, upgrade({"a": 1}), controllers=other)
