"""Controllers whose registration a level has to suit: those that were not asked, and those that have gone."""

import asyncio
from dataclasses import replace

import pytest

from featuregate import Admin, Feature
from featuregate.admin.prediction import ClusterState, predict
from featuregate.admin.quorum import fetch_quorum
from featuregate.admin.registrations import Quorum, advice_on, unasked, why_silent
from featuregate.admin.updates import Update, disable, downgrade, upgrade
from featuregate.config import Settings
from featuregate.testing import FakeCluster
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure, SupportedRange

RAISE = upgrade({"metadata.version": 29})
AT_3_9, AT_4_4_IV2 = 21, 33


def node(node_id: int, *, role: str = "controller", silent: bool = False) -> BrokerAnswer:
    return BrokerAnswer(
        node_id=node_id,
        host=f"n{node_id}",
        port=9,
        role=role,  # type: ignore[arg-type]  # broker or controller
        supported={"metadata.version": SupportedRange(7, 33), "group.version": SupportedRange(0, 1)},
        asked_version=4,
        failure=Failure("TimedOut", "no answer") if silent else None,
    )


def state(
    *controllers: BrokerAnswer, voters: frozenset[int] | None = None, level: int = AT_3_9, registered: bool = True
) -> ClusterState:
    return ClusterState(
        finalized={"metadata.version": level},
        brokers=(node(1, role="broker"),),
        controllers=controllers,
        registered=registered,
        quorum=Quorum(voters=voters),
        leader=controllers[0].node_id if controllers else None,
        speaks=ApiRange(0, 2),
    )


UNASKED = (
    "controllers were not asked, and the active one refuses a level that a registered one cannot run, also where that "
    "has gone: ask them too (--controllers)"
)
BOTH = frozenset({8, 9})


@pytest.mark.parametrize(
    ("updates", "where", "judgement", "words"),
    [
        (RAISE, state(), "unknown", UNASKED),
        (upgrade({"group.version": 1}), state(), "unknown", UNASKED),
        # a level that all nodes run already, and a lower one, suits the controllers too
        (disable("group.version"), state(), "accepted", ""),
        (downgrade({"group.version": 0}), state(), "accepted", ""),
        (upgrade({"metadata.version": AT_3_9}), state(), "accepted", ""),
        # a broker cannot run the level, whatever controllers can
        (upgrade({"metadata.version": 34}), state(), "refused", "Broker 1 only supports versions 7-33"),
        (RAISE, state(node(8), node(9)), "accepted", ""),
        (RAISE, replace(state(node(8)), brokers=()), "unknown", "brokers were not asked"),
        (RAISE, state(node(8), voters=BOTH), "unknown", "voters that no controller lists, 9, have not registered"),
        # before metadata.version 3.7-IV0 no controller registers
        (RAISE, state(node(8), registered=False, voters=BOTH), "unknown", "a registered one that is not in it"),
        (RAISE, state(node(8), registered=False, level=14, voters=BOTH), "accepted", ""),
        # each counts with its registration, and has an advice of its own
        (RAISE, state(node(8), node(9, silent=True), voters=BOTH), "unknown", "it is a voter, so start it"),
        (
            RAISE,
            state(node(8), node(9), node(10, silent=True), voters=BOTH),
            "unknown",
            "controller 10 (n10:9) is registered, is not a voter, and does not answer, and its registration counts",
        ),
    ],
)
def test_controllers_make_a_rise_unknown(
    updates: tuple[Update, ...], where: ClusterState, judgement: str, words: str
) -> None:
    (said,) = predict(updates, where)
    assert said.judgement == judgement
    assert words in said.text


def test_without_the_voters_a_silent_controller_is_silent() -> None:
    """The right to describe the quorum may be missing; and below 3.7-IV0 no registration counts."""
    for where in (state(node(8), node(9, silent=True)), state(node(8), node(9, silent=True), level=14)):
        (said,) = predict(RAISE, where)
        assert "voter" not in said.text


BY_BOOTSTRAP = (
    "the bootstrap list names the controllers, and a registered one that is not in it may refuse: let the controllers "
    "name each other (--broker-list cluster)"
)


