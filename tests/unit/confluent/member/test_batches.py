"""How the messages of a round are divided into transactions."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
from confluent_kafka import Message

from featuregate_confluent.client.latch_topic import LatchTopic
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.protocol import ModelChoice
from featuregate_confluent.member.positions import transactions_of
from featuregate_confluent.member.state import MemberState
from featuregate_confluent.models import Model
from featuregate_confluent.producing.transaction import Transaction

A, B, C = ("orders", 0), ("orders", 1), ("orders", 2)
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "billing"}
TOPIC = LatchTopic("latches", NOWHERE, group="billing", gate="kip447")
MESSAGES = [
    Message(topic="orders", partition=partition, offset=offset, value=b"")
    for partition, offset in ((0, 5), (1, 3), (0, 6))
]


@pytest.fixture
def state() -> MemberState:
    return MemberState(partitions={A: (5, Mark(None, "theirs")), B: (3, Mark(None)), C: (None, Mark(None))})


def divided(
    state: MemberState, model: Model, *, latch_topic: LatchTopic | None = None, renewed: bool = True
) -> Iterator[Transaction]:
    """Divide the messages in a model; a producer is named by what it belongs to."""
    state.group = replace(state.group, choice=ModelChoice(model, "told"))
    producers = SimpleNamespace(for_partition=lambda key: key, for_process="the process")
    keeper = SimpleNamespace(rounds=SimpleNamespace(given=lambda _transaction: None))
    return transactions_of(
        MESSAGES,
        state,
        consumer=None,  # type: ignore[arg-type]
        producers=producers,  # type: ignore[arg-type]
        keeper=keeper,  # type: ignore[arg-type]
        latch_topic=latch_topic,
        renew=lambda: renewed,
    )


def offsets(transaction: Transaction) -> dict[tuple[str, int], tuple[int, str]]:
    return {(each.topic, each.partition): (each.offset, each.metadata) for each in transaction.offsets}


@pytest.mark.parametrize("model", [Model.LEGACY, Model.BRIDGE])
def test_below_v2_each_partition_has_a_transaction_with_its_own_producer(state: MemberState, model: Model) -> None:
    """Each commits the offset after its last message, with the mark of the model and the app's text (R7)."""
    first, second = divided(state, model)
    assert (first.producer, [each.offset() for each in first.messages]) == (A, [5, 6])
    assert offsets(first) == {A: (7, f"fg1;model={model.label}|theirs")}
    assert (second.producer, offsets(second)) == (B, {B: (4, f"fg1;model={model.label}")})


def test_after_a_rebalance_no_other_transaction_of_the_round_begins(state: MemberState) -> None:
    """The other messages come again, to the new owner (R9)."""
    found = divided(state, Model.BRIDGE)
    next(found)
    state.drop([B])
    assert list(found) == []


def test_in_v2_one_transaction_has_all_messages(state: MemberState) -> None:
    """It commits in the partitions of its messages only, once the group is latched."""
    (found,) = divided(state, Model.V2)
    assert (found.producer, found.messages) == ("the process", MESSAGES)
    assert offsets(found) == {A: (7, "fg1;model=v2|theirs"), B: (4, "fg1;model=v2")}


def test_the_first_v2_commit_marks_all_partitions_of_the_member(state: MemberState) -> None:
    """A partition without messages keeps its offset; one without a committed offset cannot be marked."""
    state.partitions = {**state.partitions, ("orders", 3): (9, Mark(Model.BRIDGE))}
    state.group = replace(state.group, first_v2_generation=3)
    (found,) = divided(state, Model.V2)
    assert offsets(found) == {A: (7, "fg1;model=v2|theirs"), B: (4, "fg1;model=v2"), ("orders", 3): (9, "fg1;model=v2")}


def test_v2_commits_write_the_latch_topic_until_it_holds_v2(state: MemberState) -> None:
    """The record is part of the transaction (R11)."""
    (found,) = divided(state, Model.V2, latch_topic=TOPIC)
    assert found.latch_record == TOPIC.record(Model.V2)
    state.group = state.group.committed(Model.V2, 3)
    state.receive(())
    (found,) = divided(state, Model.V2, latch_topic=TOPIC)
    assert found.latch_record is None


@pytest.mark.parametrize("model", list(Model))
def test_messages_that_another_member_has_processed_meanwhile_have_no_transaction(
    state: MemberState, model: Model
) -> None:
    """A producer was replaced, and the offsets have moved on: the round counts as not run, and is consumed again."""
    assert not list(divided(state, model, renewed=False))
    assert state.unfinished
