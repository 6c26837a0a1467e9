"""How a member takes over its partitions, with a fake group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from featuregate.requirements import presets
from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent import Model, MustRejoin, SwitchFatal
from featuregate_confluent.client.pending import GroupUnreadable
from featuregate_confluent.errors import LatchTopicUnreadable
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.member.group_observer import GroupObserver
from featuregate_confluent.member.positions import next_offsets
from featuregate_confluent.member.state import MemberState
from featuregate_confluent.member.takeover import Takeover

if TYPE_CHECKING:
    from collections.abc import Collection

    from featuregate_confluent.latch.protocol import Partition

A, B = ("orders", 0), ("orders", 1)


class Group:
    """A group that answers what it has committed, from outside and, once that is stable, to a member."""

    def __init__(self, marks: dict[Partition, str], stable: dict[Partition, str] | None = None) -> None:
        self.marks = marks
        self.stable = marks if stable is None else stable
        self.refuses: Exception | None = None
        self.calls: list[str] = []

    # ---- as the reader of the group

    def input_partitions(self, _topics: object, _timeout: float) -> tuple[Partition, ...]:
        if self.refuses is not None:
            raise self.refuses
        return tuple(self.marks)

    def offsets(self, partitions: Collection[Partition], _timeout: float) -> dict[Partition, tuple[int | None, Mark]]:
        return {key: (5, Mark(model(self.marks[key]))) for key in partitions}

    # ---- as the consumer

    def committed(self, wanted: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout > 0
        self.calls.append(f"read {[each.partition for each in wanted]}")
        return [
            TopicPartition(each.topic, each.partition, 5, self.stable[each.topic, each.partition]) for each in wanted
        ]

    def seek(self, place: TopicPartition) -> None:
        self.calls.append(f"seek {place.partition}")

    # ---- as the producers

    def open(self, partitions: Collection[Partition]) -> None:
        self._call("open", partitions)

    def fence(self, partitions: Collection[Partition]) -> None:
        self._call("fence", partitions)

    def close_for(self, partitions: Collection[Partition]) -> None:
        self._call("close", partitions)

    def open_for_process(self) -> None:
        self.calls.append("open for process")

    def __contains__(self, _partition: object) -> bool:
        return True

    def _call(self, name: str, partitions: Collection[Partition]) -> None:
        if partitions:
            self.calls.append(f"{name} {[number for _, number in partitions]}")


def model(mark: str) -> Model | None:
    return next((each for each in Model if mark.endswith(each.label)), None)


LEGACY, V2, NOTHING = "fg1;model=legacy", "fg1;model=v2", ""


class Member:
    """A member before its first assignment."""

    def __init__(self, group: Group, release: str = "2.4", latch_topic: Any = None) -> None:
        self.events: list[Any] = []
        features = StaticFeatures(release_view(release))
        self.state = MemberState()
        observer = GroupObserver(
            self.state,
            pinned=None,
            gate=features.gate("kip447", presets.kip447),
            reader=group,  # type: ignore[arg-type]
            latch_topic=latch_topic,
            topics=["orders"],
            emit=self.events.append,
            every=1.0,
        )
        self.takeover = Takeover(
            self.state,
            producers=group,  # type: ignore[arg-type]
            observer=observer,
            emit=self.events.append,
            transaction_seconds=1.0,
        )


def test_ids_are_taken_before_offsets_are_read() -> None:
    """R8: the previous owner of an id can commit nothing after the offset was read."""
    group = Group({A: NOTHING, B: LEGACY})
    member = Member(group)
    member.takeover.take(group, [A, B], 3)  # type: ignore[arg-type]
    assert group.calls == ["open [0, 1]", "read [0, 1]"]
    assert (member.state.group.model, member.state.group.generation) == (Model.LEGACY, 3)
    assert next_offsets(member.state.partitions) == {A: 5, B: 5}


def test_in_v2_only_ids_that_no_commit_in_v2_has_marked_are_fenced() -> None:
    """R6: a producer of the old kind may still have a transaction open there."""
    group = Group({A: LEGACY, B: V2})
    member = Member(group, "4.2")
    member.takeover.take(group, [A, B], 3)  # type: ignore[arg-type]
    assert group.calls == ["fence [0]", "open for process", "read [0, 1]"]
    assert member.state.group.model is Model.V2


def test_a_mark_that_only_a_stable_read_shows_moves_the_member_up_and_all_is_read_again() -> None:
    """R1, R12: the transaction that latched the group was still open when all marks were read."""
    group = Group({A: LEGACY, B: LEGACY}, stable={A: V2, B: LEGACY})
    member = Member(group)
    member.takeover.take(group, [A, B], 3)  # type: ignore[arg-type]
    assert group.calls == ["open [0, 1]", "read [0, 1]", "open for process", "read [0, 1]"]
    assert member.state.group.model is Model.V2


def test_partitions_that_stay_are_not_read_again() -> None:
    """The kind of producer stays as well."""
    group = Group({A: LEGACY, B: LEGACY})
    member = Member(group)
    member.takeover.take(group, [A], 3)  # type: ignore[arg-type]
    member.takeover.take(group, [B], 4)  # type: ignore[arg-type]
    assert group.calls == ["open [0]", "read [0]", "open [1]", "read [1]"]
    member.takeover.give_back([A])
    assert (group.calls[-1], list(member.state.partitions)) == ("close [0]", [B])


@pytest.mark.parametrize(
    ("code", "kind"),
    [(None, MustRejoin), (KafkaError._TRANSPORT, MustRejoin), (KafkaError.GROUP_AUTHORIZATION_FAILED, SwitchFatal)],
)
def test_a_group_that_cannot_be_read_is_a_reason_to_join_again_or_to_stop(
    code: int | None, kind: type[Exception]
) -> None:
    """The member stops where a right is missing, and otherwise joins again."""
    group = Group({A: LEGACY})
    group.refuses = GroupUnreadable("the group", None if code is None else KafkaError(code))
    member = Member(group)
    with pytest.raises(kind, match="the group"):
        member.takeover.take(group, [A], 3)  # type: ignore[arg-type]
    assert (group.calls, len(member.state.partitions)) == ([], 0)


def test_a_latch_topic_that_cannot_be_read_now_is_a_reason_to_join_again() -> None:
    """It may hold the latch that the offsets have lost."""

    class Away:
        def read(self, _timeout: float) -> None:
            raise LatchTopicUnreadable("no broker answered in time")

    group = Group({A: LEGACY})
    with pytest.raises(MustRejoin, match="no broker answered"):
        Member(group, latch_topic=Away()).takeover.take(group, [A], 3)  # type: ignore[arg-type]


def test_offsets_that_another_moved_meanwhile_are_where_the_member_goes_on() -> None:
    """Another member had the id of a kept partition; only the offset shows it (R12)."""
    group = Group({A: LEGACY, B: LEGACY})
    member = Member(group)
    member.takeover.take(group, [A], 3)  # type: ignore[arg-type]
    member.state.advance([TopicPartition(*A, 3, LEGACY)])
    group.stable = {A: V2, B: V2}
    member.takeover.take(group, [B], 4)  # type: ignore[arg-type]
    assert group.calls[-3:] == ["open for process", "read [0, 1]", "seek 0"]
    assert next_offsets(member.state.partitions) == {A: 5, B: 5}


def test_a_consumer_that_cannot_be_moved_is_replaced() -> None:
    """It would skip unprocessed messages, or process again what another member has committed."""
    group = Group({A: LEGACY, B: LEGACY})
    member = Member(group)
    member.takeover.take(group, [A], 3)  # type: ignore[arg-type]
    member.state.advance([TopicPartition(*A, 3, LEGACY)])
    group.stable = {A: V2, B: V2}

    def refuse(_place: TopicPartition) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE))

    group.seek = refuse  # type: ignore[method-assign]
    with pytest.raises(MustRejoin, match="could not be moved"):
        member.takeover.take(group, [B], 4)  # type: ignore[arg-type]
