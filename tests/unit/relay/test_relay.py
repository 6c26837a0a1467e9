"""A relay on a socket, its discoverer on fake brokers, and a discoverer of an app behind it."""

import hashlib
import re
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from doc_pages import RELAY, ROOT, name, parsed
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from relay_on_socket import serving
from waiting import eventually

import featuregate as fg
from featuregate.errors import RelayError
from featuregate.gating.latches import LatchState
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_relay.access.authentication import Access, ApiKeys, RelayClient

BOUND = 30.0
HOUR = 3600.0


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
                brokers.roll(node, "4.2")
            polling.refresh(BOUND)
            features.refresh(BOUND)
            assert gate.open


def test_a_relay_asks_for_the_configs_of_its_own_gates() -> None:
    with (
        FakeCluster(2) as brokers,
        fg.Discoverer(brokers.bootstrap, interval=HOUR) as polling,
        serving({"default": polling}) as url,
    ):
        polling.refresh(BOUND)
        with fg.Discoverer(source=fg.HttpSource(url), interval=HOUR) as features:
            gate = features.gate("groups", "kip848", policy="live")
            features.refresh(BOUND)
            assert (gate.open, "was not asked" in gate.decision.summary) == (False, True)
            polling.gate("groups", "kip848")
            assert gate.wait(BOUND)


