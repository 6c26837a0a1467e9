"""What the active controller may go by, from what was seen of a cluster: the likeliest possibility first."""

from dataclasses import replace

import pytest

from featuregate.admin.prediction import RULES_CHANGED_IN, ClusterState, predict
from featuregate.admin.registrations import Quorum
from featuregate.admin.updates import upgrade
from featuregate.testing import release_view
from featuregate.view.answers import ApiRange, Failure
from featuregate.view.cluster_view import View

UPDATE_FEATURES = 57
OF_4 = [(4, 2, 0), (4, 2, 1), (4, 1, 0), (4, 1, 1), (4, 0, 0)]
"""Nodes of 3.9 report the level of a record, which these do not go by."""


def seen(*releases: str, level: int = 21, newest: int | None = None, role: str = "broker") -> View:
    view = release_view(*releases, epoch=50, finalized={"metadata.version": level, "kraft.version": 1})
    if newest is not None:
        served = {UPDATE_FEATURES: ApiRange(0, newest)}
        brokers = tuple(replace(node, api_ranges={**node.api_ranges, **served}) for node in view.brokers)
        view = replace(view, brokers=brokers, api_ranges={**view.api_ranges, **served})
    return replace(view, role=role)  # type: ignore[arg-type]  # broker or controller


def possible(brokers: View | None, controllers: View | None = None) -> list[tuple[int, ...]]:
    of = ClusterState.of(brokers, controllers).possibilities()
    return [(*each.release, -1 if each.levels is None else each.levels["kraft.version"]) for each in of]


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        (seen("3.9"), [(3, 7, 1), *OF_4]),
        (seen("3.9", level=6), [(3, 7, 1), (3, 3, 1)]),
        (seen("3.9", level=7), [(3, 7, 1), (3, 3, 1), *OF_4]),
        (seen("3.3", level=4), [(3, 3, 1), (3, 7, 1)]),
        (seen("3.5", level=11), [(3, 3, 1), *OF_4, (3, 7, 1)]),
        (seen("4.0"), [(4, 0, 0), (4, 2, 1), (4, 1, 1)]),
        (seen("4.1", level=25), [(4, 1, 1), (4, 0, 0), (4, 2, 1)]),
        (seen("4.2"), [(4, 2, 1), (4, 1, 1), (4, 0, 0)]),
        (seen("4.2", level=29), [(4, 2, 1)]),
        (seen("4.2", newest=1), [(3, 7, 0), (3, 7, 1)]),
        (seen("4.0", newest=1), [(3, 7, 0), (3, 7, 1)]),
        (seen("3.9", "4.2"), OF_4),
        (seen("3.9", "4.2", newest=1), [(3, 7, 0), (3, 7, 1)]),
    ],
)
def test_brokers_leave_these_controllers_possible(brokers: View, expected: list[tuple[int, ...]]) -> None:
    """Controllers run what is finalized, and brokers of 4.0 or newer show what theirs serves."""
    assert possible(brokers) == expected


def test_a_broker_that_lists_no_update_features_shows_what_its_controllers_serve() -> None:
    """Where the controllers list it."""
    view = seen("4.2")
    bare = tuple(replace(node, api_ranges={}) for node in view.brokers)
    state = ClusterState(finalized=view.finalized, brokers=bare, speaks=ApiRange(0, 2))
    assert [each.release for each in state.possibilities()] == [(4, 2), (4, 1), (4, 0)]


