"""The zombies of hand-written apps, on the switch: each input has one output."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from eos.faults import until
from eos.gated import COMMITTED, GatedApp
from eos.ledger import Balance, Ledger
from eos.naive import COMMITTED as COMMITTED_BY_HAND
from eos.naive import PATIENT, NaiveApp, Outcome, Stall, late_heir
from eos.pipes import BOUND, Pipe, on

from featuregate.testing import LocalKafka
from featuregate_confluent import Model, ModelRefused

pytestmark = [pytest.mark.live, pytest.mark.slow]

INPUTS = 5
PATIENCE = 2.0
"""Seconds for which a member is watched that must not be given its offsets yet."""

BEFORE: Stall = "before send_offsets"
AFTER: Stall = "after send_offsets"


def zombie(kafka: LocalKafka, first: str, second: str, where: Stall) -> tuple[str, Balance, Model]:
    """Stall one member in a transaction of five inputs, let another take over, and resume the first."""
    pipe = Pipe.on(kafka, f"{first}-{second}")
    with Ledger(pipe) as ledger, GatedApp("first", pipe, model=first) as stalled:
        ledger.feed_now(INPUTS)
        stalled.stall(INPUTS, where)
        with GatedApp("second", pipe, model=second, consumer=PATIENT) as heir:
            assert heir.run(INPUTS) == INPUTS
            outcome = stalled.go_on(where)
            ledger.feed_now(1)
            assert heir.run(1) == 1
            return outcome, ledger.settled(), heir.switch.model


@on("4.2.0")
@pytest.mark.parametrize("where", [BEFORE, AFTER])
@pytest.mark.parametrize(
    ("first", "second"), [("legacy", "legacy"), ("legacy", "v2"), ("bridge", "v2"), ("bridge", "auto")]
)
@pytest.mark.proof("switch")
def test_a_zombie_with_a_producer_for_each_partition_is_fenced_by_any_heir(
    kafka: LocalKafka, first: str, second: str, where: Stall
) -> None:
    """A new owner in v2 fences the old ids once: the generation would not stop these zombies."""
    outcome, balance, model = zombie(kafka, first, second, where)
    assert outcome.startswith("MustRejoin: _FENCED")
    assert balance.exactly_once, balance
    assert model is (Model.LEGACY if second == "legacy" else Model.V2)


@on("4.2.0")
@pytest.mark.parametrize("second", ["v2", "bridge", "auto"])
def test_a_v2_zombie_commits_nothing_after_its_group_has_moved_on(kafka: LocalKafka, second: str) -> None:
    """It reads its membership before it sends the offsets, and has none."""
    outcome, balance, _ = zombie(kafka, "v2", second, BEFORE)
    assert outcome.startswith("Aborted: this consumer is not a member of its group")
    assert balance.exactly_once, balance


@contextmanager
def pending(kafka: LocalKafka, second: str) -> Iterator[tuple[Ledger, Future[int]]]:
    """Let an heir wait for a v2 zombie whose offsets are pending, until the zombie goes on; give the heir's round.

    In the end each input must have come out once.
    """
    pipe = Pipe.on(kafka, f"v2-{second}")
    with Ledger(pipe) as ledger, GatedApp("first", pipe, model="v2") as stalled:
        ledger.feed_now(INPUTS)
        stalled.stall(INPUTS, AFTER)
        with GatedApp("second", pipe, model=second, consumer=PATIENT) as heir, ThreadPoolExecutor(1) as pool:
            running = pool.submit(heir.run, 1)
            _release_under_watch(pipe, ledger, stalled)
            yield ledger, running
        ledger.settled().assert_exactly_once()


@on("4.2.0")
@pytest.mark.parametrize("second", ["v2", "auto"])
@pytest.mark.proof("switch")
def test_an_heir_waits_for_a_v2_zombie_whose_offsets_are_pending(kafka: LocalKafka, second: str) -> None:
    """The zombie may finish: the new owner begins after that, behind the zombie's offsets."""
    with pending(kafka, second) as (ledger, running):
        ledger.feed_now(1)
        assert running.result(BOUND) == 1


@on("4.2.0")
def test_an_heir_that_is_pinned_lower_finds_the_latch_which_was_pending(kafka: LocalKafka) -> None:
    """The new owner waits for the first v2 transaction of the group, and then refuses a lower model (R1)."""
    with pending(kafka, "bridge") as (_, running), pytest.raises(ModelRefused, match="latched at v2"):
        running.result(BOUND)


def _release_under_watch(pipe: Pipe, ledger: Ledger, stalled: GatedApp) -> None:
    """Resume a stalled member once another has waited in its place for a while."""
    until("the heir is alone in the group", lambda: _alone(pipe, "second"))
    assert not threading.Event().wait(PATIENCE)
    assert not ledger.outputs
    assert stalled.go_on(AFTER) == COMMITTED


def _alone(pipe: Pipe, name: str) -> bool:
    members = list(pipe.members().values())
    return len(members) == 1 and members[0].startswith(name)


@on("2.4.1")
@pytest.mark.parametrize("where", [BEFORE, AFTER])
@pytest.mark.parametrize(
    ("first", "second"), [("auto", "auto"), ("legacy", "auto"), ("auto", "legacy"), ("bridge", "auto")]
)
@pytest.mark.proof("switch")
def test_on_an_old_broker_the_switch_stays_legacy_and_fences_by_ids(
    kafka: LocalKafka, first: str, second: str, where: Stall
) -> None:
    """A hand-written v2 app silently duplicates its outputs there."""
    outcome, balance, model = zombie(kafka, first, second, where)
    assert outcome.startswith("MustRejoin: _FENCED")
    assert balance.exactly_once, balance
    assert model is Model.LEGACY


