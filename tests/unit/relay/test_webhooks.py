"""Webhooks: what receivers hear, how often, and where the relay connects."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_network
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import requests
from apps_in_process import call
from http_serving import never_done, serving_http
from standardwebhooks import Webhook, WebhookVerificationError
from waiting import eventually, line_with

import featuregate as fg
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_relay.access.api_keys import ApiKeys
from featuregate_relay.access.authentication import Access
from featuregate_relay.access.clients import Client
from featuregate_relay.app import make_app
from featuregate_relay.clusters import Cluster, ServedCluster
from featuregate_relay.config.relay import ConfigMistakes, read_config
from featuregate_relay.webhooks import delivery
from featuregate_relay.webhooks import sender as sending
from featuregate_relay.webhooks.delivery import Attempt, Endpoint
from featuregate_relay.webhooks.messages import Message
from featuregate_relay.webhooks.networks import is_allowed
from featuregate_relay.webhooks.notifier import Notifier
from featuregate_relay.webhooks.sender import Deliveries, Sender

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from featuregate_relay.states import ClusterState

BOUND = 60.0
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
LOCAL = [ip_network("127.0.0.0/8")]
MESSAGE = Message("msg_1", "cluster.changed", '{"type": "cluster.changed"}')
VIEW = release_view("3.9")
UPGRADED = replace(release_view("4.2"), epoch=10_000)


class Receiver:
    """A receiver that answers with these statuses, the last one for ever."""

    def __init__(self, url: str, statuses: list[int], headers: dict[str, str]) -> None:
        self.url = url
        self.statuses = statuses
        self.headers = headers
        self.got: list[tuple[dict[str, str], str]] = []


@contextmanager
def receiving(*statuses: int, **headers: str) -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0])
            for name, value in receiver.headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()

    with serving_http(Handler) as url:
        receiver = Receiver(f"{url}/hook", list(statuses), headers)
        yield receiver


@contextmanager
def closing(endpoint: Any) -> Iterator[Sender]:
    sender = Sender(endpoint)
    sender.start()
    try:
        yield sender
    finally:
        sender.close()


def now() -> datetime:
    return datetime.now(UTC)


def test_a_message_is_signed_so_that_a_receiver_can_verify_it() -> None:
    """By each of two secrets, while one is replaced; not by another one."""
    with receiving(204) as receiver:
        endpoint = Endpoint("chat", receiver.url, [SECRET, OTHER], LOCAL)
        assert endpoint.deliver(MESSAGE, now()) == Attempt(delivered=True)
        ((headers, body),) = receiver.got
    for secret in (SECRET, OTHER):
        assert Webhook(secret).verify(body, headers) == json.loads(MESSAGE.body)
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "B" * 32).verify(body, headers)
    assert headers["webhook-id"] == "msg_1"


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 500, 503])
def test_what_is_no_success_is_tried_again(status: int) -> None:
    """A redirect is not followed: it could lead into the network of the relay."""
    with receiving(status, Location="http://127.0.0.1:1/") as receiver:
        attempt = Endpoint("chat", receiver.url, [SECRET], LOCAL).deliver(MESSAGE, now())
    assert attempt == Attempt(delivered=False, problem=f"it answered {status}")


@pytest.mark.parametrize("status", [300, 302, 304])
def test_only_2xx_is_a_success(status: int) -> None:
    """A status above it without a place to go is none."""
    with receiving(status) as receiver:
        attempt = Endpoint("chat", receiver.url, [SECRET], LOCAL).deliver(MESSAGE, now())
    assert attempt == Attempt(delivered=False, problem=f"it answered {status}")


def test_a_receiver_says_when_to_come_back() -> None:
    """In seconds or as a date; a day at the most. What is no such text, also a year that is none, asks for nothing."""
    later = now() + timedelta(seconds=90)
    dated = later.strftime("%a, %d %b %Y %H:%M:%S GMT")
    never = f"Mon, 23 Nov {'9' * 20} 10:00:00 GMT"
    for text, low, high in (
        ("7", 7, 7),
        (dated, 60, 90),
        ("9" * 20, 86400, 86400),
        ("soon", 0, 0),
        ("-5", 0, 0),
        (never, 0, 0),
    ):
        with receiving(429, Retry_After=text) as receiver:
            attempt = Endpoint("chat", receiver.url, [SECRET], LOCAL).deliver(MESSAGE, now())
        assert low <= attempt.retry_after <= high


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2600::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("64:ff9b:1::1", False),
        ("2002:7f00:1::", False),
        ("2001:0:7f00:1::", False),
        ("::127.0.0.1", False),
        ("::8.8.8.8", False),
        ("100::1", False),
        ("100:0:0:1::1", False),
        ("2001:2::1", False),
        ("2001:10::1", False),
        ("2001:20::1", False),
        ("2001:db8::1", False),
        ("3ffe::1", False),
        ("3fff::1", False),
        ("5f00::1", False),
        ("fec0::1", False),
        ("ff0e::1", False),
        ("4000::1", False),
        ("2a00:1450::5efe:10.0.0.1", False),
        ("2a00:1450::200:5efe:127.0.0.1", False),
        ("2a00:1450:4001:81b::200e", True),
        ("2606:4700::1111", True),
    ],
)
def test_private_addresses_are_refused(address: str, *, public: bool) -> None:
    """Also behind an IPv6 address that a gateway translates. The operator may list a network."""
    assert is_allowed(address, ()) is public
    assert is_allowed(address, [ip_network(f"{address.partition('%')[0]}")])


def test_the_address_is_checked_when_it_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name may have had another address before. A listed network is reached."""
    with receiving(204) as receiver:
        port = int(receiver.url.split(":")[2].partition("/")[0])
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        for url in (f"http://hooks.example:{port}/", f"https://hooks.example:{port}/"):
            attempt = Endpoint("chat", url, [SECRET]).deliver(MESSAGE, now())
            assert attempt.problem == "its address is private, and in none of allow-networks"
        assert receiver.got == []
        assert Endpoint("chat", f"http://hooks.example:{port}/", [SECRET], LOCAL).deliver(MESSAGE, now()).delivered
        assert receiver.got[0][0]["host"] == f"hooks.example:{port}"


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would connect to any address."""
    with receiving(204) as receiver, receiving(204) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert Endpoint("chat", receiver.url, [SECRET], LOCAL).deliver(MESSAGE, now()).delivered
        assert (len(receiver.got), proxy.got) == (1, [])


def test_a_receiver_that_is_away_is_a_failed_attempt() -> None:
    """So is a name without an address, or one that cannot have any. No error holds the URL, which may have a secret."""
    strange = f"https://{'a' * 70}.example/token-in-path"
    for url in ("http://127.0.0.1:1/token-in-path", "https://nothing.invalid/token-in-path", strange):
        attempt = Endpoint("chat", url, [SECRET], LOCAL).deliver(MESSAGE, now())
        assert not attempt.delivered
        assert attempt.problem
        assert "token" not in attempt.problem


def test_a_receiver_that_is_never_done_is_a_failed_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeout of requests begins anew with each byte, and this receiver sends some again and again."""
    monkeypatch.setattr(delivery, "_SECONDS", 0.3)
    with never_done() as (url, gone):
        attempt = Endpoint("chat", f"{url}/hook", [SECRET], LOCAL).deliver(MESSAGE, now())
        assert gone.wait(BOUND)
    assert attempt == Attempt(delivered=False, problem="it did not answer within 0.3 s")


