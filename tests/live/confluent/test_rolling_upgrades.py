"""Groups of app processes under load, while brokers are rolled and killed, and members killed, paused and restarted.

``EOS_ROUNDS`` makes the runs longer, and ``EOS_RATE`` the load heavier. The seed of the faults is that of the test run,
which its first lines tell; ``--log-cli-level=INFO`` shows what came in and out.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest
from eos.faults import Faults, Kind, Line, until
from eos.fleets import App, Fleet
from eos.ledger import Ledger
from eos.pipes import BOUND, SHORT_GROUPS, Pipe

from featuregate.testing import LocalKafka

logger = logging.getLogger("eos")

ROUNDS = int(os.environ.get("EOS_ROUNDS", "1"))
"""How often each kind of harm is done to brokers once the cluster is rolled; to members it is done twice as often."""
RATE = float(os.environ.get("EOS_RATE", "60"))
"""Inputs a second and group: the load is there from the first fault to the last."""
INPUTS = 10_000
"""Inputs of each group in a run, at least: what the load has not brought comes at once, at its end."""
MEMBERS = ("one", "two")
A_ROUND: tuple[Kind, ...] = ("kill", "kill", "pause", "pause", "restart", "restart", "broker", "silence")

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(1800 + 300 * ROUNDS)]

MARKERS_LOST = {"4.2.0"}
"""Releases whose coordinators write transaction markers in a version that brokers of the release before do not know
(WriteTxnMarkers 2): no transaction ends on a leader that is not rolled yet, until it is."""

ZOOKEEPER = {"zookeeper.session.timeout.ms": 18000, "auto.leader.rebalance.enable": "false"}
"""Groups must not move to the broker that went back to the old release: their members would wait, as they must. The
controller would hand them back to the broker that they preferred, every five minutes; and a broker that stalls for
longer than its session (6 s by default, 18 s from 2.5 on) loses its groups to the next one."""

SHORT = {"session.timeout.ms": 3000, "heartbeat.interval.ms": 500, "max.poll.interval.ms": 6000}
EAGER = {"partition.assignment.strategy": "range", **SHORT}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky", **SHORT}
SHORT_KIP_848_GROUPS = {
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.session.timeout.ms": 3000,
    "group.consumer.session.timeout.ms": 3000,
}
"""Under KIP-848 the brokers say what ``SHORT`` says for the other groups; by default a dead member stays for 45 s."""
KIP_848 = {"group.protocol": "consumer", "max.poll.interval.ms": 6000}


@contextmanager
def lines(
    kafka: LocalKafka, seed: int, inputs: int = INPUTS, **groups: Mapping[str, object]
) -> Iterator[tuple[list[Line], Faults]]:
    """Start two members of each group under load; at the end, each input must have come out once."""
    with ExitStack() as running:
        found = []
        for name, consumer in groups.items():
            pipe = Pipe.on(kafka, name, partitions=4)
            line = Line(running.enter_context(Ledger(pipe)), running.enter_context(Fleet(pipe)))
            for member in MEMBERS:
                line.fleet.start(member, consumer=consumer)
            found.append(line)
        faults = Faults(kafka, found, seed, progress=round(RATE))
        running.enter_context(faults.told())
        with ExitStack() as load:
            for line in found:
                load.enter_context(line.ledger.load(RATE))
            yield found, faults
        for line in found:
            line.ledger.feed(max(0, inputs - line.ledger.planned))
        for line in found:
            with what_is_missing(line):
                line.ledger.wait_for(line.ledger.planned, 3 * BOUND)
            line.fleet.stop()
        balances = {line.pipe.group: line.ledger.balance(BOUND) for line in found}
        faults.counts.balanced(*balances.values())
        survived = faults.counts.survived
        logger.info("%s; %d faults in all groups, seed %d: %s", balances, survived.total(), seed, dict(survived))
        twice = "\n".join(line.ledger.trace(balances[line.pipe.group].duplicated[:50]) for line in found)
        assert all(balance.exactly_once for balance in balances.values()), f"{balances}\n{twice}"
        for line in found:
            assert line.fleet.steps_back() == []


@contextmanager
def what_is_missing(line: Line) -> Iterator[None]:
    """Tell lost inputs from late ones: what has not come out though the group has committed a later offset is lost.

    What the brokers have lost of the inputs themselves is told, too.
    """
    try:
        yield
    except AssertionError as failure:
        balance = line.ledger.compare()
        failure.add_note(f"{balance}; the group has committed {line.pipe.committed()}")
        failure.add_note(line.ledger.trace(balance.lost[:50]))
        failure.add_note(f"acknowledged, and not in the topic: {line.ledger.vanished()}")
        raise


def test_a_group_survives_a_member_that_is_killed_and_one_that_is_paused(
    pytestconfig: pytest.Config, shared_kafka: Callable[[str], LocalKafka]
) -> None:
    """The same harness on one broker, with one fault of each kind."""
    seed = int(pytestconfig.option.hypothesis_seed)
    with lines(shared_kafka("4.2.0"), seed, 500, brief=EAGER) as (groups, faults):
        latched(groups)
        faults.strike("kill", "pause")
        faults.heal()


@pytest.mark.proof("switch")
def test_groups_of_every_protocol_survive_members_and_brokers(pytestconfig: pytest.Config) -> None:
    """4.2.0: eager, cooperative and KIP-848 groups, in v2 from the start."""
    seed = int(pytestconfig.option.hypothesis_seed)
    with (
        LocalKafka("4.2.0", nodes=3, properties=SHORT_GROUPS | SHORT_KIP_848_GROUPS) as kafka,
        lines(kafka, seed, eager=EAGER, cooperative=COOPERATIVE, kip848=KIP_848) as (groups, faults),
    ):
        latched(groups)
        for _ in range(ROUNDS):
            faults.strike(*A_ROUND)
        faults.heal()


@pytest.mark.parametrize(("old", "new"), [("2.4.1", "2.8.2"), ("3.9.2", "4.2.0")])
@pytest.mark.proof("switch")
def test_a_rolling_upgrade_under_load_loses_and_doubles_nothing(
    pytestconfig: pytest.Config, old: str, new: str
) -> None:
    """Each group moves up once, with the last old broker, and stays there when all its members begin again."""
    seed = int(pytestconfig.option.hypothesis_seed)
    properties = SHORT_GROUPS | (ZOOKEEPER if old == "2.4.1" else {})
    with (
        LocalKafka(old, nodes=3, properties=properties) as kafka,
        lines(kafka, seed, eager=EAGER, cooperative=COOPERATIVE) as (groups, faults),
    ):
        faults.strike("kill", "pause", "restart")
        for node in kafka.nodes:
            for kind in ("kill", "pause", "restart"):
                (faults.harm if new in MARKERS_LOST else faults.strike)(kind)
            for line in groups:
                assert (line.fleet.first_told("model", "v2") is None) == (old == "2.4.1")
            faults.roll(node, new)
        faults.go_on()
        latched(groups)
        for _ in range(ROUNDS):
            faults.strike(*A_ROUND)
        faults.heal()
        go_back(kafka, groups, faults, old)
        faults.strike("kill", "restart")
        faults.heal()
        faults.note("every member begins again")
        for line in groups:
            line.fleet.stop()
            for app in line.fleet.apps:
                app.start()
        faults.counts.fault("every member is restarted")
        faults.go_on()


def go_back(kafka: LocalKafka, groups: list[Line], faults: Faults, old: str) -> None:
    """Let a broker go back to the old release, or lower a feature that was raised."""
    if old == "2.4.1":
        faults.roll(kafka.nodes[0], old)
        for line in groups:
            until("every member sees it", lambda line=line: all(held(app) for app in line.fleet.apps))
    else:
        faults.note("features go up and down")
        kafka.finalize({"metadata.version": 29, "transaction.version": 2})
        faults.go_on()
        kafka.downgrade({"transaction.version": 0})
        faults.counts.fault("a feature is lowered")
    faults.go_on()


@pytest.mark.proof("switch")
def test_members_wait_for_a_coordinator_that_went_back_and_stay_in_v2() -> None:
    """It would take a zombie's offsets unchecked: members commit nothing, and do not go back to the old model."""
    with LocalKafka("2.4.1", properties=SHORT_GROUPS) as kafka:
        kafka.roll(1, "2.8.2")
        pipe = Pipe.on(kafka, "went-back")
        with Ledger(pipe) as ledger, Fleet(pipe) as fleet:
            app = fleet.start("one", consumer=EAGER)
            until("the member is at v2", lambda: tells(app, model="v2"))
            ledger.feed_now(100)
            until("the group is latched", lambda: tells(app, latch="v2"))
            ledger.wait_for(100)
            kafka.roll(1, "2.4.1")
            until("the member waits", lambda: tells(app, status="waiting", model="v2"))
            ledger.feed_now(100)
            app.stop()
            app.start()
            until("its next life waits too", lambda: tells(app, status="waiting", model="v2", partitions=1))
            assert ledger.different == 100
            kafka.roll(1, "2.8.2")
            ledger.wait_for(200)
            fleet.stop()
            ledger.balance().assert_exactly_once()
            assert fleet.steps_back() == []


def held(app: App) -> bool:
    """Whether a member goes by its latch, against what it sees of the cluster."""
    return app.status is not None and app.status["gate_why"].startswith("held open")


def tells(app: App, **wanted: object) -> bool:
    return app.status is not None and wanted.items() <= app.status.items()


def latched(groups: list[Line]) -> None:
    for line in groups:
        until(f"{line.pipe.group} is latched at v2", lambda line=line: line.fleet.first_told("latch", "v2") is not None)