@pytest.mark.parametrize(
    ("voters", "named", "registers", "said"),
    [
        ({8}, True, True, ""),
        (None, True, True, ""),
        (
            {8, 10, 9},
            True,
            False,
            "voters that no controller lists, 9, 10, have not registered: start them with the new release",
        ),
        ({8, 9}, False, True, BY_BOOTSTRAP),
        (None, False, True, BY_BOOTSTRAP),
        ({8, 9}, False, False, ""),
    ],
)
def test_a_node_that_was_not_asked_is_told(voters: set[int] | None, *, named: bool, registers: bool, said: str) -> None:
    """By the voters, where the controllers name each other."""
    brokers, controllers = (node(1, role="broker"),), (node(8),)
    quorum = Quorum(voters=None if voters is None else frozenset(voters))
    assert unasked(brokers, controllers, quorum, named_by_controllers=named, registers=registers) == said
    assert unasked(brokers, controllers, None, named_by_controllers=True, registers=registers) == ""
    assert unasked((), controllers, quorum, named_by_controllers=named, registers=registers) == (
        "brokers were not asked, and the controller refuses a level that a registered one cannot run"
    )


RENEW = (
    "nothing removes a registration below metadata.version 4.4-IV2 (KIP-1312): {}start a controller with node.id=10 "
    "and the new release once, with controller.quorum.bootstrap.servers and without controller.quorum.voters, so that "
    "it registers again"
)


@pytest.mark.parametrize(
    ("level", "release", "advice"),
    [
        (AT_4_4_IV2, (4, 4), "remove its registration: kafka-cluster.sh unregister-controller --id 10"),
        (AT_4_4_IV2 - 1, (4, 4), RENEW.format("")),
        (AT_3_9, (3, 9), RENEW.format("")),
        (19, (3, 8), RENEW.format("upgrade the controllers to 3.9 or newer, and ")),
    ],
)
def test_each_release_has_its_advice(level: int, release: tuple[int, int], advice: str) -> None:
    """KIP-1312 removes a registration; before, a controller of the same id renews it (KIP-853)."""
    assert advice_on(10, level, release) == advice
    gone = "controller 10 (n10:9) is registered, is not a voter, and does not answer, and its registration counts: "
    assert why_silent(node(10), frozenset({8}), level, release) == f"{gone}{advice}"
    assert why_silent(node(10), frozenset({10}), level, release) == (
        "controller 10 (n10:9) is silent, and counts with the levels of its registration: it is a voter, so start it "
        "with the new release"
    )


# ---------------------------------------------------------------------- whole clusters


def test_the_voters_come_from_any_node() -> None:
    """Brokers forward the request to the active controller."""
    with FakeCluster(2, controllers=2) as cluster:
        for where in (
            {"bootstrap.servers": cluster.bootstrap},
            {"bootstrap.controllers": cluster.bootstrap_controllers},
        ):
            assert asyncio.run(fetch_quorum(Settings.parse(where))) == Quorum(voters=frozenset({3000, 3001}))


def test_the_plan_of_an_admin_counts_voters_and_latches() -> None:
    latched = {"next": Feature("group.version") >= 1}
    with FakeCluster(1, controllers=2, release="4.2") as cluster:
        cluster.voters = (3000,)
        brokers, controllers = Admin(cluster.bootstrap), cluster.bootstrap_controllers
        made = [
            brokers.plan(disable("group.version"), controllers=controllers, latched=latched),
            Admin({"bootstrap.controllers": controllers}).plan(disable("group.version"), latched=latched),
        ]
    for each in made:
        assert [affected.gate for affected in each.affected] == ["next"]
        assert any("controller 3001" in note and "is not a voter" in note for note in each.notes)


def test_a_cluster_without_kraft_has_no_quorum() -> None:
    """No broker serves DescribeQuorum."""
    with FakeCluster(1, release="2.8") as cluster:
        assert asyncio.run(fetch_quorum(Settings.parse(cluster.bootstrap))) is None


def test_a_plan_says_why_the_voters_are_unknown() -> None:
    with FakeCluster(1, controllers=1, api_ranges={18: (0, 4), 57: (0, 2), 60: (0, 2), 55: (0, 2)}) as cluster:
        cluster.broker(1).cut_once(api="DescribeQuorum")
        made = Admin(cluster.bootstrap).plan(RAISE)
    assert any(note.startswith("the voters are not known") for note in made.notes)