def test_certificates_that_are_away_are_a_failed_attempt(tmp_path: Path) -> None:
    """As while a secret is mounted again. An error that is none of requests would end the thread of the endpoint."""
    away = tmp_path / "ca.pem"
    attempt = Endpoint("chat", "https://127.0.0.1:1/token-in-path", [SECRET], LOCAL, ca=away).deliver(MESSAGE, now())
    assert not attempt.delivered
    assert str(away) in attempt.problem
    assert "token" not in attempt.problem


def test_a_failed_message_is_sent_again_with_the_same_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """And another timestamp and signature for each attempt. Meanwhile others are delivered."""
    monkeypatch.setattr(sending, "RETRY_SECONDS", (0.05,) * 9)
    with receiving(500, 503, 204) as receiver, closing(Endpoint("chat", receiver.url, [SECRET], LOCAL)) as sender:
        sender.send(MESSAGE)
        eventually(lambda: len(receiver.got) >= 3)
        eventually(lambda: sender.pending == 0)
        sender.send(Message("msg_2", "gate.opened", "{}"))
        eventually(lambda: len(receiver.got) >= 4)
        eventually(lambda: sender.deliveries() == Deliveries(pending=0, delivered=2, failed=2, dropped=0))
    assert [headers["webhook-id"] for headers, _ in receiver.got] == ["msg_1"] * 3 + ["msg_2"]
    for headers, body in receiver.got:
        Webhook(SECRET).verify(body, headers)


class Failing:
    """An endpoint without a network: attempts end as told."""

    name = "chat"

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.attempts = 0

    def deliver(self, _message: Message, _now: datetime) -> Attempt:
        self.attempts += 1
        return self.attempt


