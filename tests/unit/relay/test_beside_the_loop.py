"""What grows with a cluster is made beside the event loop, which serves the clients of all clusters."""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

import pytest
import requests
from relay_on_socket import serving
from waiting import eventually

from featuregate import View
from featuregate.testing import StaticFeatures, release_view
from featuregate.view.answers import ApiRange
from featuregate.view.merging import merge
from featuregate_relay.clusters import ClusterThread
from featuregate_relay.states import CurrentState, revision_of, size_of
from featuregate_relay.views.view_body import MOST_ELEMENTS, ViewBody

BOUND = 30.0
VIEW = "/v1/clusters/slow/view"


def large_view(brokers: int = 100, **changes: Any) -> View:
    return replace(release_view(*["4.2"] * brokers), **changes)


@pytest.mark.parametrize(
    ("makes", "path"),
    [
        ("featuregate_relay.views.view_answers.ViewBody", VIEW),
        ("featuregate_relay.views.view_body.with_latched", VIEW),
        ("featuregate_relay.views.view_body.gzip.compress", VIEW),
        ("featuregate_relay.app.exposition", "/metrics"),
        ("featuregate.testing.static.StaticFeatures.evaluate", "/v1/clusters/slow/check?require=kip848"),
        ("featuregate_relay.app.decision_json", "/v1/clusters/slow/check?require=kip848"),
        ("featuregate_relay.page.rendering.compare", "/clusters/slow"),
    ],
)
def test_a_large_cluster_holds_up_no_other_request(makes: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe and another cluster are answered while the response for a large one is made."""
    asked, may_end = threading.Event(), threading.Event()
    make: Callable[..., Any] = resolve_name(makes)

    def slow(*args: Any, **named: Any) -> Any:
        if threading.current_thread().name != "relay" and not asked.is_set():
            asked.set()
            assert may_end.wait(BOUND)
        return make(*args, **named)

    answers: list[int] = []
    others = {"slow": StaticFeatures(large_view()), "other": StaticFeatures(release_view("4.2"))}
    with serving(others) as url:
        requests.get(f"{url}/v1/clusters/other/view", timeout=BOUND)
        monkeypatch.setattr(makes, slow)
        waits = threading.Thread(target=lambda: answers.append(requests.get(url + path, timeout=BOUND).status_code))
        waits.start()
        try:
            assert asked.wait(BOUND)
            for other in ("/healthz", "/readyz", "/v1/clusters", "/v1/clusters/other/view"):
                assert requests.get(url + other, timeout=BOUND).status_code == 200
            check = requests.get(f"{url}/v1/clusters/other/check?require=zstd", timeout=BOUND)
            assert (check.status_code, check.json()["open"]) == (200, True)
        finally:
            may_end.set()
            waits.join(BOUND)
    assert answers == [200]


def test_the_state_of_a_large_view_is_made_later() -> None:
    """Until then the state before is the current one, and one call makes it, however many look."""
    calls: list[Callable[[], object]] = []
    features = StaticFeatures()
    current = CurrentState(features, (), calls.append)
    assert current() is None
    features.show(large_view())
    assert [current(), current(), current.is_behind] == [None, None, True]
    calls.pop()()
    assert not calls
    first = current()
    assert first is not None
    assert first.revision == revision_of(large_view())
    features.show(large_view(101))
    assert current() is first
    calls.pop()()
    assert current() is current.made() is not first
    features.show(release_view("4.2"))
    assert not calls
    assert current() is not None
    assert not current.is_behind


def test_a_stream_of_a_large_cluster_begins_with_its_state() -> None:
    with (
        serving({"slow": StaticFeatures(large_view())}) as url,
        requests.get(f"{url}/v1/clusters/slow/events", timeout=BOUND, stream=True) as stream,
    ):
        lines = stream.iter_lines()
        data = next(line for line in lines if line.startswith(b"data: "))
    assert json.loads(data[6:])["revision"] == revision_of(large_view())


def test_brokers_that_answer_alike_are_read_once() -> None:
    """The largest cluster has thousands of brokers; the revision is the same for answers that share nothing."""
    one = large_view(3)
    apart = replace(one, brokers=tuple(replace(each, api_ranges=dict(each.api_ranges)) for each in one.brokers))
    assert revision_of(apart) == revision_of(one)
    assert apart.to_json() == one.to_json()
    assert View.from_json(one.to_json()) == one


def view_with(elements: int) -> View:
    answer = replace(release_view("4.2").brokers[0], supported={}, finalized={})
    per_broker = 500
    full = replace(answer, api_ranges={key: ApiRange(0, 1) for key in range(per_broker)})
    brokers = [replace(full, node_id=number) for number in range(elements // per_broker)]
    rest = replace(answer, node_id=9999, api_ranges={key: ApiRange(0, 1) for key in range(elements % per_broker)})
    return merge([*brokers, rest], cluster_id="c", seen_at=1.0)


@pytest.mark.parametrize(("elements", "sent"), [(MOST_ELEMENTS, True), (MOST_ELEMENTS + 1, False)])
def test_a_view_is_sent_up_to_a_size(elements: int, *, sent: bool) -> None:
    """Otherwise a hostile broker decides how much memory a body takes. The response says why."""
    view = view_with(elements)
    assert size_of(view) == elements
    assert (ViewBody(view).problem is None) is sent


def test_a_view_that_is_too_large_is_refused() -> None:
    with serving({"slow": StaticFeatures(view_with(MOST_ELEMENTS + 1))}) as url:
        response = requests.get(url + VIEW, timeout=BOUND)
        tag = requests.get(url + VIEW, headers={"If-None-Match": "*"}, timeout=BOUND)
    assert [response.status_code, tag.status_code] == [503, 503]
    assert f"{MOST_ELEMENTS + 1} API ranges and features" in response.json()["error"]


def test_a_call_runs_once_for_all_that_wait_for_it() -> None:
    """Thousands of long polls wake with the next view. One that leaves takes nothing from the others."""

    async def many() -> list[int]:
        worker, made, may_end = ClusterThread(most=1), list[int](), threading.Event()

        def make() -> int:
            assert may_end.wait(BOUND)
            made.append(1)
            return len(made)

        waits = [asyncio.create_task(worker.run_once("body", make)) for _ in range(100)]
        await asyncio.sleep(0)
        waits[0].cancel()
        await asyncio.wait([waits[0]])
        may_end.set()
        found = [await each for each in waits[1:]]
        assert await worker.run_once("body", make) == 2
        worker.close()
        return found

    assert asyncio.run(many()) == [1] * 99


def test_no_thread_of_a_relay_survives_it() -> None:
    def threads() -> set[threading.Thread]:
        return {each for each in threading.enumerate() if each.name.startswith("featuregate-relay")}

    before = threads()
    with serving({"slow": StaticFeatures(large_view())}) as url:
        requests.get(url + VIEW, timeout=BOUND)
        assert threads() - before
    eventually(lambda: not threads() - before)
