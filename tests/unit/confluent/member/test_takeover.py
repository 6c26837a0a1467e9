"""How a member takes over its partitions, with a fake group."""

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from fake_group import LEGACY, NOTHING, V2, A, B, FakeGroup, FakeMember

from featuregate import View
from featuregate.requirements import presets
from featuregate.testing import release_view
from featuregate_confluent import Model, MustRejoin, SwitchFatal
from featuregate_confluent.client.pending import GroupUnreadable
from featuregate_confluent.errors import LatchTopicUnreadable
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.protocol import Partition
from featuregate_confluent.member.positions import next_offsets


def taken(
    group: FakeGroup, partitions: Sequence[Partition] = (A, B), release: str = "2.4", **options: Any
) -> FakeMember:
    """Return a member that has taken its partitions over in generation 3."""
    member = FakeMember(group, release, **options)
    member.takeover.take(group.consumer, list(partitions), 3)
    return member


READ_BOTH = ["read [0, 1]"] * 2
"""Until two answers agree: `FakeMember` has brokers of 2.4 unless another release is named."""


def test_ids_are_taken_before_offsets_are_read() -> None:
    """R8: the previous owner of an id can commit nothing after the offset was read."""
    group = FakeGroup({A: NOTHING, B: LEGACY})
    member = taken(group)
    assert group.calls == ["open [0, 1]", *READ_BOTH]
    assert (member.state.group.model, member.state.group.generation) == (Model.LEGACY, 3)
    assert next_offsets(member.state.partitions) == {A: 5, B: 5}


def test_the_consumer_is_asked_for_its_cluster_after_the_callback_of_an_assignment_only() -> None:
    """A call of the consumer within its callback makes confluent-kafka abort the process at the next callback."""
    group = FakeGroup({A: NOTHING})
    member = FakeMember(group)
    group.unidentified = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    member.takeover.take(group.consumer, [A], 3)  # asks nothing
    with pytest.raises(SwitchFatal, match="the cluster id"):
        member.takeover.identify(group.consumer)
    group.unidentified = None
    member.takeover.identify(group.consumer)
    group.unidentified = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    member.takeover.identify(group.consumer)  # once for each assignment
    member.takeover.take(group.consumer, [], 4)
    with pytest.raises(SwitchFatal, match="the cluster id"):
        member.takeover.identify(group.consumer)


def test_in_v2_only_ids_that_no_commit_in_v2_has_marked_are_fenced() -> None:
    """R6: a producer of the old kind may still have a transaction open there."""
    group = FakeGroup({A: LEGACY, B: V2})
    member = taken(group, release="4.2")
    assert group.calls == ["fence [0]", "open for process", "read [0, 1]"]
    assert member.state.group.model is Model.V2


def test_a_mark_that_only_a_stable_read_shows_moves_the_member_up_and_all_is_read_again() -> None:
    """R1, R12: the transaction that latched the group was still open when all marks were read."""
    group = FakeGroup({A: LEGACY, B: LEGACY}, stable={A: V2, B: LEGACY})
    member = taken(group)
    assert group.calls == ["open [0, 1]", *READ_BOTH, "open for process", *READ_BOTH]
    assert member.state.group.model is Model.V2


@pytest.mark.parametrize("release", ["2.4", "2.5", None])
def test_one_read_is_enough_where_every_broker_is_seen_to_hold_offsets_back(release: str | None) -> None:
    """R1: not where one broker does not, whatever a gate has latched, nor where none has answered yet."""
    group = FakeGroup({A: LEGACY})
    member = FakeMember(group, "2.5")
    assert member.features.gate("kip447", presets.kip447).open
    member.features.show(release_view(release) if release else View(cluster_id=None))
    member.takeover.take(group.consumer, [A], 3)
    assert group.calls == ["open [0]", *["read [0]"] * (1 if release == "2.5" else 2)]


def test_partitions_that_stay_are_not_read_again() -> None:
    """The kind of producer stays as well."""
    group = FakeGroup({A: LEGACY, B: LEGACY})
    member = taken(group, [A])
    member.takeover.take(group.consumer, [B], 4)
    assert group.calls == ["open [0]", "read [0]", "read [0]", "open [1]", "read [1]", "read [1]"]
    member.takeover.give_back([A])
    assert (group.calls[-1], list(member.state.partitions)) == ("close [0]", [B])


@pytest.mark.parametrize("own", [5, 3])
def test_the_offset_is_read_again_after_a_producer_was_replaced(own: int) -> None:
    """R8: another member may have had the id, and committed, while this member thought that it was in the group."""
    group = FakeGroup({A: LEGACY, B: LEGACY})
    member = taken(group)
    member.state.advance([TopicPartition(*A, own, LEGACY)])
    group.calls.clear()
    assert member.takeover.renew(group.consumer, [A, B])
    assert group.calls == []
    group.doubted = [A]
    assert member.takeover.renew(group.consumer, [A, B]) is (own == 5)
    assert group.calls == ["renew [0]", "read [0]", "read [0]", *["seek 0"] * (own != 5)]
    assert next_offsets(member.state.partitions) == {A: 5, B: 5}


