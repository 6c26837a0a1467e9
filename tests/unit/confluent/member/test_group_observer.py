"""How a member asks its group, and sees that partitions stand still, with a fake group."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from fake_group import LEGACY, V2, A, B, FakeGroup, FakeMember, member

from featuregate.testing import release_view
from featuregate_confluent import Model, SwitchFatal
from featuregate_confluent.client.pending import GroupUnreadable
from featuregate_confluent.events import InputMissing, PartitionsStalled
from featuregate_confluent.member.group_observer import WATCH_SECONDS
from featuregate_confluent.member.state import StalledPartition

UPGRADED = "4.2"


def assigned(group: FakeGroup, release: str = UPGRADED) -> FakeMember:
    """Return a member that has chosen its model in generation 3, and has not looked yet."""
    found = FakeMember(group, release)
    found.observer.assigned(3)
    return found


def ask_and_hear(seen: FakeMember, generation: int = 3) -> None:
    for _ in range(2):
        seen.observer.look(generation)


def test_a_group_moves_to_v2_once_its_members_have_answered() -> None:
    """R5: each of them is bridge at least, in the generation of the first v2 commit."""
    group = FakeGroup({A: LEGACY})
    seen = assigned(group)
    assert seen.state.group.model is Model.BRIDGE
    group.answers = False
    ask_and_hear(seen)
    assert (group.calls, seen.state.group.model) == (["ask"], Model.BRIDGE), "asked once, without an answer yet"
    group.answers = True
    seen.observer.look(3)
    assert (seen.state.group.model, seen.state.group.first_v2_generation) == (Model.V2, 3)
    assert seen.state.group.coordinator == 1


def test_a_member_without_a_tag_keeps_the_group_in_bridge() -> None:
    """R5: it may run software that knows nothing of v2."""
    group = FakeGroup({A: LEGACY})
    group.live = (member(Model.BRIDGE), member(None))
    seen = assigned(group)
    ask_and_hear(seen)
    assert seen.state.group.model is Model.BRIDGE
    assert "shows no tag" in seen.state.group.why


def test_members_of_an_earlier_generation_prove_nothing() -> None:
    """R5: a member that joined since may be below bridge."""
    group = FakeGroup({A: LEGACY})
    seen = assigned(group)
    seen.observer.look(3)
    seen.observer.look(4)
    assert seen.state.group.model is Model.BRIDGE
    ask_and_hear(seen, 4)
    assert (seen.state.group.model, seen.state.group.first_v2_generation) == (Model.V2, 4)


def test_a_group_that_does_not_answer_is_asked_again() -> None:
    """A broker is on its way down or up; the model stays."""
    group = FakeGroup({A: LEGACY})
    seen = assigned(group)
    group.refuses = GroupUnreadable("the group", KafkaError(KafkaError._TRANSPORT))
    ask_and_hear(seen)
    group.refuses = None
    assert seen.state.group.model is Model.BRIDGE
    ask_and_hear(seen)
    assert (group.calls, seen.state.group.model) == (["ask", "ask"], Model.V2)


def test_a_group_that_cannot_be_read_may_have_another_coordinator() -> None:
    """Nothing is committed in v2 until an answer says which broker it is now."""
    group = FakeGroup({A: V2})
    seen = assigned(group)
    seen.features.show(release_view("4.2", "2.4"))
    ask_and_hear(seen)
    assert (seen.observer.commit_blocker(), seen.state.group.coordinator) == (None, 1)
    group.refuses = GroupUnreadable("the group", KafkaError(KafkaError._TRANSPORT))
    ask_and_hear(seen)
    assert "not known yet who coordinates" in str(seen.observer.commit_blocker())
    group.refuses = None
    ask_and_hear(seen)
    assert seen.observer.commit_blocker() is None


def test_the_mark_of_another_member_latches_the_group() -> None:
    """R3: one member has committed in v2, so that the tags of the members do not count."""
    group = FakeGroup({A: LEGACY, B: LEGACY})
    group.live = (member(None),)
    seen = assigned(group)
    group.marks = {A: LEGACY, B: V2}
    ask_and_hear(seen)
    assert (seen.state.group.latch, seen.state.group.model) == (Model.V2, Model.V2)
    assert seen.state.group.first_v2_generation is None, "the first v2 commit was another member's"


def test_a_gate_that_opens_takes_a_member_to_bridge_at_once() -> None:
    """The group need not answer for that: the producers stay those of its partitions."""
    group = FakeGroup({A: LEGACY})
    group.answers = False
    seen = assigned(group, "2.4")
    seen.observer.look(3)
    assert (seen.state.group.model, group.calls) == (Model.LEGACY, [])
    seen.features.show(release_view(UPGRADED))
    seen.observer.look(3)
    assert seen.state.group.model is Model.BRIDGE


def test_a_gate_counts_only_for_the_cluster_of_the_consumer() -> None:
    """A discoverer may come to show another cluster while the member runs, in v2 as well."""
    group = FakeGroup({A: V2})
    seen = FakeMember(group, UPGRADED)
    seen.observer.identify(group.consumer)
    seen.observer.assigned(3)
    assert seen.observer.commit_blocker() is None
    seen.features.show(release_view("4.2", cluster_id="another"))
    with pytest.raises(SwitchFatal, match="decided for cluster 'another', but the consumer is connected to"):
        seen.observer.commit_blocker()


def test_a_consumer_whose_cluster_did_not_answer_decides_nothing_yet() -> None:
    """The cluster of the consumer before it may be another; the assignment identifies the new one."""
    group = FakeGroup({A: LEGACY})
    seen = FakeMember(group, UPGRADED)
    seen.observer.identify(group.consumer)
    group.unidentified = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    seen.features.show(release_view("4.2", cluster_id="another"))
    with pytest.raises(GroupUnreadable):
        seen.observer.identify(group.consumer)
    assert seen.observer.commit_blocker() is None


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("bills", "no topic 'bills' exists: create it, or correct 'topics'; the member takes it up by itself"),
        ("^bill.*", "no topic that this user may describe matches '^bill.*': create it, or"),
    ],
)
def test_a_topic_that_is_missing_is_said(topic: str, why: str) -> None:
    """Brokers assign nothing, and do not say why."""
    seen = FakeMember(FakeGroup({A: LEGACY}))
    seen.observer.topics = ["orders", "^ord.*", topic]
    for _ in range(3):
        seen.observer.look_for_topics()
    assert seen.state.group.why.startswith(f"not assigned yet; {why}")
    assert [type(event) for event in seen.events] == [InputMissing]
    seen.observer.topics = ["orders", "^ord.*"]
    seen.observer.assigned(3)
    assert seen.state.group.missing is None


def test_topics_that_cannot_be_looked_for_are_said() -> None:
    """No broker answers: the member would start for ever, without a word."""
    group = FakeGroup({A: LEGACY})
    group.refuses = GroupUnreadable("the topics of this cluster", KafkaError(KafkaError._TRANSPORT))
    seen = FakeMember(group)
    for _ in range(2):
        seen.observer.look_for_topics()
    assert "the topics of this cluster: _TRANSPORT" in seen.state.group.why


def watching(group: FakeGroup) -> FakeMember:
    found = FakeMember(group)
    found.observer.assigned(3)
    return found


def minute(seen: FakeMember) -> None:
    seen.now += WATCH_SECONDS
    for _ in range(2):
        seen.watch.step()


def test_invariant_15_a_partition_that_stands_still_is_named_with_its_owner() -> None:
    """Its owner is a member that no process is: the others do their work, and the coordinator keeps it."""
    group = FakeGroup({A: LEGACY, B: LEGACY})
    group.owners, group.ends = {A: member(Model.BRIDGE)}, {A: 100, B: 5}
    seen = watching(group)
    minute(seen)
    assert seen.state.stalled == (), "one look shows no movement"
    minute(seen)
    assert seen.state.stalled == (
        StalledPartition(partition="orders[0]", owner="client 'app#fg=bridge' on 'h'", lag=95, seconds=60.0),
    )
    assert PartitionsStalled not in map(type, seen.events), "a round may last so long"
    for _ in range(6):
        minute(seen)
    (event,) = [each for each in seen.events if isinstance(each, PartitionsStalled)]
    assert (event.partitions, event.why[:30]) == (1, "orders[0] has not moved for 36")
    group.missing = [A]
    minute(seen)
    assert seen.state.stalled == ()


def test_an_end_that_moves_shows_that_a_partition_without_offset_stands_still() -> None:
    """Nobody has committed in it, and nobody owns it."""
    group = FakeGroup({A: LEGACY})
    group.missing, group.ends = [A], {A: 3}
    seen = watching(group)
    for group.ends[A] in (3, 4):
        minute(seen)
    (stalled,) = seen.state.stalled
    assert str(stalled) == "orders[0] has not moved for 60 s (lag None), owned by no member"


def test_a_partition_that_is_consumed_to_its_end_does_not_stand_still() -> None:
    """Its last offset may be the marker of a transaction."""
    group = FakeGroup({A: LEGACY})
    group.ends = {A: 6}
    seen = watching(group)
    for _ in range(3):
        minute(seen)
    assert seen.state.stalled == ()


def test_a_group_that_does_not_answer_is_asked_a_minute_later() -> None:
    """The loop does not wait for an answer, and what was known stays."""
    group = FakeGroup({A: LEGACY})
    group.ends = {A: 100}
    seen = watching(group)
    minute(seen)
    group.refuses = GroupUnreadable("the group", KafkaError(KafkaError._TRANSPORT))
    minute(seen)
    group.refuses = None
    group.answers = False
    minute(seen)
    assert seen.state.stalled == ()
    group.answers = True
    seen.watch.step()
    assert [each.seconds for each in seen.state.stalled] == [120.0]
