"""A rollback of a fake group."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from featuregate_confluent import Model
from featuregate_confluent.client.group import Coordinator, GroupDescription
from featuregate_confluent.client.pending import GroupUnreadable
from featuregate_confluent.errors import SwitchError, UnknownMark
from featuregate_confluent.latch import marks
from featuregate_confluent.latch.protocol import Member, Partition
from featuregate_confluent.operator.rollback import Rollback, RollbackPlan, RollbackRefused

A, B, C = ("orders", 0), ("orders", 1), ("orders", 2)
OF_OTHERS = Member(member_id="1", client_id="billing#fg=v2", instance_id=None, host="/10.0.0.1")
STATIC = Member(member_id="2", client_id="billing", instance_id="one#fg=v2", host="/10.0.0.2")


class Group:
    """A group in memory: the three clients of a rollback in one."""

    def __init__(self, texts: dict[Partition, str]) -> None:
        self.committed = {key: TopicPartition(*key, 5, text) for key, text in texts.items()}
        self.members_seen: tuple[Member, ...] = ()
        self.held: set[Partition] = set()
        self.state = "empty"
        self.refuses: int | None = None
        self.writes: list[Partition] = []

    # ---- as a GroupReader

    def members(self, _timeout: float) -> GroupDescription:
        state = "stable" if self.members_seen else self.state
        coordinator = Coordinator(1, "broker-1", 9092)
        return GroupDescription(members=self.members_seen, coordinator=coordinator, state=state, kind="classic")

    def offsets(self, partitions: Iterable[Partition] | None = None, timeout: float = 1.0) -> dict[Partition, Any]:
        assert timeout > 0
        wanted = self.committed if partitions is None else partitions
        return {key: (self.committed[key].offset, marks.read(self.committed[key].metadata)) for key in wanted}

    def input_partitions(self, topics: set[str], _timeout: float) -> tuple[Partition, ...]:
        return tuple((topic, number) for topic in sorted(topics) for number in range(3))

    # ---- as an OffsetsReader of stable offsets, which has no answer while a transaction holds one of them

    def ask(self, partitions: list[Partition], read: Callable[[Any], Any], _timeout: float) -> Any:
        def result() -> Any:
            if self.held & set(partitions):
                raise GroupUnreadable("the offsets", KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT))
            return read([self.committed.get(key, TopicPartition(*key, -1001)) for key in partitions])

        return SimpleNamespace(result=result)

    # ---- as an admin client

    def alter_consumer_group_offsets(self, requests: list[Any], **_: Any) -> dict[str, Future[Any]]:
        for each in requests[0].topic_partitions:
            self.writes.append((each.topic, each.partition))
            if self.refuses is None:
                self.committed[each.topic, each.partition] = each
        answered: Future[Any] = Future()
        error = None if self.refuses is None else KafkaError(self.refuses)
        answered.set_result(
            SimpleNamespace(
                topic_partitions=[SimpleNamespace(topic=t, partition=p, error=error) for t, p in self.writes]
            )
        )
        return {"billing": answered}

    def close(self) -> None:
        """Do nothing: no client is open."""


class LatchTopic:
    """A latch topic that holds a model."""

    def __init__(self, model: Model | None) -> None:
        self.model = model

    def read(self, _timeout: float) -> Model | None:
        return self.model

    def erase(self, _timeout: float) -> None:
        self.model = None


def rollback(group: Group, latch_topic: Any = None) -> Rollback:
    clients: Any = group
    return Rollback(clients, clients, clients, group="billing", to=Model.BRIDGE, latch_topic=latch_topic, timeout=0.2)


V2, V2_WITH_TEXT, LEGACY = "fg1;model=v2", "fg1;model=v2|theirs", "fg1;model=legacy"


def test_only_marks_above_the_model_are_lowered_and_everything_else_stays() -> None:
    group, latch_topic = Group({A: V2_WITH_TEXT, B: LEGACY, C: "theirs"}), LatchTopic(Model.V2)
    done = rollback(group, latch_topic)
    plan = done.plan()
    assert [(change.partition, change.offset, change.after.app_metadata) for change in plan.changes] == [
        (A, 5, "theirs")
    ]
    assert (plan.latch_in_topic, plan.offsets, plan.empty) == (True, 3, False)
    done.carry_out(plan)
    assert group.writes == [A]
    assert group.committed[A].metadata == "fg1;model=bridge|theirs"
    assert latch_topic.model is None
    assert done.plan() == RollbackPlan(changes=(), latch_in_topic=False, offsets=3)


@pytest.mark.parametrize(("member", "words"), [(OF_OTHERS, "Stop every member"), (STATIC, r"session\.timeout\.ms")])
def test_a_group_with_members_is_left_alone(member: Member, words: str) -> None:
    """A static member is in the group until its session has timed out, stopped or not."""
    group = Group({A: V2})
    group.members_seen = (member,)
    with pytest.raises(RollbackRefused, match=words):
        rollback(group).plan()


def test_an_offset_that_a_transaction_holds_is_named() -> None:
    """Brokers would accept the new commit, and the output of the transaction would be there twice."""
    group = Group({A: V2, B: V2})
    group.held = {C}  # the first commit in this partition: the group's own list does not have it yet
    with pytest.raises(RollbackRefused, match=r"open transaction holds the offset of orders\[2\]"):
        rollback(group).plan()


def test_a_group_that_moved_since_the_plan_is_left_alone() -> None:
    """A member still commits in that group."""
    group = Group({A: V2})
    done = rollback(group)
    plan = done.plan()
    group.committed[A] = TopicPartition(*A, 6, V2)
    with pytest.raises(RollbackRefused, match="has moved"):
        done.carry_out(plan)
    assert group.writes == []


@pytest.mark.parametrize(
    ("code", "words"),
    [(KafkaError.UNKNOWN_MEMBER_ID, "A member has joined"), (KafkaError.GROUP_AUTHORIZATION_FAILED, "right READ")],
)
def test_offsets_that_brokers_refuse_are_reported(code: int, words: str) -> None:
    """The error says what to do."""
    group = Group({A: V2})
    group.refuses = code
    done = rollback(group)
    with pytest.raises(SwitchError, match=words):
        done.carry_out(done.plan())


def test_a_commit_of_a_member_in_between_is_found_when_it_is_read_back() -> None:
    """Brokers cannot read and commit in one step."""
    group = Group({A: V2})
    done = rollback(group)
    group.alter_consumer_group_offsets = lambda *_, **__: {"billing": _answered()}  # type: ignore[method-assign]
    with pytest.raises(SwitchError, match="does not read back"):
        done.carry_out(done.plan())


def _answered() -> Future[Any]:
    answered: Future[Any] = Future()
    answered.set_result(SimpleNamespace(topic_partitions=[]))
    return answered


def test_a_group_without_offsets_and_one_of_newer_software_are_refused() -> None:
    with pytest.raises(RollbackRefused, match="shows no offset"):
        rollback(Group({})).plan()
    unknown = Group({})
    unknown.state = "dead"
    with pytest.raises(RollbackRefused, match="brokers know no group 'billing': check its name"):
        rollback(unknown).plan()
    with pytest.raises(UnknownMark):
        rollback(Group({A: "fg9;model=v4"})).plan()