def test_a_relay_is_reached_by_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name leads to the relay. The server that gets the requests as a proxy happens to be the relay itself."""
    with serving({"default": StaticFeatures(release_view("4.2"))}) as url:
        monkeypatch.setenv("HTTP_PROXY", url)
        with fg.Discoverer(source=fg.HttpSource("http://relay.invalid"), interval=HOUR) as features:
            assert features.gate("groups", "group.version>=1").wait(BOUND)


def test_invariant_9_a_view_behind_a_relay_ages_when_the_brokers_are_gone() -> None:
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


def test_a_relay_is_not_ready_while_the_latches_of_its_first_view_are_written() -> None:
    """A slow disk: the brokers have answered, and nothing can be evaluated yet."""
    writing, written = threading.Event(), threading.Event()

    class SlowLatchStore:
        def load(self, cluster_id: str) -> None:
            """Find nothing."""

        def save(self, kept: LatchState) -> LatchState:
            writing.set()
            assert written.wait(BOUND)
            return kept

    with (
        FakeCluster(1, release="4.2") as brokers,
        fg.Discoverer(brokers.bootstrap, interval=HOUR, latch_store=SlowLatchStore()) as features,
        serving({"default": features}) as url,
    ):
        try:
            assert writing.wait(BOUND)
            answer = requests.get(f"{url}/readyz", timeout=BOUND)
            assert (answer.status_code, answer.json()["status"]) == (503, "waiting for brokers")
            unknown = requests.get(f"{url}/v1/clusters/default/view", timeout=BOUND)
            assert (unknown.status_code, unknown.headers["Retry-After"]) == (503, "1")
        finally:
            written.set()
        assert features.wait(BOUND)
        assert requests.get(f"{url}/readyz", timeout=BOUND).status_code == 200


def test_a_relay_that_is_gone_leaves_latched_gates_open() -> None:
    """The client's health says what fails."""
    with (
        fg.Discoverer(source=fg.HttpSource("http://127.0.0.1:9", timeout=1), interval=HOUR) as features,
        pytest.raises(RelayError, match="cannot be reached: Connection refused"),
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


@pytest.mark.parametrize("page", RELAY, ids=name)
def test_every_python_block_of_the_page_runs(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeCluster() as brokers, serving({"orders": StaticFeatures(release_view("4.2"))}) as url:
        for example in parsed(page, brokers.bootstrap, relay=url.removeprefix("http://")).examples():
            example.evaluate()
    message, produce = "use the new group protocol", {"min": 3, "max": 13, "incomplete": False}
    assert capsys.readouterr().out.splitlines() == [message, message, "2", str(produce)]


# ---------------------------------------------------------------- checks and flags

FLAGS = "ofrep/v1/evaluate/flags"
CONTEXT = {"context": {}}


def post(url: str, body: object = CONTEXT, **headers: str) -> requests.Response:
    return requests.post(url, json=body, headers=headers, timeout=BOUND)


def test_a_requirement_or_a_preset_is_decided_with_reasons() -> None:
    """A check latches nothing."""
    features = StaticFeatures(release_view("3.9"))
    with serving({"default": features}) as url:
        check = f"{url}/v1/clusters/default/check?require="
        decision = get(f"{check}kip848").json()
        assert (decision["open"], decision["verdict"]) == (False, "closed")
        assert decision["reasons"]
        assert get(f"{check}release>%3D3.9").json()["open"]
        assert get(f"{check}nonsense!").status_code == 400
        assert get(check).status_code == 400
        assert get(f"{url}/v1/clusters/other/check?require=kip848").status_code == 404
    assert features.latched == release_view("3.9").finalized
    with serving({"default": StaticFeatures()}) as url:
        assert get(f"{url}/v1/clusters/default/check?require=kip848").json()["verdict"] == "unknown"


def test_flags_say_that_they_are_stale_and_how_old() -> None:
    """OFREP has no reason for it. A client that has the flags of before gets them again, to learn of it."""
    now = [0.0]
    with (
        FakeCluster(1, release="4.2") as brokers,
        fg.Discoverer(brokers.bootstrap, interval=HOUR, stale_after=60, clock=lambda: now[0]) as features,
        serving({"default": features}, features.gate("groups", fg.presets.kip848)) as url,
    ):
        features.refresh(BOUND)
        tag = post(f"{url}/{FLAGS}").headers["ETag"]
        now[0] = 60.0
        assert post(f"{url}/{FLAGS}", **{"If-None-Match": tag}).status_code == 304
        now[0] = 61.0
        again = post(f"{url}/{FLAGS}", **{"If-None-Match": tag})
        assert again.status_code == 200
        for metadata in (again.json()["metadata"], post(f"{url}/{FLAGS}/groups").json()["metadata"]):
            assert (metadata["stale"], metadata["age"]) == (True, 61.0)
        assert {flag["key"]: flag.get("value") for flag in again.json()["flags"]}["groups"] is True


def test_before_the_first_view_a_level_is_not_known_and_not_missing() -> None:
    """No relay says that there is no such feature before a broker has said so; a gate has its safe value."""
    features = StaticFeatures()
    with serving({"default": features}, features.gate("groups", "group.version>=1")) as url:
        level = post(f"{url}/{FLAGS}/level.group.version")
        assert (level.status_code, level.headers["Retry-After"]) == (503, "1")
        assert level.json() == {"errorCode": "GENERAL", "errorDetails": "default: no broker has answered yet"}
        assert post(f"{url}/{FLAGS}/groups").json()["value"] is False
        assert post(f"{url}/{FLAGS}/group").status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "PARSE_ERROR"),
        (b"[" * 60_000, 400, "PARSE_ERROR"),
        (b"[]", 400, "INVALID_CONTEXT"),
        (b'{"context": 1}', 400, "INVALID_CONTEXT"),
        (b'{"context": {"a": "' + b"x" * 70_000 + b'"}}', 413, "PARSE_ERROR"),
    ],
)
@pytest.mark.parametrize("path", [FLAGS, f"{FLAGS}/groups"])
def test_a_request_that_the_protocol_does_not_allow_says_why(path: str, body: bytes, status: int, code: str) -> None:
    with serving({"default": StaticFeatures(release_view("4.2"))}) as url:
        answer = requests.post(f"{url}/{path}", data=body, timeout=BOUND)
        assert (answer.status_code, answer.json()["errorCode"]) == (status, code)
        assert answer.json().get("key") == ("groups" if path != FLAGS else None)


