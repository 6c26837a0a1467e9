"""Controllers whose registration a level has to suit: those that were not asked, and those that have gone."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from featuregate import Admin, Feature
from featuregate.admin.prediction import ClusterState, Prediction, predict
from featuregate.admin.quorum import fetch_quorum
from featuregate.admin.registrations import Quorum, advice_on, unasked, why_silent
from featuregate.admin.updates import Update, disable, downgrade, upgrade
from featuregate.config import Settings
from featuregate.testing import FakeCluster
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure, SupportedRange

RAISE = upgrade({"metadata.version": 29})
AT_3_9, AT_4_4_IV2 = 21, 33


def node(node_id: int, *, role: str = "controller", silent: bool = False) -> BrokerAnswer:
    """Return the answer of a node of 4.4, or its silence."""
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
    """Return a cluster with one broker and these controllers."""
    return ClusterState(
        finalized={"metadata.version": level},
        brokers=(node(1, role="broker"),),
        controllers=controllers,
        registered=registered,
        quorum=Quorum(voters=voters),
        leader=controllers[0].node_id if controllers else None,
        speaks=ApiRange(0, 2),
    )


def one(updates: tuple[Update, ...], where: ClusterState) -> Prediction:
    """Predict one update."""
    (prediction,) = predict(updates, where)
    return prediction


def test_controllers_that_were_not_asked_make_a_rise_unknown() -> None:
    """A level that all nodes run already, and a lower one, suits the controllers too."""
    unasked = state()
    assert one(RAISE, unasked).judgement == "unknown"
    assert one(RAISE, unasked).text == (
        "controllers were not asked, and the active one refuses a level that a registered one cannot run, also where "
        "that has gone: ask them too (--controllers)"
    )
    assert one(disable("group.version"), unasked).judgement == "accepted"
    assert one(downgrade({"group.version": 0}), unasked).judgement == "accepted"
    assert one(upgrade({"metadata.version": AT_3_9}), unasked).judgement == "accepted"
    assert one(upgrade({"group.version": 1}), unasked).judgement == "unknown"
    assert one(RAISE, state(node(8), node(9))).judgement == "accepted"


def test_a_refusal_outweighs_controllers_that_were_not_asked() -> None:
    """A broker cannot run the level, whatever controllers can."""
    assert one(upgrade({"metadata.version": 34}), state()).judgement == "refused"


def test_brokers_that_were_not_asked_make_a_rise_unknown() -> None:
    """A registered broker refuses it too."""
    where = ClusterState(
        finalized={"metadata.version": AT_3_9}, brokers=(), controllers=(node(8),), leader=8, speaks=ApiRange(0, 2)
    )
    assert one(RAISE, where).judgement == "unknown"
    assert "brokers were not asked" in one(RAISE, where).text


def test_a_voter_that_no_controller_lists_makes_a_rise_unknown() -> None:
    """It has not registered yet."""
    said = one(RAISE, state(node(8), voters=frozenset({8, 9})))
    assert (said.judgement, "have not registered" in said.text, "9" in said.text) == ("unknown", True, True)


@pytest.mark.parametrize(("level", "judgement"), [(AT_3_9, "unknown"), (14, "accepted")])
def test_a_bootstrap_list_of_controllers_may_lack_a_registered_one(level: int, judgement: str) -> None:
    """Before metadata.version 3.7-IV0 no controller registers."""
    where = state(node(8), registered=False, level=level, voters=frozenset({8, 9}))
    assert one(RAISE, where).judgement == judgement


def test_a_controller_that_has_gone_is_told_from_one_that_is_down() -> None:
    """Both count with their registration, and each has another advice."""
    voters = frozenset({8, 9})
    down = one(RAISE, state(node(8), node(9, silent=True), voters=voters))
    assert (down.judgement, "it is a voter, so start it" in down.text) == ("unknown", True)
    gone = one(RAISE, state(node(8), node(9), node(10, silent=True), voters=voters))
    assert gone.judgement == "unknown"
    assert "controller 10 (n10:9) is registered, is not a voter, and does not answer" in gone.text
    assert "start a controller with node.id=10" in gone.text


def test_without_the_voters_a_silent_controller_is_silent() -> None:
    """The right to describe the quorum may be missing; and below 3.7-IV0 no registration counts."""
    for where in (state(node(8), node(9, silent=True)), state(node(8), node(9, silent=True), level=14)):
        text = one(RAISE, where).text
        assert "voter" not in text


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


@contextmanager
def one_is_left() -> Iterator[FakeCluster]:
    """Roll a cluster of 3.9 to 4.2, but for a controller that is stopped."""
    with FakeCluster(3, controllers=4, release="3.9") as cluster:
        cluster.stop(3003)
        for node_id in (3000, 3001, 3002, 1, 2, 3):
            cluster.roll(node_id, "4.2")
        yield cluster


def test_a_plan_accepts_nothing_that_a_stopped_controller_refuses() -> None:
    """The active controller answers "Controller 3003 only supports versions 1-21"."""
    with one_is_left() as cluster:
        admin = Admin(cluster.bootstrap)
        alone = admin.plan(RAISE)
        asked = admin.plan(RAISE, controllers=cluster.bootstrap_controllers)
    assert (alone.judgement, asked.judgement) == ("unknown", "unknown")
    assert "controller 3003" in asked.updates[0].text


def test_a_plan_names_a_controller_that_is_registered_and_is_no_voter() -> None:
    """It was removed from the quorum, and its registration stayed."""
    with FakeCluster(1, controllers=3, release="4.2", finalized={"metadata.version": AT_3_9}) as cluster:
        cluster.voters = (3000, 3001)
        gone = cluster.broker(3002)
        gone.stop()
        made = Admin(cluster.bootstrap).plan(RAISE, controllers=cluster.bootstrap_controllers)
    assert made.judgement == "unknown"
    assert (
        f"controller 3002 ({gone.address}) is registered, is not a voter, and does not answer" in made.updates[0].text
    )
    assert any("controller 3002" in note and "is not a voter" in note for note in made.notes)


def test_the_voters_come_from_any_node() -> None:
    """Brokers forward the request to the active controller."""
    with FakeCluster(2, controllers=2) as cluster:
        for where in (
            {"bootstrap.servers": cluster.bootstrap},
            {"bootstrap.controllers": cluster.bootstrap_controllers},
        ):
            assert asyncio.run(fetch_quorum(Settings.parse(where))) == Quorum(voters=frozenset({3000, 3001}))


def test_the_plan_of_an_admin_counts_voters_and_latches() -> None:
    """Whether brokers are asked, or controllers, or both."""
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
    """The plan goes on without them."""
    with FakeCluster(1, controllers=1, api_ranges={18: (0, 4), 57: (0, 2), 60: (0, 2), 55: (0, 2)}) as cluster:
        cluster.broker(1).cut_once(api="DescribeQuorum")
        made = Admin(cluster.bootstrap).plan(RAISE)
    assert any(note.startswith("the voters are not known") for note in made.notes)