def test_an_error_of_the_relay_is_a_failed_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread of the endpoint goes on. The log says where the error is, and not its text, which may hold the URL."""
    monkeypatch.setattr(sending, "RETRY_SECONDS", (0.05,) * 9)
    url = "https://chat.example/token-in-path"

    class Wrong(Failing):
        def deliver(self, message: Message, now: datetime) -> Attempt:
            if super().deliver(message, now) and self.attempts == 1:
                raise KeyError(url)
            return self.attempt

    with closing(Wrong(Attempt(delivered=True))) as sender:
        sender.send(MESSAGE)
        eventually(lambda: sender.deliveries() == Deliveries(pending=0, delivered=1, failed=1, dropped=0))
    assert "in deliver" in caplog.text
    assert "token" not in caplog.text


def test_a_message_is_given_up_after_the_last_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With a line at the first and at the last failure, and none between."""
    monkeypatch.setattr(sending, "RETRY_SECONDS", (0.001,) * 4)
    endpoint = Failing(Attempt(delivered=False, problem="it answered 500"))
    with closing(endpoint) as sender:
        sender.send(MESSAGE)
        eventually(lambda: "at the last of 5 attempts" in caplog.text)
        assert sender.deliveries() == Deliveries(pending=0, delivered=0, failed=5, dropped=1)
    assert endpoint.attempts == 5
    assert len(caplog.records) == 2


def test_attempts_are_as_far_apart_as_is_recommended() -> None:
    """About three days in all; a receiver that asks for more time gets it."""
    assert sending.RETRY_SECONDS[:4] == (5.0, 300.0, 1800.0, 7200.0)
    assert 70 * 3600 < sum(sending.RETRY_SECONDS) < 80 * 3600
    clock = [0.0]
    sender = Sender(Failing(Attempt(delivered=False)), clock=lambda: clock[0], chance=lambda: 0.0)
    sender.send(MESSAGE)
    due = sender._next()
    assert due is not None
    sender._ended(due, Attempt(delivered=False, retry_after=60.0))
    assert sender._pending[0].at == 60.0
    clock[0] = 60.0
    due = sender._next()
    assert due is not None
    sender._ended(due, Attempt(delivered=False, retry_after=1.0))
    assert sender._pending[0].at == 360.0
    late = Sender(Failing(Attempt(delivered=False)), clock=lambda: 0.0, chance=lambda: 1.0)
    late.send(MESSAGE)
    due = late._next()
    assert due is not None
    late._ended(due, Attempt(delivered=False))
    assert late._pending[0].at == pytest.approx(5.5)  # up to a tenth longer, so that replicas do not come together


def test_an_endpoint_that_is_gone_gets_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    """The endpoint answers 410 once, and the sender drops later messages."""
    with receiving(410) as receiver, closing(Endpoint("chat", receiver.url, [SECRET], LOCAL)) as sender:
        sender.send(MESSAGE)
        eventually(lambda: "the endpoint is gone (410)" in caplog.text)
        sender.send(MESSAGE)
        assert sender.deliveries() == Deliveries(pending=0, delivered=0, failed=1, dropped=1)
    assert len(receiver.got) == 1


def test_what_is_pending_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message that was tried most often is dropped: new ones say more."""
    monkeypatch.setattr(sending, "_MOST_PENDING", 3)
    sender = Sender(Failing(Attempt(delivered=False)), chance=lambda: 0.0)
    for number in range(3):
        sender.send(Message(f"msg_{number}", "gate.opened", "{}"))
    due = sender._next()
    assert due is not None
    sender._ended(due, Attempt(delivered=False))
    sender.send(Message("msg_3", "gate.opened", "{}"))
    assert sorted(due.message.ident for due in sender._pending) == ["msg_1", "msg_2", "msg_3"]


def test_a_receiver_that_hangs_does_not_hold_the_relay_back() -> None:
    """Neither while it runs, nor when it stops."""
    hung, release = threading.Event(), threading.Event()

    class Hanging(Failing):
        def deliver(self, message: Message, now: datetime) -> Attempt:
            hung.set()
            release.wait(BOUND)
            return super().deliver(message, now)

    endpoint = Hanging(Attempt(delivered=True))
    try:
        with closing(endpoint) as sender:
            sender.send(MESSAGE)
            assert hung.wait(BOUND)
            for _ in range(100):
                sender.send(MESSAGE)
        assert endpoint.attempts == 0
    finally:
        release.set()


class Noting:
    """A sender that keeps the messages."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)


def replica() -> tuple[StaticFeatures, ServedCluster, Noting, Notifier]:
    features = StaticFeatures()
    gate = features.gate("groups", "group.version>=1", policy="live")
    noting = Noting()
    served = ServedCluster("orders", Cluster(features, (gate,)))
    notifier = Notifier([(noting, None), (Noting(), frozenset({"other"}))])
    return features, served, noting, notifier


