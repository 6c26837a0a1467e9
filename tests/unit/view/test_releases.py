"""Which release a node runs, by what it advertises."""

from dataclasses import replace

import pytest

from featuregate.catalog import METADATA_VERSION, captured_releases
from featuregate.testing import release_view
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure, SupportedRange
from featuregate.view.releases import (
    lacks_of_release,
    release_of_broker,
    release_of_level,
    release_of_node,
    releases_of_brokers,
)


def a_broker(release: str) -> BrokerAnswer:
    (found,) = release_view(release).brokers
    return found


@pytest.mark.parametrize("release", captured_releases())
def test_a_broker_of_each_release_is_recognised(release: str) -> None:
    """It has all that its release has, and lacks something of the next one."""
    found = release_of_broker(a_broker(release))
    assert found is not None
    assert (found.release, lacks_of_release(a_broker(release), release)) == (release, ())
    newer = captured_releases()[captured_releases().index(release) + 1 :]
    assert all(lacks_of_release(a_broker(release), each) for each in newer)


def test_what_is_not_told_apart_is_named() -> None:
    """With ZooKeeper 3.3 and 3.4 have the same APIs, and a broker that is newer than the catalog has all."""
    with_zookeeper = replace(a_broker("3.4"), supported={})
    newest = captured_releases()[-1]
    assert str(release_of_broker(with_zookeeper)) == "3.3 or 3.4"
    assert str(release_of_broker(a_broker("3.4"))) == "3.4"
    assert str(release_of_broker(a_broker(newest))) == f"{newest} or newer"


def test_what_is_no_broker_that_answered_has_no_known_release() -> None:
    """Nor has a broker that lacks what the oldest release has."""
    found = a_broker("4.2")
    silent = BrokerAnswer(node_id=1, host="b", port=1, failure=Failure("TimedOut", "5 s"))
    odd = replace(found, api_ranges={0: ApiRange(0, 1)})
    for each in (replace(found, role="controller"), silent, odd):
        assert release_of_broker(each) is None
    assert lacks_of_release(replace(found, api_ranges={}), "0.10.0")[0] == "Produce 2"


def test_brokers_that_serve_the_same_are_judged_once() -> None:
    """A view of 1,000 brokers has a few kinds of them."""
    one, other = a_broker("4.1"), replace(a_broker("4.1"), node_id=2, host="b2")
    assert lacks_of_release(one, "4.2")
    assert lacks_of_release(one, "4.2") is lacks_of_release(other, "4.2")


def test_a_level_that_is_lower_makes_an_older_release() -> None:
    """The APIs of a build between two releases may be those of the newer one."""
    between = replace(a_broker("4.2"), supported={METADATA_VERSION: SupportedRange(7, 28)})
    assert str(release_of_broker(between)) == "4.1"
    assert lacks_of_release(between, "4.2") == ("metadata.version 4.2-IV1",)


@pytest.mark.parametrize(("level", "release"), [(21, (3, 9)), (29, (4, 2)), (10_000, None), (0, None)])
def test_a_node_shows_its_release_by_its_metadata_version(level: int, release: tuple[int, ...] | None) -> None:
    """Also a controller; one that reports none may be of any."""
    node = replace(
        a_broker("4.2"), role="controller", supported={METADATA_VERSION: SupportedRange(min(1, level), level)}
    )
    newest = release_of_level(10_000)
    assert release_of_node(node) == (release or (newest if level else None))


def test_the_releases_of_brokers_go_by_their_age() -> None:
    """And not by their text."""
    brokers = [replace(a_broker(release), node_id=at) for at, release in enumerate(("3.9", "0.11.0", "4.2", "3.9"))]
    assert releases_of_brokers(replace(release_view("4.2"), brokers=tuple(brokers))) == ("0.11.0", "3.9", "4.2")
    assert releases_of_brokers(replace(release_view("4.2"), brokers=())) == ()
