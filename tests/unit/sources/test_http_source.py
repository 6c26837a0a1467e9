"""A source that fetches views from a relay: what it makes of each answer."""

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

import pytest
import requests
import responses
from http_serving import serving_http

from featuregate import Discoverer, HttpSource
from featuregate.errors import ConfigError, RelayError
from featuregate.gating.events import Event
from featuregate.gating.store import Store
from featuregate.polling.poll_state import AT_ONCE, PollState
from featuregate.polling.poller import Poller
from featuregate.sources.relay_responses import freshness_of
from featuregate.sources.seen import Seen, cluster_of
from featuregate.sources.source import BrokerAnswers, MergedView
from featuregate.testing import FakeCluster, release_view

BOUND = 60.0
URL = "http://relay:8080"
PATH = f"{URL}/v1/clusters/default/view"
VIEW = release_view("4.2")
HEADERS = {"ETag": '"one"', "Featuregate-Age": "2.5"} | freshness_of(VIEW)


@pytest.fixture
def relay():
    """A relay without a network."""
    with responses.RequestsMock() as mock:
        yield mock


def fetch(source: HttpSource) -> MergedView | BrokerAnswers:
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


def test_an_unchanged_view_is_that_of_the_poll_which_the_headers_name(relay):
    """The floor of the next request is that poll's, too."""
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    newer = replace(VIEW, epoch=VIEW.epoch + 9, seen_at=VIEW.seen_at + 60)
    relay.get(PATH, status=304, headers=HEADERS | freshness_of(newer))
    source = HttpSource(URL)
    views = [fetch(source).view for _ in range(3)]
    assert [view.epoch for view in views] == [VIEW.epoch, newer.epoch, newer.epoch]
    assert views[1].same_content(VIEW)
    assert query(relay, 2)["seen"] == Seen.of(newer).text


def test_a_cache_may_have_an_earlier_body(relay):
    """It has asked the relay, which said 304, and has the headers of now."""
    newer = replace(VIEW, epoch=VIEW.epoch + 9, seen_at=VIEW.seen_at + 60)
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS | freshness_of(newer))
    view = fetch(HttpSource(URL)).view
    assert (view.epoch, view.seen_at) == (newer.epoch, newer.seen_at)


def test_an_unchanged_view_of_no_known_poll_is_an_error(relay):
    """A client that took it for that of the last poll could be taken back by the next replica."""
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    relay.get(PATH, status=304, headers={"Featuregate-Age": "1"})
    source = HttpSource(URL)
    fetch(source)
    with pytest.raises(RelayError, match="does not say which poll it is of: there is no Featuregate-Epoch"):
        fetch(source)


def test_the_name_of_a_cluster_is_quoted(relay):
    """It may hold a slash."""
    relay.get(f"{URL}/v1/clusters/eu%2Forders/view", body=VIEW.to_json(), headers=HEADERS)
    source = HttpSource(URL, cluster="eu/orders")
    assert fetch(source).view == VIEW
    assert str(source) == "cluster eu/orders at http://relay:8080"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"status": 400, "json": {"error": "wait must be"}}, "the relay answered 400: wait must be"),
        ({"status": 401, "json": {"error": "not known"}}, "the relay answered 401: not known"),
        ({"status": 403, "json": {"error": "may not read"}}, "the relay answered 403: may not read"),
        ({"status": 429, "json": {"error": "too many"}}, "the relay answered 429: too many"),
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


def test_a_view_that_the_store_did_not_take_comes_again(relay, monkeypatch):
    """The relay says by 304 that it is still the newest one, and the store has it then."""
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    relay.get(PATH, status=304, headers=HEADERS)
    full = [MemoryError()]

    def commit(store: Store, *seen: object) -> list[Event]:
        if full:
            raise full.pop()
        return taken(store, *seen)

    taken = Store.commit
    monkeypatch.setattr(Store, "commit", commit)
    with Discoverer(source=HttpSource(URL, wait=0), interval=3600.0) as features:
        assert features.wait(BOUND)
        assert features.view == VIEW
    assert relay.calls[1].request.headers["If-None-Match"] == '"one"'


# ---------------------------------------------------------------- several relays, the floor, and rests

OTHER = "http://other:8080"
OTHER_PATH = f"{OTHER}/v1/clusters/default/view"


