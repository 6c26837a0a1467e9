"""A source that fetches views from a relay: what it makes of each answer, without a network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import requests
import responses

from featuregate import HttpSource
from featuregate.errors import ConfigError, RelayError
from featuregate.testing import release_view

if TYPE_CHECKING:
    from featuregate.sources.source import MergedView

URL = "http://relay:8080"
PATH = f"{URL}/v1/clusters/default/view"
VIEW = release_view("4.2")
HEADERS = {"ETag": '"one"', "Featuregate-Age": "2.5"}


@pytest.fixture
def relay():
    """A relay without a network."""
    with responses.RequestsMock() as mock:
        yield mock


def fetch(source: HttpSource) -> MergedView:
    return asyncio.run(source.fetch())


def test_a_view_is_as_old_as_the_relay_says_and_the_response_takes(relay):
    """The brokers answered before the relay did."""
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    fetched = fetch(HttpSource(f"{URL}/"))
    assert fetched.view == VIEW
    assert fetched.age >= 2.5
    assert fetched.age - fetched.transit == pytest.approx(2.5)


def test_time_in_a_cache_counts(relay):
    """A cache says it in ``Age``."""
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS | {"Age": "7"})
    assert fetch(HttpSource(URL)).age >= 9.5


def test_an_unchanged_view_is_not_sent_again(relay):
    """The source sends the entity tag, keeps the view, and takes its new age."""
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    relay.get(PATH, status=304, headers=HEADERS | {"Featuregate-Age": "40"})
    source = HttpSource(URL)
    first, second = fetch(source), fetch(source)
    assert "If-None-Match" not in relay.calls[0].request.headers
    assert relay.calls[1].request.headers["If-None-Match"] == '"one"'
    assert second.view is first.view
    assert second.age >= 40


def test_the_name_of_a_cluster_is_quoted(relay):
    """It may hold a slash."""
    relay.get(f"{URL}/v1/clusters/eu%2Forders/view", body=VIEW.to_json(), headers=HEADERS)
    source = HttpSource(URL, cluster="eu/orders")
    assert fetch(source).view == VIEW
    assert str(source) == "cluster eu/orders at http://relay:8080"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"status": 404, "json": {"error": "no cluster 'x'"}}, "the relay answered 404: no cluster 'x'"),
        ({"status": 503, "json": {"error": "no broker"}}, "the relay answered 503: no broker"),
        ({"status": 500, "body": "<h1>\x1b[31moops</h1>"}, "the relay answered 500: <h1>?[31moops</h1>"),
        ({"status": 302, "headers": {"Location": "http://elsewhere/"}}, "the relay answered 302: "),
        ({"status": 304}, "the relay answered 304: "),
        ({"body": "{}"}, "the response is not a view: "),
        ({"body": VIEW.to_json()}, "the response has no usable Featuregate-Age"),
        ({"body": VIEW.to_json(), "headers": {"Featuregate-Age": "-1"}}, "the response has no usable Featuregate-Age"),
        ({"body": VIEW.to_json(), "headers": {"Featuregate-Age": "nan"}}, "the response has no usable Featuregate-Age"),
        ({"body": requests.ConnectionError("refused")}, "the relay cannot be reached: ConnectionError"),
        ({"body": requests.ConnectTimeout()}, "the relay cannot be reached: ConnectTimeout"),
    ],
)
def test_an_answer_without_a_view_is_an_error_that_says_why(relay, answer, problem):
    """In one line, with the relay's address."""
    relay.get(PATH, **answer)
    with pytest.raises(RelayError) as raised:
        fetch(HttpSource(URL))
    assert str(raised.value).startswith(f"{URL}: {problem}")
    assert str(raised.value).isprintable()


def test_after_an_error_the_view_is_still_known(relay):
    """The relay may answer 304 to the next request."""
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    relay.get(PATH, status=503, json={"error": "draining"})
    relay.get(PATH, status=304, headers=HEADERS)
    source = HttpSource(URL)
    fetch(source)
    with pytest.raises(RelayError):
        fetch(source)
    assert fetch(source).view == VIEW


def test_a_response_has_a_largest_size(relay, monkeypatch):
    """A peer that never ends a response must not fill the memory."""
    monkeypatch.setattr("featuregate.sources.http._MOST_BYTES", 1000)
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    with pytest.raises(RelayError, match="more than 1000 bytes"):
        fetch(HttpSource(URL))


@pytest.mark.parametrize(
    "url", ["relay:8080", "ftp://relay", "http://", "http://relay:x", "http://relay/?a=b", None, "http://me:pw@relay"]
)
def test_a_url_that_cannot_be_used_is_refused_at_once(url):
    """And a password in it is not shown."""
    with pytest.raises(ConfigError, match=r"^url: must"):
        HttpSource(url)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), "5", True])
def test_a_timeout_that_cannot_be_used_is_refused_at_once(timeout):
    """As a discoverer's."""
    with pytest.raises(ConfigError, match=r"^timeout: must"):
        HttpSource(URL, timeout=timeout)
