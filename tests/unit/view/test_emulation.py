"""Views capped at a release: never wider than what brokers say, and the release itself where they have more."""

from dataclasses import replace

import pytest
from builders import broker, view
from hypothesis import given
from hypothesis import strategies as st
from strategies import requirements, views

from featuregate.catalog import CapturedRelease, captured, captured_releases
from featuregate.errors import ConfigError
from featuregate.gating.decisions import evaluate
from featuregate.requirements import Requirement
from featuregate.testing import release_view
from featuregate.view.answers import BrokerConfig, SupportedRange
from featuregate.view.cluster_view import View
from featuregate.view.emulation import emulated, release_to_emulate


@given(views(), requirements, st.sampled_from(captured_releases()))
def test_emulation_opens_nothing_that_the_view_does_not(view: View, requirement: Requirement, release: str) -> None:
    """Whatever brokers say, lies included."""
    capped = emulated(view, captured()[release])
    assert evaluate(view, requirement).open or not evaluate(capped, requirement).open


@given(st.sampled_from(captured_releases()), st.sampled_from(captured_releases()), requirements)
def test_emulation_of_a_real_release_opens_nothing_else(has: str, release: str, requirement: Requirement) -> None:
    """Also with the API ranges and levels of real brokers."""
    view = release_view(has)
    capped = emulated(view, captured()[release])
    assert evaluate(view, requirement).open or not evaluate(capped, requirement).open


@pytest.mark.parametrize("release", ["2.8", "3.3", "3.9", "4.0", "4.2"])
def test_a_newer_cluster_looks_like_the_release(release: str) -> None:
    """Its requirements on releases, APIs and levels hold up to it, and no further."""
    view = release_view("4.3", "4.3")
    capped = emulated(view, release_to_emulate(release))
    releases = captured_releases()
    newer = releases[releases.index(release) + 1]
    assert not evaluate(capped, f"release>={newer}").open
    for key, (_, highest) in captured()[release].apis.items():
        if (served := capped.api(key)) is not None:
            assert served.max <= highest
    assert {name: levels.max for name, levels in capped.supported.items()}.items() <= {
        name: highest for name, (_, highest) in captured()[release].features.items()
    }.items()
    assert capped.brokers[0].api_ranges is capped.brokers[1].api_ranges
    assert (capped.cluster_id, capped.epoch) == (view.cluster_id, view.epoch)


def test_an_older_cluster_stays_as_it_is() -> None:
    """A cap above what brokers have changes nothing that gates see."""
    view = release_view("3.9")
    capped = emulated(view, release_to_emulate("4.2"))
    assert (capped.finalized, capped.supported, capped.api_ranges) == (view.finalized, view.supported, view.api_ranges)


def test_a_real_minimum_of_produce_survives() -> None:
    """Brokers of 4.0 advertise Produce from 0 and refuse it; their Fetch, by which that is seen, is capped away."""
    capped = emulated(release_view("4.2"), release_to_emulate("0.10.0"))
    assert not evaluate(capped, "Produce in 0..2").open


@pytest.mark.parametrize("version", ["9.9", "x", "4.0.x", "", "3"])
def test_an_unknown_release_is_refused(version: str) -> None:
    """With those that are known."""
    with pytest.raises(ConfigError) as raised:
        release_to_emulate(version)
    known = ", ".join(captured_releases())
    assert str(raised.value) == f"emulate: no release {version!r} is known; known are {known}"


def test_a_broker_keeps_what_a_release_does_not_limit() -> None:
    """Its address, its time and its configs; what it deprecates as a cluster does that has ZooKeeper."""
    said = replace(
        broker(7, txn=4, x=3),
        supported={"x": SupportedRange(1, 3), "y": SupportedRange(4, 9)},
        finalized_min={"x": 2},
        configs={"a": BrokerConfig("1")},
    )
    release = CapturedRelease("1.0", apis={28: (0, 2)}, features={"x": (0, 2), "y": (0, 3)}, captured_from="")
    seen = view(said, replace(said, node_id=8))
    capped = emulated(seen, release)
    changed = {"api_ranges": {28: (0, 2)}, "supported": {"x": (1, 2)}, "finalized": {"x": 2}}
    assert capped.brokers[0] == replace(said, **changed)
    assert capped == replace(seen, **changed, brokers=(capped.brokers[0], replace(capped.brokers[0], node_id=8)))
    none = emulated(seen, release._replace(apis={28: (0, -1)}, features={"x": (0, 1)}))
    assert (none.api_ranges, none.supported, none.finalized) == ({}, {"x": (1, 1)}, {"x": 1})


def test_a_patch_counts_as_its_release() -> None:
    """Unless the patch has changed an API."""
    assert release_to_emulate("3.9.2").release == "3.9"
    assert release_to_emulate("4.0.1").apis[11] == (0, 9)