class Clock:
    """The seconds of a source, which a test moves on."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def query(relay, call: int) -> dict[str, str]:
    return relay.calls[call].request.params


def test_the_first_request_has_no_floor_and_the_next_one_what_was_seen(relay):
    """The floor says how long ago the brokers answered: no two clocks are compared."""
    clock = Clock()
    source = HttpSource(URL, clock=clock)
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    fetch(source)
    clock.now += 10
    fetch(source)
    assert query(relay, 0) == {}
    assert query(relay, 1) == {"notOlderThan": "12.500000", "seen": Seen.of(VIEW).text}


@pytest.mark.parametrize(
    ("behind", "age", "problem"),
    [
        (replace(VIEW, seen_at=1.0), "12.6", "its answers are 0.1 s older"),
        (replace(VIEW, epoch=VIEW.epoch - 1, seen_at=1.0), "0", "its epoch is"),
    ],
)
def test_a_relay_that_does_not_know_the_floor_does_not_take_the_client_back(relay, behind, age, problem):
    """A cache on the way may not know it, either. The floor stays."""
    clock = Clock()
    source = HttpSource(URL, clock=clock, chance=lambda: 0.0)
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    relay.get(PATH, body=behind.to_json(), headers={"Featuregate-Age": age})
    relay.get(PATH, body=replace(VIEW, seen_at=2.0).to_json(), headers={"Featuregate-Age": "12.4"})
    fetch(source)
    clock.now += 10
    with pytest.raises(RelayError, match=problem):
        fetch(source)
    assert fetch(source).view.seen_at == 2.0
    assert query(relay, 2) == query(relay, 1)


def test_the_same_view_is_never_below_the_floor(relay):
    """Also where a proxy takes the entity tag away, and the request took longer than the one before."""
    source = HttpSource(URL)
    relay.get(PATH, body=VIEW.to_json(), headers={"Featuregate-Age": "1"})
    relay.get(PATH, body=VIEW.to_json(), headers={"Featuregate-Age": "9"})
    fetch(source)
    assert fetch(source).age >= 9


def test_the_view_of_another_cluster_is_not_compared(relay):
    """Its epochs are those of other controllers; the discoverer starts afresh."""
    source = HttpSource(URL)
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    relay.get(PATH, body=replace(VIEW, cluster_id="rebuilt", epoch=0).to_json(), headers={"Featuregate-Age": "99"})
    fetch(source)
    assert fetch(source).view.cluster_id == "rebuilt"


def test_the_next_relay_is_asked_when_one_fails_and_stays_the_first(relay):
    """A relay that is gone does not take its timeout from each poll."""
    relay.get(PATH, status=503)
    relay.get(OTHER_PATH, body=VIEW.to_json(), headers=HEADERS)
    source = HttpSource([URL, OTHER], chance=lambda: 0.0)
    assert [fetch(source).view for _ in range(3)] == [VIEW] * 3
    assert [call.request.url.startswith(URL) for call in relay.calls] == [True, False, False, False]


@pytest.mark.parametrize(
    ("first", "again"),
    [(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b" ")],
)
def test_a_relay_that_is_never_done_does_not_take_the_time_of_the_next_one(first, again):
    """A timeout of requests begins anew with each byte, and this one sends some again and again."""
    gone = threading.Event()

    class Unfinished(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):
                self.wfile.write(first)
                while not gone.wait(0.05):
                    self.wfile.write(again)
            gone.set()

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(VIEW.to_json().encode())

    with serving_http(Unfinished) as unfinished, serving_http(Answering) as answering:
        source = HttpSource([unfinished, answering], timeout=1.0, chance=lambda: 0.0)
        try:
            fetched = asyncio.run(asyncio.wait_for(source.fetch(), 20))
            assert fetched.view == VIEW
            assert gone.wait(20)
        finally:
            gone.set()


def test_processes_begin_with_different_relays(relay):
    """The load is spread; the last one is followed by the first."""
    relay.get(OTHER_PATH, status=500)
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    fetch(HttpSource([URL, OTHER], chance=lambda: 0.9999))
    assert relay.calls[0].request.url == OTHER_PATH


def test_when_no_relay_gives_a_view_the_error_names_each(relay):
    """The error is one line."""
    relay.get(PATH, status=503, json={"error": "no broker"})
    relay.get(OTHER_PATH, body=requests.ConnectionError("refused"))
    with pytest.raises(RelayError) as raised:
        fetch(HttpSource([URL, OTHER], chance=lambda: 0.0))
    assert f"{URL}: the relay answered 503: no broker; {OTHER}: the relay cannot be reached" in str(raised.value)


@pytest.mark.parametrize(
    ("headers", "rest"),
    [
        ({"Retry-After": "20"}, 30.0),
        ({"Retry-After": "Mon, 23 Nov 2026 10:00:20 GMT"}, 0.5),
        ({"Retry-After": "1000000"}, 450.0),
        ({"Retry-After": "soon"}, 0.5),
        ({}, 0.5),
    ],
)
def test_a_relay_is_not_asked_before_it_says_so(relay, headers, rest):
    """And then not by all clients at once. The error goes on saying what it said."""
    clock = Clock()
    source = HttpSource(URL, clock=clock, chance=lambda: 0.5)
    relay.get(PATH, status=503, json={"error": "no broker"}, headers=headers)
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    with pytest.raises(RelayError, match=r"no broker$"):
        fetch(source)
    clock.now += rest - 0.1
    with pytest.raises(RelayError, match=r"no broker \(not asked for another 0\.1 s\)$"):
        fetch(source)
    assert len(relay.calls) == 1
    clock.now += 0.2
    assert fetch(source).view == VIEW


@pytest.mark.parametrize("urls", [URL, [URL, OTHER]])
def test_the_next_poll_comes_when_a_relay_may_be_asked_again(relay, urls):
    """A poll before that would send nothing, and count as a failure."""
    clock = Clock()
    source = HttpSource(urls, clock=clock, chance=lambda: 0.4)
    state = PollState(interval=60, stale_after=600, forget_after=60)
    poller = Poller(source, Store(wall=clock), state, clock, chance=lambda: 0.0)
    relay.get(PATH, status=503, headers={"Retry-After": "2"})
    if urls != URL:
        relay.get(OTHER_PATH, status=503, headers={"Retry-After": "5"})
    delay = asyncio.run(poller.poll())
    assert delay == pytest.approx(2.8 + AT_ONCE)
    clock.now += delay
    asked = len(relay.calls)
    asyncio.run(poller.poll())
    assert len(relay.calls) == asked + 1


def test_rests_double_with_each_failure_up_to_half_a_minute(relay):
    """A random part of it: full jitter."""
    clock = Clock()
    source = HttpSource(URL, clock=clock, chance=lambda: 1.0)
    relay.get(PATH, status=500)
    for rest in (1, 2, 4, 8, 16, 30, 30):
        asked = len(relay.calls)
        for _ in range(2):  # the second one finds that the relay rests
            with pytest.raises(RelayError):
                fetch(source)
        assert len(relay.calls) == asked + 1
        clock.now += rest


def test_the_token_and_the_key_are_sent_and_not_shown(relay, tmp_path, monkeypatch):
    """A .netrc file does not replace the token, as it does for the headers of requests."""
    (tmp_path / "netrc").write_text("machine relay login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    source = HttpSource(URL, token="t0ken", api_key="k3y")
    fetch(source)
    sent = relay.calls[0].request.headers
    assert (sent["Authorization"], sent["X-API-Key"]) == ("Bearer t0ken", "k3y")
    assert "t0ken" not in repr(vars(source)) + str(source)


def test_certificates_are_those_of_the_source_and_not_of_the_environment(relay, monkeypatch):
    """The environment would win over a session's own."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/environment.pem")
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    fetch(HttpSource(URL, verify="/ca.pem", cert=("/client.pem", "/client.key")))
    assert relay.calls[0].request.req_kwargs["verify"] == "/ca.pem"
    assert relay.calls[0].request.req_kwargs["cert"] == ("/client.pem", "/client.key")


