"""The stream of OFREP: clients learn where it is, and when to fetch all flags again."""

from dataclasses import replace
from typing import Any

import requests
from event_source import Event, listening
from relay_on_socket import serving

from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.access.authentication import Access
from featuregate_relay.access.clients import RelayClient

BOUND = 60.0
FLAGS = "/v1/clusters/orders/ofrep/v1/evaluate/flags"
VIEW = release_view("3.9")
UPGRADED = replace(release_view("4.2"), epoch=10_000)
REFETCH: tuple[str, Any] = ("message", {"type": "refetchEvaluation"})


def kind_and_data(event: Event) -> tuple[str, Any]:
    return event.kind, event.data


def test_all_flags_name_a_stream_that_needs_no_header() -> None:
    """A browser's EventSource sends none. It tells of each change, and also on each connect, by either base path."""
    features = StaticFeatures(VIEW)
    with serving({"orders": features}) as url:
        for path, stream in (
            (FLAGS, "/v1/clusters/orders/ofrep/v1/events"),
            ("/ofrep/v1/evaluate/flags", "/ofrep/v1/events"),
        ):
            bulk = requests.post(url + path, json={}, timeout=BOUND).json()
            assert bulk["eventStreams"] == [{"type": "sse", "endpoint": {"requestUri": stream}}]
            with listening(url + stream) as events:
                assert kind_and_data(next(events)) == REFETCH
        features.show(replace(VIEW, epoch=VIEW.epoch + 1))
        with listening(url + stream) as events:
            assert kind_and_data(next(events)) == REFETCH
            features.show(UPGRADED)
            assert kind_and_data(next(events)) == REFETCH


def test_a_client_with_a_key_gets_no_url_with_a_secret() -> None:
    """It asks for all flags again at times; a stream opens with the key in a header alone."""
    access = Access(certificate=RelayClient("web", None))
    with serving({"orders": StaticFeatures(VIEW)}, access=access) as url:
        bulk = requests.post(url + FLAGS, json={}, timeout=BOUND)
        assert sorted(bulk.json()) == ["flags", "metadata"]
        again = requests.post(url + FLAGS, json={}, headers={"If-None-Match": bulk.headers["ETag"]}, timeout=BOUND)
        assert again.status_code == 304
    with serving({"orders": StaticFeatures(VIEW)}, access=Access()) as url:
        for path in ("/v1/clusters/orders/events?ticket=a", "/v1/clusters/orders/ofrep/v1/events?api-key=a"):
            assert requests.get(url + path, timeout=BOUND).status_code == 401


def test_scripts_of_known_pages_see_what_they_need() -> None:
    """ETag, for 304s, and Retry-After. A preflight request has no credentials."""
    access = Access()
    page = "https://console.example"
    with serving({"orders": StaticFeatures(VIEW)}, access=access, origins=[page]) as url:
        headers = "content-type, if-none-match, x-api-key"
        asked = {"Origin": page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": headers}
        preflight = requests.options(url + FLAGS, headers=asked, timeout=BOUND)
        assert (preflight.status_code, preflight.headers["Access-Control-Allow-Origin"]) == (200, page)
        refused = requests.post(url + FLAGS, json={}, headers={"Origin": page}, timeout=BOUND)
        exposed = refused.headers["Access-Control-Expose-Headers"]
        assert {"ETag", "Retry-After", "Featuregate-Age"} <= set(exposed.split(", "))
        other = requests.post(url + FLAGS, json={}, headers={"Origin": "https://other.example"}, timeout=BOUND)
        assert "Access-Control-Allow-Origin" not in other.headers
