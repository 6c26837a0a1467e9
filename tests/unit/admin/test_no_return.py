"""Which levels cannot be lowered again, beside the simulated controller."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from featuregate.admin.no_return import NoReturn, first_release_with, lowest_reachable, no_return
from featuregate.admin.plans import plan
from featuregate.admin.updates import moving, to_release, upgrade
from featuregate.catalog import METADATA_VERSION, captured, features, metadata_levels
from featuregate.testing import release_view
from featuregate.testing import simulator as sim
from featuregate.testing.simulator.events import ClusterEvent
from featuregate.testing.simulator.kraft.cluster import KRaftCluster


def accepts(cluster: KRaftCluster, update: ClusterEvent) -> bool:
    """Whether the simulated controller takes an update."""
    answer = sim.apply(cluster, update).response
    assert answer is not None
    return not any(one.error_code for one in (answer, *answer.results))


@given(st.integers(7, 30), st.integers(7, 30))
def test_a_level_returns_exactly_where_the_controller_lets_it(before: int, after: int) -> None:
    """A cluster of 4.3 that was raised is asked to go back to where it was."""
    if after <= before:
        return
    raised = sim.KRaft("4.3", brokers=1, controllers=0, levels={METADATA_VERSION: after}).create()
    back = accepts(raised, sim.downgrade({METADATA_VERSION: before}))
    lost = no_return(upgrade({METADATA_VERSION: after}), {METADATA_VERSION: before})
    assert back is not bool(lost)


@given(st.sampled_from(sorted(metadata_levels())))
def test_the_lowest_level_can_be_reached_and_none_below(level: int) -> None:
    """No level in between changed the metadata."""
    lowest = lowest_reachable(METADATA_VERSION, level)
    assert lowest is not None
    assert not any(metadata_levels()[one].did_metadata_change for one in range(lowest + 1, level + 1))
    assert lowest == 1 or metadata_levels()[lowest].did_metadata_change


def test_older_releases_do_not_support_the_lowest_level() -> None:
    """So they do not start: of real nodes of each release."""
    first = first_release_with(METADATA_VERSION, 23)
    assert first == "4.0"
    older = list(captured())[: list(captured()).index(first)]
    assert all(captured()[release].features.get(METADATA_VERSION, (0, 0))[1] < 23 for release in older)
    assert first_release_with(METADATA_VERSION, 999) is None


def test_other_features_go_down_to_0() -> None:
    """Only metadata.version and kraft.version do not."""
    others = {name: 1 for name in features() if name not in {METADATA_VERSION, "kraft.version"}}
    assert no_return(upgrade(others), {}) == ()
    assert {lowest_reachable(feature, 1) for feature in others} == {0}


def test_a_level_that_no_update_lowers_is_lost() -> None:
    """Where the lowest level is the one that was there, nothing is; the sentence names the release that starts yet."""
    (lost,) = no_return(upgrade({"kraft.version": 1}), {})
    assert lost == NoReturn("kraft.version", 1, 1, first_release_with("kraft.version", 1))
    assert str(lost) == (
        f"kraft.version: 1 cannot be lowered again, and Kafka before {lost.first_release} does not start any more"
    )
    assert str(lost._replace(first_release=None)) == "kraft.version: 1 cannot be lowered again"
    assert str(NoReturn(METADATA_VERSION, 29, 23, "4.0")) == (
        "metadata.version: 29 cannot be lowered below 23 (4.0-IV1) again, and Kafka before 4.0 does not start any more"
    )
    assert no_return(upgrade({METADATA_VERSION: 29}), {METADATA_VERSION: 23}) == ()
    assert len(no_return(upgrade({METADATA_VERSION: 29}), {METADATA_VERSION: 22})) == 1


def test_a_level_that_is_not_raised_is_not_lost() -> None:
    """What cannot be lowered is so already."""
    assert (
        no_return(upgrade({METADATA_VERSION: 21, "kraft.version": 1}), {METADATA_VERSION: 21, "kraft.version": 1}) == ()
    )


def test_a_level_that_is_not_known_may_not_return() -> None:
    """The sentence does not promise a release."""
    (lost,) = no_return(upgrade({METADATA_VERSION: 999}), {METADATA_VERSION: 29})
    assert str(lost) == "metadata.version: this featuregate does not know 999, nor whether it can be lowered again"
    assert no_return(upgrade({METADATA_VERSION: 999}), {METADATA_VERSION: 999}) == ()


def test_a_release_plan_can_be_accepted_and_says_what_is_lost() -> None:
    """From 3.9 to 4.2, with the controllers asked."""
    view = release_view("4.2", finalized={METADATA_VERSION: 21, "kraft.version": 0}, epoch=50)
    moves = moving(to_release("4.2"), view)
    made = plan(view, moves.updates, controllers=replace(view, role="controller"), left_out=moves.left_out)
    assert made.judgement == "accepted"
    assert "  no return  metadata.version: 29 cannot be lowered below 23 (4.0-IV1) again, and Kafka before 4.0" in str(
        made
    )


def test_a_refused_update_takes_nothing_away() -> None:
    """The plan has no such line then."""
    view = release_view("4.2", finalized={METADATA_VERSION: 21}, epoch=50)
    assert plan(view, upgrade({METADATA_VERSION: 33})).no_return == ()