@pytest.mark.parametrize(
    ("path", "key", "said"),
    [
        ("a%0Ab%0A", "a\nb\n", ""),
        ("a/b", "a/b", ""),
        ("new-group", "new-group", ": did you mean new-groups?"),
        ("level.group.versoin", "level.group.versoin", "level.group.version?"),
        ("x", "x", "'x'"),
    ],
)
def test_a_flag_that_is_not_there_is_named_with_one_that_is_spelt_almost_alike(path: str, key: str, said: str) -> None:
    """As the provider in an app and requirements do; a key that is like none gets no guess."""
    features = StaticFeatures(release_view("4.2"))
    with serving({"default": features}, features.gate("new-groups", "kip848")) as url:
        answer = post(f"{url}/{FLAGS}/{path}")
    assert (answer.status_code, answer.json()["key"], answer.json()["errorCode"]) == (404, key, "FLAG_NOT_FOUND")
    assert answer.json()["errorDetails"].endswith(said)


def test_the_page_names_the_providers_that_the_tests_evaluate_with() -> None:
    """Each package with the object that takes the URL of the relay."""
    table = (ROOT / "docs/how-to/serve-views.md").read_text().partition("| language | package | provider |")[2]
    rows = re.findall(r"^\| [^`|]+ \| `([^`]+)` [^|]*\| `(?:new )?(\w+)", table.partition("\n\n")[0], re.MULTILINE)
    peers = (ROOT / "tests/live/peers").glob("ofrep_*/**/*")
    ours = [ROOT / "pyproject.toml", Path(__file__), *(file for file in peers if file.is_file())]
    text = "\n".join(file.read_text() for file in ours)
    assert len(rows) == 4
    assert [word for package, provider in rows for word in (*package.split(":"), provider) if word not in text] == []


def test_a_client_that_others_wrote_evaluates_gates_and_levels() -> None:
    """OpenFeature's own OFREP provider for Python, which shows its key by its option for headers."""
    features, digest = StaticFeatures(release_view("4.2")), hashlib.sha256(b"key").hexdigest()
    access = Access(api_keys=ApiKeys({digest: RelayClient("app", None)}))
    with serving({"default": features}, features.gate("groups", fg.presets.kip848), access=access) as url:
        try:
            client = api.get_client()
            for key, level in (("wrong", -1), ("key", 1)):
                headers = {"X-API-Key": key}
                api.set_provider(OFREPProvider(base_url=url, headers_factory=lambda headers=headers: headers))
                assert client.get_integer_value("level.group.version", -1) == level
            gate = client.get_boolean_details("groups", flag_default := False)
            assert (gate.value, gate.variant, gate.reason) == (True, "open", "STATIC")
            assert client.get_boolean_details("other", flag_default).error_code == "FLAG_NOT_FOUND"
            assert client.get_string_details("groups", "a").error_code == "TYPE_MISMATCH"
        finally:
            api.shutdown()
            api.clear_providers()


@pytest.mark.parametrize("first", [None, -15, -3], ids=["at once", "the head alone", "amid the body"])
def test_a_request_for_another_protocol_is_answered_in_this_one(first: int | None) -> None:
    """As Java's client asks with each request; uvicorn skips the body then, and nothing of it is a second request."""
    request = b"POST /ofrep/v1/evaluate/flags/level.group.version HTTP/1.1\r\nHost: relay\r\nConnection: Upgrade\r\n"
    request += b'Upgrade: h2c\r\nContent-Length: 15\r\n\r\n{"context": {}}'
    with (
        serving({"default": StaticFeatures(release_view("4.2"))}) as url,
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=BOUND) as client,
    ):
        client.sendall(request[:first])
        answer = client.recv(4096)
        with suppress(OSError):  # the relay may have closed
            client.sendall(request[len(request[:first]) :])
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer
        assert answer.count(b"HTTP/1.1") == 1
