"""The entity tag of a view is one of content, and headers say of which poll the view is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import pytest
from apps_in_process import answered_after, call
from hypothesis import given
from relay_on_socket import serving
from waiting import BOUND

import featuregate as fg
from featuregate.sources.relay_responses import freshness_of, renewed
from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.app import PolledCluster, make_app

if TYPE_CHECKING:
    from starlette.types import ASGIApp

PATH = "/v1/clusters/default/view"
HOUR = 3600.0
VIEW = release_view("4.2", "4.2", epoch=5)


def later(view: fg.View, *, polls: int = 1, reported: bool = True) -> fg.View:
    brokers = [
        replace(broker, epoch=broker.epoch + polls * reported, answered_at=broker.answered_at + 60 * polls)
        for broker in view.brokers
    ]
    return replace(view, epoch=view.epoch + polls, seen_at=view.seen_at + 60 * polls, brokers=tuple(brokers))


def relay(view: fg.View) -> tuple[StaticFeatures, ASGIApp]:
    features = StaticFeatures(view)
    return features, make_app({"default": PolledCluster(features, (features.gate("groups", "group.version>=2"),))})


def get(app: ASGIApp, query: str = "", **headers: str) -> tuple[int, dict[str, str]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return asyncio.run(call(app, PATH + query, named))[:2]


def tag_of(view: fg.View) -> str:
    return get(relay(view)[1])[1]["etag"]


def test_a_poll_that_finds_nothing_new_leaves_the_tag() -> None:
    """A client that has an earlier body gets 304, and learns of which poll the view is."""
    features, app = relay(VIEW)
    tag = get(app)[1]["etag"]
    features.show(later(VIEW))
    status, headers = get(app, If_None_Match=tag)
    assert (status, headers["etag"]) == (304, tag)
    assert tag.startswith("W/")
    assert (headers["featuregate-epoch"], headers["featuregate-seen-at"]) == ("6", repr(VIEW.seen_at + 60))


def test_replicas_share_the_tag_of_a_view() -> None:
    """They poll at other times, by other clocks, and with gates in another order."""
    assert tag_of(later(VIEW, polls=7)) == tag_of(VIEW)


@pytest.mark.parametrize(
    "other",
    [
        release_view("4.2", "4.1", epoch=5),
        release_view("4.2", "4.2", silent=[2], epoch=5),
        replace(VIEW, finalized={"group.version": 1}),
        replace(VIEW, finalized={"group.version": 2}),
        replace(VIEW, cluster_id="other"),
        later(VIEW, reported=False),
    ],
    ids=["ranges without an epoch", "silent", "level", "level that opens a gate", "cluster", "epoch not reported"],
)
def test_other_content_has_another_tag(other: fg.View) -> None:
    """Also where no broker reports the epoch any more: the levels of clients age then."""
    assert tag_of(other) != tag_of(VIEW)


def test_what_a_relay_has_latched_is_content() -> None:
    """Clients latch it, too, whatever the view says now."""
    features, app = relay(VIEW)
    features.show(release_view("4.2", "4.2", finalized={"group.version": 2}, epoch=6))
    features.show(later(VIEW, polls=2))
    assert get(app, If_None_Match=tag_of(VIEW))[0] == 200


def test_a_long_poll_waits_for_other_content() -> None:
    """Not for the next poll of the relay: its tag is all that a client without a revision sends."""
    features, app = relay(VIEW)
    request = call(app, f"{PATH}?wait=30", {"If-None-Match": get(app)[1]["etag"]})

    async def poll() -> int:
        waiting = asyncio.create_task(request)
        await asyncio.sleep(0)
        features.show(later(VIEW))
        other = release_view("4.2", "4.3", epoch=7)
        ((status, *_),) = await answered_after(lambda: features.show(other), waiting, silent=0.3)
        return status

    assert asyncio.run(poll()) == 200


def test_a_client_has_the_view_of_the_last_poll_without_its_body() -> None:
    """Its levels do not age while only the epoch moves, as KRaft's does twice a second."""
    features = StaticFeatures(VIEW)
    with (
        serving({"default": features}) as url,
        fg.Discoverer(source=fg.HttpSource(url, wait=0), interval=HOUR) as client,
    ):
        client.refresh(BOUND)
        newest = later(VIEW, polls=100)
        features.show(newest)
        assert client.refresh(BOUND) == newest
        features.show(later(newest, reported=False))
        behind = client.refresh(BOUND)
        assert behind.epoch == newest.epoch + 1
        assert {broker.epoch for broker in behind.brokers} == {newest.epoch}


@given(st.integers(9, 2**62), st.floats(0, 2e9), st.lists(st.integers(-1, 9), min_size=2, max_size=2))
def test_a_view_that_is_renewed_has_the_same_content(epoch: int, seen_at: float, reported: list[int]) -> None:
    """Brokers stay as far behind as they were."""
    brokers = [replace(broker, epoch=each) for broker, each in zip(VIEW.brokers, reported, strict=True)]
    view = replace(VIEW, epoch=9, brokers=tuple(brokers))
    new = renewed(view, freshness_of(replace(view, epoch=epoch, seen_at=seen_at)))
    assert new.same_content(view)
    assert (new.epoch, new.seen_at) == (epoch, seen_at)
    assert (max(reported) >= view.epoch) is (max(broker.epoch for broker in new.brokers) >= new.epoch)
    assert renewed(view, freshness_of(view)) is view


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Featuregate-Epoch": "7"},
        {"Featuregate-Epoch": "x", "Featuregate-Seen-At": "1"},
        {"Featuregate-Epoch": "-1", "Featuregate-Seen-At": "1"},
        {"Featuregate-Epoch": "7", "Featuregate-Seen-At": "nan"},
    ],
)
def test_headers_that_name_no_poll_are_refused(headers: dict[str, str]) -> None:
    """The content has an epoch, and without it the client could be taken back."""
    with pytest.raises(ValueError, match=r"there is no|none of this content|invalid literal"):
        renewed(VIEW, headers)