@pytest.mark.parametrize(
    ("code", "kind"),
    [(None, MustRejoin), (KafkaError._TRANSPORT, MustRejoin), (KafkaError.GROUP_AUTHORIZATION_FAILED, SwitchFatal)],
)
def test_a_group_that_cannot_be_read_is_a_reason_to_join_again_or_to_stop(
    code: int | None, kind: type[Exception]
) -> None:
    """The member stops where a right is missing, and otherwise joins again."""
    group = FakeGroup({A: LEGACY})
    group.refuses = GroupUnreadable("the group", None if code is None else KafkaError(code))
    member = FakeMember(group)
    with pytest.raises(kind, match="the group"):
        member.takeover.take(group.consumer, [A], 3)
    assert (group.calls, len(member.state.partitions)) == ([], 0)


def test_a_latch_topic_that_cannot_be_read_now_is_a_reason_to_join_again() -> None:
    """It may hold the latch that the offsets have lost."""

    class Away:
        def read(self, _timeout: float) -> None:
            raise LatchTopicUnreadable("no broker answered in time")

    group = FakeGroup({A: LEGACY})
    with pytest.raises(MustRejoin, match="no broker answered"):
        FakeMember(group, latch_topic=Away()).takeover.take(group.consumer, [A], 3)


def test_offsets_that_another_moved_meanwhile_are_where_the_member_goes_on() -> None:
    """Another member had the id of a kept partition; only the offset shows it (R12)."""
    group = FakeGroup({A: LEGACY, B: LEGACY})
    member = taken(group, [A])
    member.state.advance([TopicPartition(*A, 3, LEGACY)])
    group.stable = {A: V2, B: V2}
    member.takeover.take(group.consumer, [B], 4)
    assert group.calls[-4:] == ["open for process", *READ_BOTH, "seek 0"]
    assert next_offsets(member.state.partitions) == {A: 5, B: 5}


class Latched:
    """A latch topic that holds v2."""

    def read(self, _timeout: float) -> Model:
        return Model.V2


def without_offsets() -> FakeGroup:
    group = FakeGroup({A: NOTHING, B: NOTHING})
    group.missing = [A, B]
    return group


def test_a_latched_group_without_any_offset_is_a_reason_to_stop() -> None:
    """Brokers have deleted its offsets: everything would be processed again, whatever the latch topic keeps."""
    group = without_offsets()
    member = FakeMember(group, "4.2", latch_topic=Latched())
    with pytest.raises(
        SwitchFatal, match=r"committed in v2 \(latch topic\).*in orders\[0\], orders\[1\]: .*retention\.min"
    ):
        member.takeover.take(group.consumer, [A], 3)
    assert (group.calls, len(member.state.partitions)) == (["read [0, 1]"], 0), "no producer was opened"


def test_a_member_that_has_committed_and_finds_no_offsets_stops() -> None:
    """The group was deleted while the member joined again; no latch topic has to say so."""
    group = FakeGroup({A: LEGACY})
    member = taken(group, [A])
    group.marks, group.missing = {A: NOTHING}, [A]
    member.state.join()
    with pytest.raises(SwitchFatal, match=r"committed in legacy .*--reset-offsets"):
        member.takeover.take(group.consumer, [A], 4)


def test_a_new_group_has_no_offsets(caplog: pytest.LogCaptureFixture) -> None:
    """It has left no mark anywhere, and begins where auto.offset.reset says."""
    group = without_offsets()
    member = taken(group, release="4.2")
    assert next_offsets(member.state.partitions) == {}
    assert not caplog.records


def test_a_group_whose_first_transaction_is_pending_has_offsets() -> None:
    """The latch topic shows the transaction before the offsets do."""
    group = without_offsets()
    member = FakeMember(group, "4.2", latch_topic=Latched())
    group.pending = [A]
    member.takeover.take(group.consumer, [A], 3)
    assert next_offsets(member.state.partitions) == {A: 5}


def test_offsets_in_some_partitions_are_enough(caplog: pytest.LogCaptureFixture) -> None:
    """Partitions were added since, or had no messages yet: a warning, once, names them."""
    group = without_offsets()
    group.missing = [B]
    member = FakeMember(group, "4.2", latch_topic=Latched())
    for generation in (3, 4):
        member.takeover.take(group.consumer, [A, B], generation)
        member.takeover.give_back([A, B])
    (warning,) = caplog.messages
    assert warning.startswith("the group has no committed offset in orders[1]: the partition is new, had no messages")


def test_a_group_that_has_changed_its_topics_goes_on() -> None:
    """Its offsets in the topics before show that none have expired."""
    group = without_offsets()
    group.elsewhere = {("bills", 0): (3, Mark(Model.V2))}
    member = taken(group, [A], release="4.2", latch_topic=Latched())
    assert (list(member.state.partitions), member.state.group.model) == ([A], Model.V2)


def test_a_topic_that_does_not_exist_yet_has_lost_nothing() -> None:
    """A latched group without input partitions waits for its topic."""
    group = FakeGroup({})
    FakeMember(group, "4.2", latch_topic=Latched()).takeover.take(group.consumer, [], 3)
    assert group.calls == []