def test_changes_of_the_view_and_of_gates_are_told_and_nothing_else() -> None:
    """What a relay finds when it starts is no change; nor is a poll without news."""
    features, served, noting, notifier = replica()
    notifier.look(served)
    features.show(VIEW)
    notifier.look(served)
    features.show(replace(VIEW, epoch=VIEW.epoch + 1))
    notifier.look(served)
    assert noting.messages == []
    features.show(UPGRADED)
    notifier.look(served)
    notifier.look(served)
    changed, opened = (json.loads(message.body) for message in noting.messages)
    assert (changed["type"], opened["type"]) == ("cluster.changed", "gate.opened")
    assert changed["data"]["cluster"] == "orders"
    assert any("group.version is finalized at 1" in text for text in changed["data"]["changes"])
    assert opened["data"]["gate"] == "groups"
    features.force_closed("groups")
    notifier.look(served)
    assert [message.kind for message in noting.messages][2:] == ["gate.closed"]


def test_a_poll_that_ends_between_two_looks_keeps_its_changes() -> None:
    """The state and the view are those of one poll, or the change would be told without saying what has changed."""
    features, served, noting, notifier = replica()
    features.show(VIEW)
    state = served.state.made

    def polled_meanwhile() -> ClusterState | None:
        found = state()
        features.show(UPGRADED)
        return found

    served.state = SimpleNamespace(made=polled_meanwhile)
    notifier.look(served)
    served.state = SimpleNamespace(made=state)
    notifier.look(served)
    features.show(replace(VIEW, epoch=UPGRADED.epoch + 1))
    notifier.look(served)
    bodies = [json.loads(message.body)["data"] for message in noting.messages if message.kind == "cluster.changed"]
    assert bodies
    assert all(body["changes"] for body in bodies)


def test_a_status_that_changes_while_the_view_does_not_is_told() -> None:
    """As when no broker answers any more. Each replica gives the message the same id, whenever it has noticed."""
    found = []
    with FakeCluster(1, release="4.2") as brokers:
        for late in (61.0, 3600.0):
            now, noting = [0.0], Noting()
            options = {"interval": 3600.0, "stale_after": 60, "clock": lambda: now[0]}  # noqa: B023 - used in the loop
            with fg.Discoverer(brokers.bootstrap, **options) as features:
                served, notifier = ServedCluster("orders", Cluster(features)), Notifier([(noting, None)])
                features.refresh(BOUND)
                notifier.look(served)
                now[0] = late
                notifier.look(served)
                features.refresh(BOUND)
                notifier.look(served)
            found.append([message.ident for message in noting.messages])
            bodies = [json.loads(message.body) for message in noting.messages]
            assert [(body["type"], body["data"]["status"]) for body in bodies] == [
                ("cluster.health", "stale"),
                ("cluster.health", "ok"),
            ]
    assert found[0] == found[1]
    assert len(set(found[0])) == 2


def test_each_replica_gives_a_message_the_same_id() -> None:
    """So that a receiver drops all but one, whenever each replica has polled."""
    found = []
    for epochs in ((1, 2), (5, 9)):
        features, served, noting, notifier = replica()
        for view, epoch in zip((VIEW, UPGRADED), epochs, strict=True):
            features.show(replace(view, epoch=10_000 + epoch, seen_at=float(epoch)))
            notifier.look(served)
        found.append([message.ident for message in noting.messages])
    assert found[0] == found[1]
    assert len(set(found[0])) == 2


def test_gates_that_open_together_are_told_by_messages_of_their_own() -> None:
    """Under one id a receiver would drop all but the first; and the same gate of two states has two."""
    features, noting = StaticFeatures(), Noting()
    gates = tuple(features.gate(name, "group.version>=1", policy="live") for name in ("groups", "more-groups"))
    served, notifier = ServedCluster("orders", Cluster(features, gates)), Notifier([(noting, None)])
    for epoch, level in enumerate((0, 1, 0, 2)):
        levels = {"metadata.version": 25, "group.version": level}
        features.show(release_view("4.2", finalized=levels, epoch=epoch))
        notifier.look(served)
    idents = {message.ident: message.kind for message in noting.messages}
    assert len(idents) == len(noting.messages) == 9
    assert list(idents.values()).count("gate.opened") == 4


