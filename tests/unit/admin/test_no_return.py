"""Which levels cannot be lowered again, beside the controller of a fake cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.admin.no_return import (
    NoReturn,
    WayBack,
    first_release_with,
    lowest_reachable,
    may_be_in_log,
    no_return,
    way_back,
)
from featuregate.admin.updates import downgrade, upgrade
from featuregate.catalog import METADATA_VERSION, captured, features, metadata_levels
from featuregate.testing import FakeCluster, release_view


@given(st.integers(7, 30), st.integers(7, 30))
def test_a_level_returns_exactly_where_the_controller_lets_it(before: int, after: int) -> None:
    if after <= before:
        return
    raised = FakeCluster(1, release="4.3", finalized={METADATA_VERSION: after})
    answer = raised.update(downgrade({METADATA_VERSION: before}))
    assert answer is not None
    back = answer.error_code == 0
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
    """They do not start: the levels are those of real nodes of each release."""
    first = first_release_with(METADATA_VERSION, 23)
    assert first == "4.0"
    older = list(captured())[: list(captured()).index(first)]
    assert all(captured()[release].features.get(METADATA_VERSION, (0, 0))[1] < 23 for release in older)
    assert first_release_with(METADATA_VERSION, 999) is None


def test_other_features_go_down_to_0() -> None:
    """Only metadata.version and kraft.version do not; of the others, the effects of one stay."""
    others = {name: 1 for name in features() if name not in {METADATA_VERSION, "kraft.version"}}
    (stays,) = no_return(upgrade(others), {})
    assert str(stays) == (
        "eligible.leader.replicas.version: 1 can be lowered again, and min.insync.replicas stays as it has changed it"
    )
    assert {lowest_reachable(feature, 1) for feature in others} == {0}


@pytest.mark.parametrize(
    ("feature", "before", "level", "lower_to", "release"),
    [
        ("group.version", 0, 1, 0, "4.0"),
        ("transaction.version", 0, 2, 0, "4.0"),
        ("eligible.leader.replicas.version", 0, 1, 0, "4.0"),
        ("share.version", 0, 1, 0, "4.1"),
        ("share.version", 1, 2, 1, "4.4"),
        ("streams.version", 0, 1, 0, "4.2"),
        (METADATA_VERSION, 27, 29, 27, "4.2"),
        (METADATA_VERSION, 21, 29, 23, "4.2"),
        ("bogus.version", 0, 1, 0, None),
    ],
)
def test_a_level_that_rises_names_the_releases_that_do_not_start_with_it(
    feature: str, before: int, level: int, lower_to: int, release: str | None
) -> None:
    assert way_back(upgrade({feature: level}), {feature: before}) == (WayBack(feature, level, lower_to, release),)


def test_a_level_with_which_the_same_releases_start_closes_no_way_back() -> None:
    assert way_back(upgrade({METADATA_VERSION: 29}), {METADATA_VERSION: 28}) == ()
    assert way_back(upgrade({"group.version": 1}), {"group.version": 1}) == ()
    assert way_back(upgrade({"kraft.version": 1}), {}) == ()


@pytest.mark.parametrize(
    ("levels", "wanted", "found"),
    [
        (
            {METADATA_VERSION: 21},
            {METADATA_VERSION: 21, "group.version": 0},
            {METADATA_VERSION: 22, "group.version": 1},
        ),
        (
            {METADATA_VERSION: 21, "kraft.version": 1},
            {METADATA_VERSION: 21, "kraft.version": 0},
            {METADATA_VERSION: 22},
        ),
        (
            {METADATA_VERSION: 29},
            {METADATA_VERSION: 27, "streams.version": 0, "group.version": 1},
            {"streams.version": 1},
        ),
        ({METADATA_VERSION: 27}, {METADATA_VERSION: 25, "eligible.leader.replicas.version": 0}, {}),
        ({}, {"group.version": 0}, {"group.version": 1}),
        ({"group.version": 1}, {"group.version": 0}, {}),
        ({METADATA_VERSION: 30}, {METADATA_VERSION: 30, "streams.version": 1}, {}),
    ],
)
def test_nothing_to_lower_does_not_clear_the_metadata_log(
    levels: dict[str, int], wanted: dict[str, int], found: dict[str, int]
) -> None:
    """A level that was raised and lowered is in no view: these nodes support it, and the older release does not."""
    assert may_be_in_log(release_view("4.3", finalized=levels, epoch=50), downgrade(wanted)) == found


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
    assert (
        no_return(upgrade({METADATA_VERSION: 21, "kraft.version": 1}), {METADATA_VERSION: 21, "kraft.version": 1}) == ()
    )


def test_a_level_that_is_not_known_may_not_return() -> None:
    (lost,) = no_return(upgrade({METADATA_VERSION: 999}), {METADATA_VERSION: 29})
    assert str(lost) == "metadata.version: this featuregate does not know 999, nor whether it can be lowered again"
    assert no_return(upgrade({METADATA_VERSION: 999}), {METADATA_VERSION: 999}) == ()
