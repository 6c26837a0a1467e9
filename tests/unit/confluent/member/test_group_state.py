"""Where a member stands, as far as no group has to be asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from featuregate.requirements import presets
from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent.client.group import GroupReader
from featuregate_confluent.errors import ModelRefused
from featuregate_confluent.latch.models import Model, PinnedModel
from featuregate_confluent.latch.protocol import Member
from featuregate_confluent.member.group_state import GroupState

if TYPE_CHECKING:
    from collections.abc import Iterator

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "group.id": "billing"}
OURS = (Member(member_id="1", client_id="billing#fg=bridge", instance_id=None, host="/127.0.0.1"),)


@pytest.fixture
def reader() -> Iterator[GroupReader]:
    made = GroupReader(NOWHERE, "billing")
    yield made
    made.close()


def group_state(reader: GroupReader, features: StaticFeatures, pinned: PinnedModel = None) -> GroupState:
    gate = features.gate("kip447", presets.kip447)
    return GroupState(
        pinned=pinned,
        gate=gate,
        reader=reader,
        latch_topic=None,
        topics=["orders"],
        emit=lambda _event: None,
        every=1.0,
    )


def test_nobody_moves_up_while_a_broker_is_seen_that_is_too_old(reader: GroupReader) -> None:
    """The gate stays open, for it is sticky; but the first commit in v2 would be one that a zombie's follows."""
    features = StaticFeatures(release_view("4.2", "4.2"))
    member, pinned = group_state(reader, features), group_state(reader, features, Model.V2)
    member._choose(3, members=OURS)
    assert member.model is Model.V2
    features.show(release_view("4.2", "2.4"))
    assert member._gate.open
    member._choose(3, members=OURS)
    assert member.model is Model.LEGACY, "it had not committed in v2"
    with pytest.raises(ModelRefused, match=r"broker-2:9092.* serves TxnOffsetCommit 0..2"):
        pinned._choose(3, members=OURS)


def test_who_has_committed_in_v2_stays_there_whatever_is_seen_later(reader: GroupReader) -> None:
    """The latch is the group's, and outlives what a broker shows."""
    features = StaticFeatures(release_view("4.2", "4.2"))
    member = group_state(reader, features)
    member._choose(3, members=OURS)
    member.committed(Model.V2, 3)
    features.show(release_view("4.2", "2.4"))
    member._choose(4, members=None)
    assert (member.model, member.first_v2_generation) == (Model.V2, None)