# ---------------------------------------------------------------- foreign members, and neighbours


@on("4.2.0")
@pytest.mark.proof("switch")
def test_a_foreign_member_holds_the_group_at_bridge_until_it_is_gone(kafka: LocalKafka) -> None:
    """The member shows no tag: it may not send the group's metadata."""
    pipe = Pipe.on(kafka, "foreign", partitions=2)
    with Ledger(pipe) as ledger, GatedApp("ours", pipe) as ours:
        with NaiveApp("legacy", "theirs", pipe) as theirs, ThreadPoolExecutor(1) as pool:
            stop = threading.Event()
            pool.submit(_keep_running, theirs, stop)
            try:
                until("both are members", lambda: ours.turn() >= 0 and len(pipe.members()) == 2)
                ledger.feed_now(100)
                until("both have worked", lambda: ours.turn() >= 0 and ledger.different == 100)
                until("the switch has seen it", lambda: ours.turn() >= 0 and "theirs" in ours.switch.health()["why"])
                assert ours.switch.model is Model.BRIDGE
                assert ours.switch.latch is not Model.V2
                shared = ours.switch.generation
            finally:
                stop.set()
        # In a generation of its own: in the shared one the switch would fall back to bridge when the other has left.
        until("the group is its own", lambda: ours.turn() >= 0 and ours.switch.generation > shared)
        until("the switch has moved up", lambda: ours.turn() >= 0 and ours.switch.model is Model.V2)
        ledger.feed_now(10)
        until("the latch is set", lambda: ours.turn() >= 0 and ours.switch.latch is Model.V2)
        until("all is done", lambda: ours.turn() >= 0 and ledger.different == 110)
        ledger.settled().assert_exactly_once()


def _keep_running(app: NaiveApp, stop: threading.Event) -> None:
    while not stop.is_set():
        app.run(50, patience=0.1)


@on("4.2.0")
@pytest.mark.proof("switch")
def test_a_foreign_legacy_zombie_that_left_the_group_is_fenced_by_its_id(kafka: LocalKafka) -> None:
    """It is in no list of members, and no broker would check its offsets."""
    pipe = Pipe.on(kafka, "foreign-zombie")
    with Ledger(pipe) as ledger, NaiveApp("legacy", "theirs", pipe) as theirs:
        ledger.feed_now(INPUTS)
        theirs.stall(INPUTS, BEFORE)
        with GatedApp("ours", pipe, model="v2", consumer=PATIENT) as ours:
            until("it is gone", lambda: ours.turn() >= 0 and pipe.is_member("theirs") is False)
            until("all is done", lambda: ours.turn() >= 0 and ledger.different == INPUTS)
            assert ours.switch.model is Model.V2
            outcome = theirs.go_on(BEFORE)
            ledger.feed_now(1)
            assert ours.run(1) == 1
            balance = ledger.settled()
    assert outcome == Outcome("_FENCED", fatal=True) != COMMITTED_BY_HAND
    assert balance.exactly_once, balance


@on("4.2.0")
@pytest.mark.proof("switch")
def test_a_member_that_moves_up_goes_on_behind_the_member_that_had_its_id_meanwhile(kafka: LocalKafka) -> None:
    """Another member commits with the id of a partition, unchecked, and leaves: only the offset shows it (R12)."""
    pipe = Pipe.on(kafka, "late-heir", partitions=2)
    sticky = {"partition.assignment.strategy": "cooperative-sticky", **PATIENT}
    with Ledger(pipe) as ledger, GatedApp("ours", pipe, consumer=sticky) as ours, ThreadPoolExecutor(1) as pool:
        with NaiveApp("bridge", "theirs", pipe, consumer=sticky) as theirs:
            stop = threading.Event()
            polling = pool.submit(_keep_running, theirs, stop)
            try:
                until("both have a partition", lambda: ours.turn() >= 0 and _share(ours) == 1)
                until("theirs holds the group", lambda: ours.turn() >= 0 and "theirs" in ours.switch.health()["why"])
                ((_, kept),) = ours.pause()
                ledger.feed_now(2 * INPUTS)
                assert late_heir(pipe, kept) == INPUTS
            finally:
                stop.set()
            polling.result(BOUND)
        until("the switch has moved up", lambda: ours.turn() >= 0 and ours.switch.model is Model.V2)
        ours.resume()
        ledger.feed_now(2)
        until("all is done", lambda: ours.turn() >= 0 and ledger.different == 2 * INPUTS + 2)
        ledger.settled().assert_exactly_once()


@on("4.2.0")
def test_bridge_and_v2_share_a_group(kafka: LocalKafka) -> None:
    """Both work side by side, and rebalances move partitions from one model to the other and back."""
    pipe = Pipe.on(kafka, "neighbours", partitions=4)
    with Ledger(pipe) as ledger, GatedApp("bridge", pipe, model="bridge", consumer=PATIENT) as bridge:
        with GatedApp("v2", pipe, model="v2", consumer=PATIENT) as v2:
            until("both have partitions", lambda: _turns(bridge, v2) and _share(bridge) == _share(v2) == 2)
            ledger.feed_now(200)
            until("all is done", lambda: _turns(bridge, v2) and ledger.different == 200)
            assert (bridge.switch.model, v2.switch.model) == (Model.BRIDGE, Model.V2)
            assert min(bridge.switch.committed, v2.switch.committed) > 0
        with pytest.raises(ModelRefused, match="latched at v2"):
            bridge.run(1)
    with Ledger(pipe) as ledger:
        balance = ledger.settled()
    assert (balance.outputs, balance.duplicated) == (200, ())


def _turns(*apps: GatedApp) -> bool:
    for app in apps:
        app.turn()
    return True


def _share(app: GatedApp) -> int:
    return int(app.switch.health()["partitions"])