def test_the_brokers_are_asked_where_no_relay_gives_a_view(relay, caplog):
    """What they answer raises the floor, and the relay's view is not the newest one any more. The log says it once."""
    relay.get(PATH, body=VIEW.to_json(), headers=HEADERS)
    relay.get(PATH, status=503)
    relay.get(PATH, body=replace(VIEW, seen_at=5.0).to_json(), headers={"Featuregate-Age": "0"})
    with FakeCluster(1, release="4.2") as brokers:
        clock = Clock()
        source = HttpSource(URL, fallback=brokers.bootstrap, clock=clock, chance=lambda: 0.0)
        assert source.timeout > 15
        fetch(source)
        answers = fetch(source)
        assert isinstance(answers, BrokerAnswers)
        assert answers.cluster_id == brokers.cluster_id
        fetch(source)
    (warned,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned.startswith("the brokers are asked, and holds are those of before: http")
    floor = query(relay, 2)
    (seen,) = Seen.read(floor["seen"])
    assert (seen.cluster, floor["notOlderThan"]) == (cluster_of(brokers.cluster_id), "0.000000")
    assert seen.epoch == answers.answers[0].epoch
    assert "If-None-Match" not in relay.calls[2].request.headers


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": []}, "url: must name at least one"),
        *[
            ({"url": url}, "url: must")
            for url in ("relay:8080", "ftp://relay", "http://", "http://relay:x", "http://relay/?a=b", None)
        ],
        ({"url": "http://me:pw@relay"}, "url: must"),
        *[({"timeout": timeout}, "timeout: must") for timeout in (0, -1, float("inf"), "5", True)],
        *[({"token": token}, "token: must be printable ASCII text") for token in ("", " t", "two\nlines", "kö", 5)],
        ({"fallback": {}, "token": " t"}, "bootstrap.servers: is missing"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_at_once(options, says):
    """The error shows neither a token nor a password in the URL."""
    with pytest.raises(ConfigError, match=f"^{says}") as refused:
        HttpSource(**{"url": URL, **options})
    assert "pw@" not in str(refused.value)
