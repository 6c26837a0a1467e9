"""How a member polls its consumer, with a fake group."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message
from fake_group import LEGACY, V2, A, B, FakeGroup, FakeMember

from featuregate.testing import release_view
from featuregate_confluent import Model, MustRejoin, SwitchFatal
from featuregate_confluent.errors import InstanceTaken, UnknownMark
from featuregate_confluent.member.failure_limits import ABORTED_AT_MOST, LOST_AT_MOST, UNRELEASED_SECONDS, Failures
from featuregate_confluent.producing.outcome import RolledBack

MESSAGE = Message(topic="orders", partition=0, offset=5, value=b"")
TAKEN = Message(error=KafkaError(KafkaError.UNRELEASED_INSTANCE_ID))


def joined(group: FakeGroup, release: str = "4.2") -> FakeMember:
    member = FakeMember(group, release)
    member.join()
    group.calls.clear()
    return member


def test_a_member_decides_again_where_the_group_moved_on_before_the_first_v2_commit() -> None:
    """R5: the members of the new generation are not known. The member's own partitions are the same."""
    group = FakeGroup({A: LEGACY, B: LEGACY})
    member = joined(group)
    for _ in range(2):
        member.poll()
    assert (member.state.group.model, member.state.group.first_v2_generation) == (Model.V2, 3)
    group.generation, group.answers = 4, False
    group.calls.clear()
    member.poll()
    assert group.calls[:-1] == ["read [0, 1]", "ask"]
    assert (member.state.group.model, member.state.group.generation) == (Model.BRIDGE, 4)
    group.answers = True
    member.poll()
    assert (member.state.group.model, member.state.group.first_v2_generation) == (Model.V2, 4)


def test_a_first_v2_commit_in_the_same_generation_needs_no_other_decision() -> None:
    """The members of this generation are known already."""
    group = FakeGroup({A: LEGACY})
    member = joined(group)
    for _ in range(2):
        member.poll()
    group.calls.clear()
    member.poll()
    assert (group.calls, member.state.group.model) == (["consume 500"], Model.V2)


def test_messages_come_again_after_what_blocks_commits() -> None:
    """The consumer has to be polled to stay in its group, and a message that it returns is not the app's yet."""
    group = FakeGroup({A: V2})
    member = joined(group)
    group.messages = [MESSAGE]
    assert member.poll() == [MESSAGE]
    member.features.show(release_view("4.2", "2.4"))
    group.answers = False
    group.calls.clear()
    assert member.poll() == []
    assert member.state.group.commit_blocker
    assert group.calls[-2:] == ["consume 1", "seek 0"]


@pytest.mark.parametrize("error", [ZeroDivisionError("in stats_cb"), KeyboardInterrupt()])
def test_a_member_owns_nothing_after_any_error_of_a_poll(error: BaseException) -> None:
    """A callback of the app raised within consume(): the client has dropped what it had fetched, and goes on behind."""
    group = FakeGroup({A: LEGACY})
    member = joined(group)
    group.fails = error
    with pytest.raises(type(error)):
        member.poll()
    assert member.state.lost
    with pytest.raises(MustRejoin, match="another consumer has to be subscribed"):
        _ = member.membership.consumer


def test_a_member_owns_nothing_after_a_producer_could_not_be_replaced() -> None:
    """Its partitions may have producers no more."""
    group = FakeGroup({A: LEGACY})
    member = joined(group, "2.4")
    group.doubted, group.stable = [A], {A: "fg2;model=unknown"}
    with pytest.raises(UnknownMark):
        member.membership.renew(group.consumer, [MESSAGE])
    assert (member.state.partitions, member.state.lost is None) == ({}, False)


def test_messages_beside_an_error_are_not_passed_over() -> None:
    """The member must not go on behind them: only another consumer begins at the committed offsets."""
    group = FakeGroup({A: LEGACY})
    member = joined(group)
    group.messages = [MESSAGE, Message(error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))]
    with pytest.raises(SwitchFatal):
        member.poll()
    assert member.state.lost


def test_a_poll_that_was_given_to_no_transaction_comes_again() -> None:
    """The app caught an error in between."""
    group = FakeGroup({A: LEGACY})
    member = joined(group)
    group.messages = [MESSAGE]
    assert member.poll() == [MESSAGE]
    group.calls.clear()
    assert member.poll() == [MESSAGE]
    assert group.calls[0] == "seek 0"


def test_another_member_may_have_the_instance_id_for_a_while() -> None:
    """A process that was killed keeps its id until its session times out: this member joins again until then."""
    group = FakeGroup({A: LEGACY})
    member = joined(group)
    group.messages = [TAKEN]
    for _ in range(2):
        with pytest.raises(InstanceTaken):
            member.poll()
    member.state.failures = Failures(unreleased_since=time.monotonic() - UNRELEASED_SECONDS)
    with pytest.raises(SwitchFatal, match=r"it has had it for 120 s"):
        member.poll()


def test_a_round_of_many_transactions_that_are_aborted_is_one_failure_of_the_member() -> None:
    """They run side by side, and fail for one reason. Only members that give up one after the other end the app."""
    member = joined(FakeGroup({A: LEGACY}))
    conclude = member.membership.conclusions._rolled_back
    of_a_round: Any = SimpleNamespace(model=Model.LEGACY, messages=[], assignment=SimpleNamespace(current=False))
    errors = [type(conclude(of_a_round, RolledBack(why="no replicas"))) for _ in range(4 * ABORTED_AT_MOST)]
    assert SwitchFatal not in errors
    assert (errors.count(MustRejoin), member.state.failures.lost) == (4, 1)
    for _ in range(LOST_AT_MOST - 1):
        member.state.clear()
        errors = [type(conclude(of_a_round, RolledBack(why="no replicas"))) for _ in range(ABORTED_AT_MOST)]
    assert errors[-1] is SwitchFatal


def test_a_member_that_is_in_its_group_begins_the_time_of_its_instance_id_anew() -> None:
    """The process that had the id has ended."""
    group = FakeGroup({A: LEGACY})
    member = joined(group)
    member.state.failures = Failures(unreleased_since=time.monotonic() - UNRELEASED_SECONDS)
    member.join()
    group.messages = [TAKEN]
    with pytest.raises(InstanceTaken):
        member.poll()