def test_endpoints_are_shown_to_clients_that_may_read_all_clusters() -> None:
    """An endpoint may be told of any cluster, and its name is nothing for others."""
    keys = {
        hashlib.sha256(key).hexdigest(): client
        for key, client in ((b"all", Client("all", None)), (b"some", Client("some", frozenset({"orders"}))))
    }
    sender = Sender(Failing(Attempt(delivered=True)))
    cluster = Cluster(StaticFeatures(release_view("4.2")))
    app = make_app({"orders": cluster}, access=Access(api_keys=ApiKeys(keys)), notifier=Notifier([(sender, None)]))
    for key, shown in (("all", True), ("some", False)):
        status, _, body = asyncio.run(call(app, "/metrics", {"X-API-Key": key}))
        assert (status, b'webhook_pending{webhook="chat"} 0.0' in body) == (200, shown)


def test_a_message_is_small_however_much_has_changed() -> None:
    """A message stays below 20 kB."""
    features, served, noting, notifier = replica()
    for release in ("3.9", "4.2"):
        one = release_view(*[release] * 200)
        features.show(replace(one, epoch=10_000 + len(noting.messages)))
        notifier.look(served)
    body = noting.messages[0].body
    assert len(body) < 20_000
    assert json.loads(body)["data"]["more_changes"] > 100


def test_a_relay_tells_of_an_upgrade(tmp_path: Path) -> None:
    """From the file to the receiver, over real sockets."""
    (tmp_path / "secret").write_text(SECRET)
    file = tmp_path / "relay.toml"
    with FakeCluster(2, release="3.9") as brokers, receiving(204) as receiver:
        file.write_text(f"""
            listen = "127.0.0.1:0"
            [clusters.orders]
            properties.bootstrap.servers = "{brokers.bootstrap}"
            interval = 0.2
            gates.heartbeats = "ConsumerGroupHeartbeat>=1"
            [webhooks.chat]
            url = "{receiver.url}"
            secret = "secret"
            allow-networks = ["127.0.0.1/32"]
        """)
        command = [sys.executable, "-m", "featuregate", "serve", "--config", str(file)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                url = line_with(process.stderr, "serving ").split()[-1].partition("/v1/")[0]
                view = f"{url}/v1/clusters/orders/view"
                eventually(lambda: requests.get(view, timeout=BOUND).status_code == 200)

                def told_of_an_outage() -> bool:
                    """What the relay finds at its first look is no change, so that one outage may not be enough."""
                    for act, incomplete in ((brokers.broker(2).stop, True), (brokers.broker(2).start, False)):
                        act()
                        eventually(lambda: requests.get(view, timeout=BOUND).json()["incomplete"] is incomplete)  # noqa: B023
                    return any("cluster.changed" in body for _, body in receiver.got)

                eventually(told_of_an_outage)
                for node in (1, 2):
                    brokers.broker(node).upgrade("4.2")
                eventually(lambda: any("gate.opened" in body for _, body in receiver.got))
                counted = 'featuregate_relay_webhook_failed_total{webhook="chat"} 0.0'
                assert counted in requests.get(f"{url}/metrics", timeout=BOUND).text
                process.terminate()
                assert process.wait(BOUND) == 0
            finally:
                process.kill()
    for headers, body in receiver.got:
        assert Webhook(SECRET).verify(body, headers)["data"]["cluster"] == "orders"


@pytest.mark.parametrize(
    ("text", "secret", "line"),
    [
        ("url = 'http://hooks.example/'", SECRET, "webhooks.chat.url: must begin with https://, or be in one of"),
        ("url = 'ftp://hooks.example/'", SECRET, "webhooks.chat.url: must begin with https://"),
        ("url = 'https://a/'\nallow-networks = ['10.0.0.0/40']", SECRET, "webhooks.chat.allow-networks.0: "),
        ("url = 'https://a/'", "", "webhooks.chat.secret: the file is empty"),
        ("url = 'https://a/'", "whsec_c2hvcnQ=", "webhooks.chat.secret: a secret must be whsec_ and 24 bytes"),
        ("url = 'https://a/'", None, "webhooks.chat.secret: cannot be read"),
    ],
)
def test_a_webhook_that_cannot_be_used_is_a_mistake(tmp_path: Path, text: str, secret: str | None, line: str) -> None:
    """The relay reports the mistake before it serves."""
    if secret is not None:
        (tmp_path / "secret").write_text(secret)
    file = tmp_path / "relay.toml"
    cluster = "[clusters.orders]\nproperties.bootstrap.servers = 'a:1'\n"
    file.write_text(f"{cluster}[webhooks.chat]\nsecret = 'secret'\n{text}\n")
    with pytest.raises(ConfigMistakes) as caught:
        read_config(file).notifier()
    assert [found for found in caught.value.lines if found.startswith(line)]