@pytest.mark.parametrize(
    ("brokers", "controllers", "expected"),
    [
        (seen("3.9"), ["3.9"], [(3, 9, 1)]),
        (seen("3.9"), ["4.0"], [(4, 0, 0)]),
        (seen("3.9"), ["4.2"], [(4, 2, 0), (4, 2, 1)]),
        (seen("4.2"), ["3.9"], [(3, 9, 0), (3, 9, 1)]),
        (seen("4.0"), ["4.1"], [(4, 1, 1)]),
        (None, ["4.0", "4.1"], [(4, 1, 1), (4, 0, 0)]),
        (None, ["3.9", "4.2"], [(4, 2, 0), (4, 2, 1), (3, 9, 0), (3, 9, 1)]),
    ],
)
def test_controllers_that_were_asked_decide(
    brokers: View | None, controllers: list[str], expected: list[tuple[int, ...]]
) -> None:
    """Where it is not known which of them is active, each may be; where it is, that one alone counts."""
    asked = seen(*controllers, role="controller")
    assert possible(brokers, asked) == expected
    last = len(controllers)
    (major, minor, _), *_ = possible(brokers, replace(asked, controller_id=last))
    assert f"{major}.{minor}" == controllers[-1]
    state = ClusterState.of(brokers, replace(asked, controller_id=last))
    others = [[node.node_id for node in each.controllers] for each in state.possibilities()]
    assert others[0] == [node.node_id for node in asked.brokers if node.node_id != last]


def test_a_silent_controller_may_be_of_any_release() -> None:
    """Where it may be the active one."""
    silent = release_view("3.9", "4.2", silent=[2], epoch=50, finalized={"metadata.version": 21, "kraft.version": 1})
    assert possible(seen("3.9"), replace(silent, role="controller")) == possible(seen("3.9"))
    unknown = replace(seen("3.9"), epoch=-1)
    assert [each[-1] for each in possible(unknown)] == [-1] * 5


@pytest.mark.parametrize(("known", "voters"), [(True, {1}), (False, None)])
def test_a_silent_controller_is_told_by_the_quorum(*, known: bool, voters: set[int] | None) -> None:
    """One that is no voter has gone, with the advice for the newest release that the active one may have."""
    view = replace(seen("3.8", "3.8", level=19), role="controller", controller_id=1)
    gone = replace(view.brokers[1], failure=Failure("TimedOut", "no answer"))
    quorum = Quorum(voters=None if voters is None else frozenset(voters))
    state = ClusterState.of(None, replace(view, brokers=(view.brokers[0], gone)), quorum)
    ((silent,),) = [each.controllers for each in state.possibilities()]
    assert ("upgrade the controllers to 3.9 or newer" in silent.unknown_because) is known
    assert ("is silent, and counts with the levels of its registration" in silent.unknown_because) is not known
    assert (silent.node_id, silent.supported) == (2, None)


def test_where_possibilities_differ_the_one_that_is_unknown_says_why() -> None:
    """A controller of 4.0 accepts it, and with 4.1 or newer the quorum decides."""
    brokers = release_view("4.0", epoch=50, finalized={"metadata.version": 25, "kraft.version": 0})
    (said,) = predict(upgrade({"kraft.version": 1}), ClusterState.of(brokers, None))
    assert (said.judgement, said.text) == (
        "unknown",
        "only the leader of the quorum knows whether every voter supports it",
    )


def test_the_views_of_brokers_and_controllers_are_combined() -> None:
    """Levels are those of the controllers, where they know them, and versions those of the brokers."""
    brokers = replace(seen("4.2", level=29, newest=2), controller_id=7)
    controllers = seen("4.2", level=28, newest=1, role="controller")
    both = ClusterState.of(brokers, controllers)
    assert (both.level("metadata.version"), both.speaks, both.leader) == (28, ApiRange(0, 2), None)
    assert (both.brokers, both.controllers, both.registered) == (brokers.brokers, controllers.brokers, True)
    unknown = ClusterState.of(brokers, replace(controllers, epoch=-1, broker_list="bootstrap"))
    assert (unknown.level("metadata.version"), unknown.registered) == (29, False)
    alone = ClusterState.of(brokers, None)
    assert (alone.controllers, alone.leader, alone.registered) == ((), 7, False)
    neither = ClusterState.of(None, None)
    assert (neither.finalized, neither.speaks, neither.leader) == (None, None, None)
    assert next(neither.possibilities()).release == RULES_CHANGED_IN[-1]
    assert ClusterState.of(replace(brokers, epoch=0), None).level("metadata.version") == 29
