"""The danger is real: what brokers do with a zombie of a hand-written app, without featuregate."""

import pytest
from eos.ledger import Balance, Ledger
from eos.naive import COMMITTED, PATIENT, Model, NaiveApp, Outcome, Stall
from eos.pipes import Pipe, on

from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.live, pytest.mark.slow]

INPUTS = 5
PATIENCE = 2.0
"""Seconds for which a member is watched that has its partitions and must not be given their offsets yet."""

BEFORE: Stall = "before send_offsets"
AFTER: Stall = "after send_offsets"
FENCED = Outcome("_FENCED", fatal=True)
KICKED_OUT = Outcome("UNKNOWN_MEMBER_ID", abortable=True)


def zombie(
    kafka: LocalKafka, first: Model, second: Model, where: Stall, *, waits: bool = False, **consumer: str
) -> tuple[Outcome, Balance]:
    """Stall one member in a transaction of five inputs, let another take over, and resume the first.

    Then the group gets one more input, which the second member has to handle alone.
    """
    pipe = Pipe.on(kafka, f"{first}-{second}")
    with Ledger(pipe) as ledger, NaiveApp(first, "first", pipe) as stalled:
        ledger.feed_now(INPUTS)
        stalled.stall(INPUTS, where)
        properties = {name.replace("_", "."): value for name, value in consumer.items()}
        with NaiveApp(second, "second", pipe, consumer=PATIENT | properties) as heir:
            if waits:
                assert heir.run(INPUTS, patience=PATIENCE) == 0
            else:
                assert heir.run(INPUTS) == INPUTS
            outcome = stalled.go_on(where)
            ledger.feed_now(1)
            assert heir.run(1) == 1
        return outcome, ledger.settled()


# ---------------------------------------------------------------- one model in the whole group


@pytest.mark.parametrize("kafka", ["4.2.0", "2.4.1"], indirect=True)
@pytest.mark.parametrize("where", [BEFORE, AFTER])
@pytest.mark.proof("switch")
def test_a_legacy_zombie_is_fenced_by_its_transactional_id(kafka: LocalKafka, where: Stall) -> None:
    """Old brokers fence it as well as new ones, and the producer cannot be used any more."""
    outcome, balance = zombie(kafka, "legacy", "legacy", where)
    assert outcome == FENCED
    assert balance.exactly_once, balance


@on("4.2.0")
def test_a_v2_zombie_is_refused_by_a_new_broker(kafka: LocalKafka) -> None:
    """The group's generation stops it in place of a transactional id, and the transaction can be aborted."""
    outcome, balance = zombie(kafka, "v2", "v2", BEFORE)
    assert outcome == KICKED_OUT
    assert balance.exactly_once, balance


@on("4.2.0")
@pytest.mark.proof("switch")
def test_a_v2_zombie_whose_offsets_are_pending_is_waited_for_by_a_new_broker(kafka: LocalKafka) -> None:
    """The new owner does not get the offsets before the transaction has ended."""
    outcome, balance = zombie(kafka, "v2", "v2", AFTER, waits=True)
    assert outcome == COMMITTED
    assert balance.exactly_once, balance


@on("2.4.1")
@pytest.mark.parametrize("where", [BEFORE, AFTER])
def test_a_v2_zombie_duplicates_on_an_old_broker_without_any_error(kafka: LocalKafka, where: Stall) -> None:
    """Five inputs become ten outputs: librdkafka silently drops the group's metadata."""
    outcome, balance = zombie(kafka, "v2", "v2", where)
    assert outcome == COMMITTED
    assert balance.outputs == 2 * INPUTS + 1
    assert balance.duplicated == tuple((0, offset) for offset in range(INPUTS))
    assert not balance.lost


# ---------------------------------------------------------------- two models in one group


@on("4.2.0")
@pytest.mark.proof("switch")
def test_a_legacy_zombie_duplicates_beside_v2_on_a_new_broker(kafka: LocalKafka) -> None:
    """No producer takes its id and no broker checks its generation: the two must never share a group."""
    outcome, balance = zombie(kafka, "legacy", "v2", BEFORE)
    assert outcome == COMMITTED
    assert len(balance.duplicated) == INPUTS


@on("4.2.0")
@pytest.mark.parametrize(("first", "second"), [("bridge", "v2"), ("v2", "bridge")])
@pytest.mark.proof("switch")
def test_a_zombie_of_bridge_or_v2_is_refused_beside_the_other(kafka: LocalKafka, first: Model, second: Model) -> None:
    """Neighbours may share a group on brokers that check the generation."""
    outcome, balance = zombie(kafka, first, second, BEFORE)
    assert outcome == KICKED_OUT
    assert balance.exactly_once, balance


@on("4.2.0")
@pytest.mark.parametrize(("first", "second"), [("legacy", "v2"), ("bridge", "v2"), ("v2", "bridge")])
@pytest.mark.proof("switch")
def test_a_zombie_whose_offsets_are_pending_is_waited_for_by_the_other_model(
    kafka: LocalKafka, first: Model, second: Model
) -> None:
    """A member that reads stably does not get a pending offset of either model."""
    outcome, balance = zombie(kafka, first, second, AFTER, waits=True)
    assert outcome == COMMITTED
    assert balance.exactly_once, balance


@on("4.2.0")
@pytest.mark.proof("switch")
def test_an_heir_that_reads_uncommitted_does_not_wait_and_duplicates(kafka: LocalKafka) -> None:
    """librdkafka asks for stable offsets only with read_committed: the setting is part of the model."""
    outcome, balance = zombie(kafka, "v2", "bridge", AFTER, isolation_level="read_uncommitted")
    assert outcome == COMMITTED
    assert len(balance.duplicated) == INPUTS


@on("2.4.1")
@pytest.mark.parametrize(
    ("first", "second", "where"),
    [
        ("legacy", "v2", BEFORE),
        ("legacy", "v2", AFTER),
        ("bridge", "v2", BEFORE),
        ("bridge", "v2", AFTER),
        ("v2", "bridge", BEFORE),
        ("v2", "bridge", AFTER),
    ],
)
@pytest.mark.proof("switch")
def test_every_mixture_with_v2_duplicates_on_an_old_broker(
    kafka: LocalKafka, first: Model, second: Model, where: Stall
) -> None:
    """An old broker stops the zombie of the other model at no point of the move."""
    outcome, balance = zombie(kafka, first, second, where)
    assert outcome == COMMITTED
    assert len(balance.duplicated) == INPUTS
