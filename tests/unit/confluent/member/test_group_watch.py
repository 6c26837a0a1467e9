"""How a member sees that partitions of its group stand still, with a fake group."""

from confluent_kafka import KafkaError
from fake_group import LEGACY, A, B, FakeGroup, FakeMember, member

from featuregate_confluent import Model
from featuregate_confluent.client.pending import GroupUnreadable
from featuregate_confluent.events import PartitionsStalled
from featuregate_confluent.member.group_watch import WATCH_SECONDS
from featuregate_confluent.member.state import StalledPartition


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
