"""Who may read what: API keys, certificates, rights for each cluster, and requests in a second."""

import asyncio
import hashlib
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
import trustme
from event_source import listening
from relay_on_socket import served, serving
from waiting import eventually

import featuregate as fg
from featuregate.errors import RelayError
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_relay.access.authentication import Access, ApiKeys, Rates, RelayClient
from featuregate_relay.access.certificates import Certificates
from featuregate_relay.config.relay import read_config
from featuregate_relay.views.event_stream import OpenStreams

BOUND = 60.0
VIEW = release_view("4.2")
KEY = "a-long-and-random-key"
OFREP = "/v1/clusters/orders/ofrep/v1/evaluate/flags"


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


ACCESS = Access(
    api_keys=ApiKeys(
        {digest(KEY): RelayClient("payments", frozenset({"orders"})), digest("admin"): RelayClient("admin", None)}
    ),
    rates={"payments": 1000.0},
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    features = {"orders": StaticFeatures(VIEW), "stock": StaticFeatures(VIEW)}
    with serving(features, access=ACCESS) as url:
        yield url


def get(url: str, key: str | None = None) -> requests.Response:
    return requests.get(url, headers={} if key is None else {"X-API-Key": key}, timeout=BOUND)


@pytest.mark.parametrize(
    "path", ["/v1/clusters", "/v1/clusters/orders/view", "/v1/clusters/orders/events", "/metrics", "/nothing"]
)
def test_nothing_is_served_without_credentials(url: str, path: str) -> None:
    """Not even whether there is such a path. Nor with wrong ones."""
    for wrong in (None, "wrong", "", KEY[:-1], "\xe9"):
        answer = get(url + path, wrong and wrong.encode("latin-1"))
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert list(answer.json()) == ["error"]
    for password in ("wrong", "", "\xe9"):
        assert requests.get(url + path, auth=("payments", password), timeout=BOUND).status_code == 401
    for header in ("Basic", "Basic a", "Basic /w==", "Negotiate abc"):
        assert requests.get(url + path, headers={"Authorization": header}, timeout=BOUND).status_code == 401


def test_a_browser_asks_for_a_key_and_sends_it_as_a_password(url: str) -> None:
    """Only where a person opens a page: a script that gets 401 opens no dialog."""
    html = {"Accept": "text/html,*/*;q=0.8"}
    asked = requests.get(url, headers=html, timeout=BOUND)
    assert (asked.status_code, asked.headers["WWW-Authenticate"][:5]) == (401, "Basic")
    page = requests.get(url, headers=html, auth=("anybody", KEY), timeout=BOUND)
    assert page.status_code == 200
    assert "orders" in page.text
    assert "stock" not in page.text
    assert requests.get(f"{url}/clusters/stock", auth=("anybody", KEY), timeout=BOUND).status_code == 403


def test_a_key_opens_what_its_client_may_read(url: str) -> None:
    """As X-API-Key, and as a bearer token, which Prometheus and HttpSource can send."""
    assert get(f"{url}/v1/clusters/orders/view", KEY).status_code == 200
    bearer = {"Authorization": f"Bearer {KEY}"}
    assert requests.get(f"{url}/v1/clusters/orders/view", headers=bearer, timeout=BOUND).status_code == 200
    with listening(f"{url}/v1/clusters/orders/events", **{"X-API-Key": KEY}) as events:
        assert next(events).kind == "view"
    for source in (fg.HttpSource(url, cluster="orders", api_key=KEY), fg.HttpSource(url, cluster="orders", token=KEY)):
        with fg.Discoverer(source=source, interval=3600.0) as features:
            assert features.refresh(BOUND) == VIEW


def test_a_client_learns_nothing_of_other_clusters(url: str) -> None:
    """Not even whether there is one of this name; the entity tag of a view opens nothing, either."""
    for name in ("stock", "other"):
        answer = get(f"{url}/v1/clusters/{name}/view", KEY)
        assert (answer.status_code, answer.json()) == (403, {"error": f"payments may not read cluster '{name}'"})
    for key, status in ((KEY, 403), ("admin", 304), ("wrong", 401)):
        headers = {"X-API-Key": key, "If-None-Match": "*"}
        assert requests.get(f"{url}/v1/clusters/stock/view", headers=headers, timeout=BOUND).status_code == status
    assert list(get(f"{url}/v1/clusters", KEY).json()["clusters"]) == ["orders"]
    assert "stock" not in get(f"{url}/metrics", KEY).text
    assert list(get(f"{url}/v1/clusters", "admin").json()["clusters"]) == ["orders", "stock"]
    assert get(f"{url}/v1/clusters/other/view", "admin").status_code == 404


def test_flags_are_refused_in_the_words_of_their_protocol(url: str) -> None:
    answer = requests.post(url + OFREP, json={}, timeout=BOUND)
    assert (answer.status_code, answer.json()["errorCode"]) == (401, "GENERAL")
    forbidden = requests.post(
        url + OFREP.replace("orders", "stock"), json={}, headers={"X-API-Key": KEY}, timeout=BOUND
    )
    assert forbidden.status_code == 403
    assert "may not read" in forbidden.json()["errorDetails"]
    assert requests.post(url + OFREP, json={}, headers={"X-API-Key": KEY}, timeout=BOUND).status_code == 200


def test_probes_need_no_credentials_and_see_no_cluster(url: str) -> None:
    """Readiness is one word for them; errors of brokers are for those who may read the cluster."""
    assert get(f"{url}/healthz").status_code == 200
    ready = get(f"{url}/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "clusters": {}})
    assert list(get(f"{url}/readyz", KEY).json()["clusters"]) == ["orders"]


def test_too_many_requests_of_a_client_are_refused(tmp_path: Path) -> None:
    """By what the file allows, with the seconds after which it should come back. Others are served."""
    slow = f"[clients.payments]\nclusters = ['*']\napi-keys = ['{digest(KEY)}']\nrequests-per-second = 0.5\n"
    other = f"[clients.admin]\nclusters = ['*']\napi-keys = ['{digest('admin')}']\n"
    access = read_config(written(tmp_path, slow + other)).access(anonymous=False)
    with serving({"orders": StaticFeatures(VIEW)}, access=access) as url:
        assert get(f"{url}/v1/clusters", KEY).status_code == 200
        answers = [get(f"{url}/v1/clusters", KEY) for _ in range(3)]
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert 1 <= int(refused.headers["Retry-After"]) <= 6
        assert refused.json() == {"error": "payments sends too many requests"}
        flags = requests.post(url + OFREP, json={}, headers={"X-API-Key": KEY}, timeout=BOUND)
        assert (flags.status_code, flags.json()["errorCode"]) == (429, "GENERAL")
        assert int(flags.headers["Retry-After"]) >= 1
        assert {get(f"{url}/v1/clusters", "admin").status_code for _ in range(10)} == {200}


def test_open_streams_are_counted_for_their_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client without a stream of its own is refused by none of another client."""
    monkeypatch.setattr("featuregate_relay.app.OpenStreams", partial(OpenStreams, most_of_a_client=2))
    key = {"X-API-Key": KEY}
    with serving({"orders": StaticFeatures(VIEW)}, access=ACCESS) as url, ExitStack() as opened:
        events = f"{url}/v1/clusters/orders/events"

        def open_one(path: str, headers: dict[str, str]) -> requests.Response:
            return opened.enter_context(requests.get(path, headers=headers, stream=True, timeout=BOUND))

        first, second = open_one(events, key), open_one(events, key)
        assert (first.status_code, second.status_code) == (200, 200)
        refused = open_one(events, key)
        assert (refused.status_code, refused.headers.get("Retry-After")) == (429, "5")
        assert open_one(events, {"X-API-Key": "admin"}).status_code == 200
        first.close()
        eventually(lambda: open_one(events, key).status_code == 200)


def test_a_source_says_how_a_relay_refuses_it(url: str, tmp_path: Path) -> None:
    """And comes back when the relay says so."""
    for key, cluster, problem in (
        ("wrong", "orders", "401: this API key is not known"),
        (KEY, "stock", "403: payments may not read cluster 'stock'"),
        ("admin", "other", "404: this relay has no cluster 'other': it has orders, stock"),
    ):
        source = fg.HttpSource(url, cluster=cluster, api_key=key)
        with pytest.raises(RelayError, match=problem):
            asyncio.run(source.fetch())
    slow = f"[clients.slow]\nclusters = ['*']\napi-keys = ['{digest(KEY)}']\nrequests-per-second = 0.001\n"
    access = read_config(written(tmp_path, slow)).access(anonymous=False)
    now = [0.0]
    with serving({"orders": StaticFeatures(VIEW)}, access=access) as busy:
        source = fg.HttpSource(busy, cluster="orders", api_key=KEY, clock=lambda: now[0], chance=lambda: 0.0)
        assert asyncio.run(source.fetch())
        with pytest.raises(RelayError, match="429: slow sends too many requests"):
            asyncio.run(source.fetch())
        now[0] = 299.0  # of the 1,000 that the relay asks for, a source obeys five minutes
        with pytest.raises(RelayError, match=r"not asked for another 1\.0 s"):
            asyncio.run(source.fetch())


def test_each_digest_is_compared_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after the right one: the time tells neither which key is right, nor how much of one."""
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("featuregate_relay.access.authentication.hmac", SimpleNamespace(compare_digest=compare))
    keys = [KEY, "second", "third"]
    api_keys = ApiKeys({digest(key): RelayClient(key, None) for key in keys})
    assert api_keys.client(KEY) == RelayClient(KEY, None)
    shown = bytes.fromhex(digest(KEY))
    assert compared == [(bytes.fromhex(digest(key)), shown) for key in keys]


def test_a_rate_is_kept_and_refused_requests_cost_nothing() -> None:
    """A client that was silent may send two seconds' requests at once."""
    now = [0.0]
    rates = Rates(lambda: now[0])
    assert [rates.seconds_to_wait("a", 2.0) for _ in range(6)] == [0, 0, 0, 0, 1, 1]
    assert rates.seconds_to_wait("b", 2.0) == 0
    now[0] = 0.5
    assert [rates.seconds_to_wait("a", 2.0) for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("rate", [0.3, 0.1, 1 / 3600])
def test_a_client_with_a_low_rate_may_send_a_request_at_a_time(rate: float) -> None:
    """Although the time of one is longer than the burst; at any time of a clock, where sums are rounded."""
    now = [0.0]
    rates = Rates(lambda: now[0])
    for now[0] in (1000.1 + number * 1.01 / rate for number in range(100)):
        assert rates.seconds_to_wait("a", rate) == 0
        assert 1 <= rates.seconds_to_wait("a", rate) <= 1 / rate + 1


def written(folder: Path, text: str) -> Path:
    file = folder / "relay.toml"
    file.write_text("[clusters.orders]\nproperties.bootstrap.servers = 'a:1'\n" + text)
    return file


def test_a_certificate_of_the_given_authority_is_one_client(tmp_path: Path) -> None:
    """Whatever its names. A key goes before it, and without a certificate there is no connection."""
    authority, others = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    write_pair(tmp_path, authority.issue_cert("127.0.0.1"), 1)
    for name, issuer in (("app.example", authority), ("forged", others)):
        issued = issuer.issue_cert("app.example")
        issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / f"{name}.pem")
    with FakeCluster(1) as brokers:
        cluster = f"properties.bootstrap.servers = '{brokers.bootstrap}'"
        file = tmp_path / "relay.toml"
        file.write_text(f"""
            listen = "127.0.0.1:0"
            [clusters.orders]
            {cluster}
            [clusters.stock]
            {cluster}
            [clients.tls]
            clusters = ["orders"]
            [clients.admin]
            clusters = ["*"]
            api-keys = ["{digest(KEY)}"]
            [tls]
            certificate = "relay.pem"
            key = "relay.key"
            client-ca = "ca.pem"
        """)
        with served("--config", str(file)) as relay:
            ca, cert = str(tmp_path / "ca.pem"), str(tmp_path / "app.example.pem")
            ready = f"{relay.url}/readyz"
            eventually(lambda: requests.get(ready, verify=ca, cert=cert, timeout=BOUND).status_code == 200)

            def status(cluster: str, **headers: str) -> int:
                path = f"{relay.url}/v1/clusters/{cluster}/view"
                return requests.get(path, verify=ca, cert=cert, headers=headers, timeout=BOUND).status_code

            assert (status("orders"), status("stock")) == (200, 403)
            assert status("stock", **{"X-API-Key": KEY}) == 200
            assert status("orders", **{"X-API-Key": "wrong"}) == 401
            for shown in (None, str(tmp_path / "forged.pem")):
                with pytest.raises((requests.ConnectionError, ssl.SSLError)):
                    requests.get(ready, verify=ca, cert=shown, headers={"X-API-Key": KEY}, timeout=BOUND)
            source = fg.HttpSource(relay.url, cluster="orders", verify=ca, cert=cert)
            with fg.Discoverer(source=source, interval=3600.0) as features:
                assert features.gate("groups", "group.version>=1").wait(BOUND)
            relay.process.terminate()
            assert relay.process.wait(BOUND) == 0


def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A pair that does not fit, because one file has been written so far, changes nothing."""
    authority = trustme.CA()
    first, second = (authority.issue_cert("127.0.0.1") for _ in range(2))
    files = write_pair(tmp_path, first, 1)
    certificates = Certificates(*files)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    def shown() -> bytes:
        return shown_by(handshake(trusting, certificates.context))

    assert shown() == first.cert_chain_pems[0].bytes()
    write_pair(tmp_path, second, 2, key=False)
    certificates.renew()
    assert "cannot be used" in caplog.text
    assert shown() == first.cert_chain_pems[0].bytes()
    write_pair(tmp_path, second, 3)
    certificates.renew()
    assert shown() == second.cert_chain_pems[0].bytes()
    files[1].unlink()
    certificates.renew()
    assert shown() == second.cert_chain_pems[0].bytes()


SERVE = """
import sys
from featuregate.cli import main
from featuregate_relay import server
server._RENEW_TICKS = 1
sys.exit(main())
"""


def test_the_command_serves_by_what_its_file_says_of_connections(tmp_path: Path) -> None:
    """Origins, and a certificate that is renewed while it listens."""
    authority = trustme.CA()
    first, second = (authority.issue_cert("127.0.0.1") for _ in range(2))

    def shown() -> bytes:
        return ssl.get_server_certificate(("127.0.0.1", port)).encode()

    write_pair(tmp_path, first, 1)
    tables = "[tls]\ncertificate = 'relay.pem'\nkey = 'relay.key'\n"
    file = written(tmp_path, tables)
    file.write_text("listen = '127.0.0.1:0'\nallow-origins = ['https://console.example']\n" + file.read_text())
    with served("serve", "--config", str(file), program=("-c", SERVE)) as relay:
        port = int(relay.url.rpartition(":")[2])
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        origin, ca = {"Origin": "https://console.example"}, str(tmp_path / "ca.pem")
        answer = requests.get(f"{relay.url}/healthz", headers=origin, verify=ca, timeout=BOUND)
        assert answer.headers["Access-Control-Allow-Origin"] == "https://console.example"
        assert shown() == first.cert_chain_pems[0].bytes()
        write_pair(tmp_path, second, 2)
        eventually(lambda: shown() == second.cert_chain_pems[0].bytes())


def write_pair(folder: Path, issued: trustme.LeafCert, at: int, *, key: bool = True) -> tuple[Path, Path]:
    files = folder / "relay.pem", folder / "relay.key"
    issued.cert_chain_pems[0].write_to_path(files[0])
    if key:
        issued.private_key_pem.write_to_path(files[1])
    for file in files:
        os.utime(file, (at, at))
    return files


def shown_by(side: ssl.SSLObject) -> bytes:
    seen = side.getpeercert(binary_form=True)
    assert seen is not None
    return ssl.DER_cert_to_PEM_cert(seen).encode()


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLObject:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    answering = server.wrap_bio(outgoing, incoming, server_side=True)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (asking, answering):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
                done.add(side)
    return asking


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("steps", range(8))
def test_a_certificate_is_renewed_amid_handshakes(tmp_path: Path, version: ssl.TLSVersion, steps: int) -> None:
    """Wherever the handshake is then, it ends with one of the two certificates, and the connection works."""
    authority = trustme.CA()
    old, new = (authority.issue_cert("127.0.0.1") for _ in range(2))
    certificates = Certificates(*write_pair(tmp_path, old, 1))
    trusting = ssl.create_default_context()
    trusting.maximum_version = version
    authority.configure_trust(trusting)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = trusting.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    answering = certificates.context.wrap_bio(outgoing, incoming, server_side=True)
    for step in range(12):
        if step == steps:
            write_pair(tmp_path, new, 2)
            certificates.renew()
        with suppress(ssl.SSLWantReadError):
            (answering if step % 2 else asking).do_handshake()
    assert shown_by(asking) == (new if steps <= 1 else old).cert_chain_pems[0].bytes()
    asking.write(b"GET")
    assert answering.read(3) == b"GET"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_authority_of_clients_is_renewed_without_a_restart(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """The old one is trusted no more. A file that cannot be read changes nothing."""
    relay, old, new = trustme.CA(), trustme.CA(), trustme.CA()
    ca = tmp_path / "ca.pem"
    old.cert_pem.write_to_path(ca)
    certificates = Certificates(*write_pair(tmp_path, relay.issue_cert("127.0.0.1"), 1), ca)
    times = count(10**18, 10**9)

    def accepted(authority: trustme.CA) -> bool:
        client = ssl.create_default_context()
        relay.configure_trust(client)
        authority.issue_cert("app.example").configure_cert(client)
        client.minimum_version = client.maximum_version = version
        try:
            handshake(client, certificates.context)
        except ssl.SSLError:
            return False
        return True

    def renew(content: bytes) -> None:
        ca.write_bytes(content)
        os.utime(ca, ns=(0, next(times)))
        certificates.renew()

    assert (accepted(old), accepted(new)) == (True, False)
    renew(b"no certificate")
    assert (accepted(old), accepted(new)) == (True, False)
    renew(new.cert_pem.bytes())
    assert (accepted(old), accepted(new)) == (False, True)


def test_keys_without_tls_are_named_where_others_can_read_them(tmp_path: Path) -> None:
    """In a line before the relay serves: a mesh may encrypt them."""
    file = written(tmp_path, f"[clients.a]\nclusters = ['*']\napi-keys = ['{digest(KEY)}']\n")
    for listen, lines in (("0.0.0.0:0", 2), ("127.0.0.1:0", 1)):
        command = [sys.executable, "-m", "featuregate", "serve", "--config", str(file), "--listen", listen]
        command += ["--behind-proxy"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                told = [process.stderr.readline() for _ in range(lines)]
            finally:
                process.kill()
        assert ("clear text" in told[0]) == (lines == 2)
        assert "serving cluster orders at http://" in told[-1]


def test_a_relay_without_access_control_leaves_credentials_to_a_proxy(tmp_path: Path) -> None:
    """The proxy passes them on, and the relay does not know them. Anonymous clients are wanted by name, too."""
    assert read_config(written(tmp_path, "")).access(anonymous=False) is None
    some = read_config(written(tmp_path, f"[clients.a]\nclusters = ['*']\napi-keys = ['{digest(KEY)}']\n"))
    access = some.access(anonymous=True)
    assert access is not None
    with serving({"orders": StaticFeatures(VIEW)}, access=access) as url:
        assert [get(f"{url}/v1/clusters", key).status_code for key in (None, KEY, "wrong")] == [200, 200, 401]


def test_scripts_of_known_pages_see_what_they_need() -> None:
    """ETag, for 304s, and Retry-After. A preflight request has no credentials."""
    access = Access()
    page = "https://console.example"
    with serving({"orders": StaticFeatures(VIEW)}, access=access, origins=[page]) as url:
        asked_headers = "content-type, if-none-match, x-api-key"
        asked = {
            "Origin": page,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": asked_headers,
        }
        preflight = requests.options(url + OFREP, headers=asked, timeout=BOUND)
        assert (preflight.status_code, preflight.headers["Access-Control-Allow-Origin"]) == (200, page)
        refused = requests.post(url + OFREP, json={}, headers={"Origin": page}, timeout=BOUND)
        exposed = refused.headers["Access-Control-Expose-Headers"]
        assert {"ETag", "Retry-After", "Featuregate-Age"} <= set(exposed.split(", "))
        other = requests.post(url + OFREP, json={}, headers={"Origin": "https://other.example"}, timeout=BOUND)
        assert "Access-Control-Allow-Origin" not in other.headers
