"""A relay on a socket, its discoverer on fake brokers, and a discoverer of an app behind it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import requests
import uvicorn
from doc_pages import RELAY, ROOT, parsed
from waiting import eventually

import featuregate as fg
from featuregate.errors import RelayError
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_relay.app import make_app
from featuregate_relay.server import bind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

BOUND = 30.0
HOUR = 3600.0


@contextmanager
def serving(clusters: Mapping[str, fg.Discoverer]) -> Iterator[str]:
    """Serve the app on a free port, and give its URL."""
    listener = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(make_app(clusters), lifespan="off", log_config=None, http="httptools"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="relay")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(BOUND)
        listener.close()


def get(url: str, **headers: str) -> requests.Response:
    return requests.get(url, headers=headers, timeout=BOUND)


def test_a_gate_opens_through_the_relay() -> None:
    """And stays closed until the last broker is upgraded."""
    with (
        FakeCluster(3, release="3.9") as brokers,
        fg.Discoverer(brokers.bootstrap, interval=HOUR) as polling,
        serving({"default": polling}) as url,
    ):
        polling.refresh(BOUND)
        with fg.Discoverer(source=fg.HttpSource(url), interval=HOUR) as features:
            gate = features.gate("heartbeats", "ConsumerGroupHeartbeat>=1")
            features.refresh(BOUND)
            assert not gate.open
            assert features.view == polling.view
            for node in (1, 2, 3):
                brokers.broker(node).upgrade("4.2")
            polling.refresh(BOUND)
            features.refresh(BOUND)
            assert gate.open


def test_invariant_10_a_view_behind_a_relay_ages_when_the_brokers_are_gone() -> None:
    """The relay goes on answering, and its answers prove nothing new."""
    late = [0.0]
    with (
        FakeCluster(1) as brokers,
        fg.Discoverer(brokers.bootstrap, interval=HOUR, clock=lambda: late[0]) as polling,
        serving({"default": polling}) as url,
    ):
        polling.refresh(BOUND)
        with fg.Discoverer(source=fg.HttpSource(url), interval=HOUR, stale_after=60) as features:
            gate = features.gate("groups", "group.version>=1", policy="live")
            features.refresh(BOUND)
            assert gate.open
            late[0] = 61.0
            features.refresh(BOUND)
            assert not gate.open
            assert features.health()["status"] == "stale"


def test_an_unchanged_view_has_an_empty_answer() -> None:
    """304 with the age of the view, for weak tags and lists of tags, too."""
    view = release_view("4.2")
    with serving({"default": StaticFeatures(view)}) as url:
        first = get(f"{url}/v1/clusters/default/view")
        tag = first.headers["ETag"]
        assert fg.View.from_json(first.text) == view
        for condition in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = get(f"{url}/v1/clusters/default/view", **{"If-None-Match": condition})
            assert (again.status_code, again.content) == (304, b"")
            assert float(again.headers["Featuregate-Age"]) >= 0
        assert get(f"{url}/v1/clusters/default/view", **{"If-None-Match": '"other"'}).status_code == 200


def test_a_relay_is_ready_when_each_cluster_has_a_view() -> None:
    """It is alive before, and tells clients to come back."""
    late = StaticFeatures()
    with serving({"early": StaticFeatures(release_view("4.2")), "late": late}) as url:
        assert get(f"{url}/healthz").status_code == 200
        waiting = get(f"{url}/readyz")
        assert (waiting.status_code, waiting.json()["status"]) == (503, "waiting for brokers")
        assert get(f"{url}/v1/clusters/early/view").status_code == 200
        unknown = get(f"{url}/v1/clusters/late/view")
        assert (unknown.status_code, unknown.headers["Retry-After"]) == (503, "1")
        late.show(release_view("4.2"))
        ready = get(f"{url}/readyz")
        assert (ready.status_code, ready.json()["clusters"]["late"]["status"]) == (200, "ok")
        assert set(get(f"{url}/v1/clusters").json()["clusters"]) == {"early", "late"}


def test_a_cluster_that_the_relay_does_not_have_is_named() -> None:
    """With those that it has."""
    with serving({"orders": StaticFeatures(release_view("4.2"))}) as url:
        source = fg.HttpSource(url, cluster="order")
        with fg.Discoverer(source=source, interval=HOUR) as features, pytest.raises(RelayError, match="it has orders"):
            features.refresh(BOUND)


def test_a_relay_that_is_gone_leaves_latched_gates_open() -> None:
    """The client's health says what fails."""
    with (
        fg.Discoverer(source=fg.HttpSource("http://127.0.0.1:9", timeout=1), interval=HOUR) as features,
        pytest.raises(RelayError, match="cannot be reached: ConnectionRefusedError"),
    ):
        features.refresh(BOUND)
    with serving({"default": StaticFeatures(release_view("4.2"))}) as url:
        features = fg.Discoverer(source=fg.HttpSource(url), interval=HOUR).start()
        gate = features.gate("groups", "group.version>=1")
        eventually(lambda: gate.open)
    with features:
        with pytest.raises(RelayError):
            features.refresh(BOUND)
        assert gate.open
        assert "cannot be reached" in str(features.health()["reasons"])


@pytest.mark.parametrize("page", RELAY, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_block_of_the_page_runs(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The gate of the page opens."""
    with serving({"orders": StaticFeatures(release_view("4.2"))}) as url:
        for example in parsed(page, "", relay=url.removeprefix("http://")).examples():
            example.evaluate()
    assert capsys.readouterr().out == "use the new group protocol\n"
