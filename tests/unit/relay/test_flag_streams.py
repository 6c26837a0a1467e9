"""The stream of OFREP: clients learn where it is, with a ticket, and when to fetch all flags again."""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from event_source import Event, listening
from relay_on_socket import serving

from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.access.authentication import Access
from featuregate_relay.access.clients import ANYONE, ApiKeys, RelayClient
from featuregate_relay.access.tickets import Tickets
from featuregate_relay.config.relay import ConfigMistakes, read_config

BOUND = 60.0
FLAGS = "/v1/clusters/orders/ofrep/v1/evaluate/flags"
KEY = "key"
VIEW = release_view("3.9")
UPGRADED = replace(release_view("4.2"), epoch=10_000)
SECRET = b"0" * 32
HOUR = 3600.0


class Relay:
    """A relay that asks for API keys, on a wall clock that the test sets."""

    def __init__(self, url: str, now: list[float], features: StaticFeatures) -> None:
        self.url = url
        self.now = now
        self.features = features

    def bulk(self, tag: str = "", path: str = FLAGS) -> requests.Response:
        headers = {"X-API-Key": KEY, "If-None-Match": tag}
        return requests.post(self.url + path, json={"context": {}}, headers=headers, timeout=BOUND)

    def stream(self, bulk: requests.Response) -> str:
        (stream,) = bulk.json()["eventStreams"]
        assert stream["type"] == "sse"
        return self.url + stream["endpoint"]["requestUri"]


@pytest.fixture
def relay() -> Iterator[Relay]:
    """A relay of two clusters."""
    now = [10 * HOUR]
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    access = Access(
        api_keys=ApiKeys({digest: RelayClient("web", frozenset({"orders"}))}), tickets=Tickets(SECRET, lambda: now[0])
    )
    features = StaticFeatures(VIEW)
    with serving({"orders": features, "stock": StaticFeatures(VIEW)}, access=access) as url:
        yield Relay(url, now, features)


REFETCH: tuple[str, Any] = ("message", {"type": "refetchEvaluation"})


def kind_and_data(event: Event) -> tuple[str, Any]:
    return event.kind, event.data


def test_all_flags_name_a_stream_that_needs_no_header(relay: Relay) -> None:
    """A browser's EventSource sends none. It tells of each change, and also on each connect."""
    url = relay.stream(relay.bulk())
    for _ in range(2):
        with listening(url) as events:
            assert kind_and_data(next(events)) == REFETCH
            relay.features.show(replace(VIEW, epoch=VIEW.epoch + 1))
    with listening(url) as events:
        assert kind_and_data(next(events)) == REFETCH
        relay.features.show(UPGRADED)
        assert kind_and_data(next(events)) == REFETCH


def test_a_relay_without_access_control_needs_no_ticket() -> None:
    """Neither base path needs a ticket."""
    with serving({"orders": StaticFeatures(VIEW)}) as url:
        for path, stream in (
            (FLAGS, "/v1/clusters/orders/ofrep/v1/events"),
            ("/ofrep/v1/evaluate/flags", "/ofrep/v1/events"),
        ):
            bulk = requests.post(url + path, json={}, timeout=BOUND).json()
            assert bulk["eventStreams"] == [{"type": "sse", "endpoint": {"requestUri": stream}}]
            with listening(url + stream) as events:
                assert kind_and_data(next(events)) == REFETCH


def test_a_ticket_that_will_end_changes_the_entity_tag(relay: Relay) -> None:
    """With 304 a client would keep the old one, and come back with it for ever."""
    first = relay.bulk()
    assert relay.bulk(first.headers["ETag"]).status_code == 304
    relay.now[0] += HOUR
    later = relay.bulk(first.headers["ETag"])
    assert later.status_code == 200
    assert relay.stream(later) != relay.stream(first)
    for url in (relay.stream(first), relay.stream(later)):
        with listening(url) as events:
            assert kind_and_data(next(events)) == REFETCH


@pytest.mark.parametrize("hours", [-2, 2, 1000])
def test_an_expired_ticket_opens_nothing(relay: Relay, hours: int) -> None:
    """Nor does one of the future, from a replica whose clock is wrong by hours."""
    url = relay.stream(relay.bulk())
    relay.now[0] += hours * HOUR
    answer = requests.get(url, timeout=BOUND)
    assert answer.status_code == 401
    assert "fetch all flags for another" in answer.json()["errorDetails"]


def test_a_ticket_opens_the_stream_of_one_cluster_only(relay: Relay) -> None:
    """The ticket opens no other path, and not the flags."""
    url = relay.stream(relay.bulk())
    ticket = url.partition("?")[2]
    assert requests.get(url.replace("/orders/", "/stock/"), timeout=BOUND).status_code == 403
    for path in ("/v1/clusters/orders/events", "/v1/clusters/orders/view", "/v1/clusters"):
        assert requests.get(f"{relay.url}{path}?{ticket}", timeout=BOUND).status_code == 401
    assert requests.post(f"{relay.url}{FLAGS}?{ticket}", json={}, timeout=BOUND).status_code == 401


def test_forged_tickets_open_nothing() -> None:
    """The relay refuses a ticket with any change, and any text that is no ticket."""
    tickets = Tickets(SECRET, lambda: 0.0)
    good = tickets.ticket(RelayClient("web", None), "orders")
    assert tickets.client(good) == RelayClient("web", frozenset({"orders"}))
    assert tickets.client(good[:-2]) is None
    for place in range(0, len(good) - 1, 5):
        changed = good[:place] + ("A" if good[place] != "A" else "B") + good[place + 1 :]
        assert tickets.client(changed) is None
    for text in ("", "a", "====", "é", "\0", "A" * 5000, good * 20, "-" * 43):
        assert tickets.client(text) is None
    assert Tickets(b"1" * 32, lambda: 0.0).client(good) is None
    assert tickets.ticket(ANYONE, "orders") == tickets.ticket(ANYONE, "orders")


def test_the_signature_of_a_ticket_is_compared_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time does not tell how much of it is right."""
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    tickets = Tickets(SECRET, lambda: 0.0)
    good = tickets.ticket(RelayClient("web", None), "orders")
    constant = SimpleNamespace(compare_digest=compare, digest=hmac.digest)
    monkeypatch.setattr("featuregate_relay.access.tickets.hmac", constant)
    assert tickets.client(good) is not None
    assert tickets.client("A" + good[1:]) is None
    assert [(len(one), len(other)) for one, other in compared] == [(32, 32)] * 2


def test_replicas_share_a_secret(tmp_path: Path) -> None:
    """From a file. Without it, each process has its own."""
    (tmp_path / "secret").write_bytes(b"s" * 32)
    file = tmp_path / "relay.toml"
    cluster, client = "[clusters.orders]\nproperties.bootstrap.servers = 'a:1'", "[clients.web]\nclusters = ['orders']"
    file.write_text(f"ticket-secret = 'secret'\n{cluster}\n{client}")
    one, other = (read_config(file).access(anonymous=False) for _ in range(2))
    assert one is not None
    assert other is not None
    ticket = one.tickets.ticket(RelayClient("web", None), "orders")
    assert other.of_ticket(ticket).name == "web"
    assert Access().tickets.client(ticket) is None
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(ConfigMistakes, match="must have 32 bytes"):
        read_config(file).access(anonymous=False)
    (tmp_path / "secret").unlink()
    with pytest.raises(ConfigMistakes, match="ticket-secret: cannot be read"):
        read_config(file).access(anonymous=False)


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
