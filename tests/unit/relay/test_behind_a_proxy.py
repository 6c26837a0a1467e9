"""The files of the page about proxies, before a relay: nginx, Envoy and oauth2-proxy, where they are installed."""

import base64
import hashlib
import json
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import requests
import trustme
from event_source import events_of
from http_serving import serving_http
from joserfc import jwt
from joserfc.jwk import RSAKey
from relay_on_socket import serving
from waiting import eventually

import featuregate as fg
from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.access.authentication import Access, ApiKeys, RelayClient
from featuregate_relay.server import bind

PAGE = (Path(__file__).parents[3] / "docs/how-to/run-a-relay.md").read_text().partition("\n## Behind a proxy\n")[2]
VIEW = release_view("4.2")
BOUND = 60.0
KEY = "KEY-OF-PAYMENTS"
ACCESS = Access(
    api_keys=ApiKeys({hashlib.sha256(KEY.encode()).hexdigest(): RelayClient("payments", frozenset({"orders"}))})
)


def block(language: str, which: int = 0) -> str:
    return re.findall(rf"^```{language}\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL)[which]


def free_port() -> int:
    with bind("127.0.0.1", 0) as listener:
        return int(listener.getsockname()[1])


class Edge:
    """A proxy of the page before a relay of one cluster, with certificates of a new authority."""

    def __init__(self, folder: Path, relay: str) -> None:
        self.folder, self.relay, self.port = folder, relay, free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.authority = trustme.CA()
        issued = self.authority.issue_cert("127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(folder / "relay.pem")
        issued.private_key_pem.write_to_path(folder / "relay.key")
        for name in ("ca.pem", "clients.pem"):
            self.authority.cert_pem.write_to_path(folder / name)
        self.ca = str(folder / "ca.pem")

    def certificate(self, name: str) -> str:
        issued = self.authority.issue_cert("x.example", common_name=name)
        issued.private_key_and_cert_chain_pem.write_to_path(self.folder / f"{name}.pem")
        return str(self.folder / f"{name}.pem")

    def here(self, text: str) -> str:
        """Return a file of the page with the paths and addresses of this test, and short times."""
        text = text.replace("/etc/featuregate", str(self.folder)).replace("127.0.0.1:8080", self.relay)
        text = text.replace("listen 8443", f"listen 127.0.0.1:{self.port}").replace("8443", str(self.port))
        return text.replace(" 10s", " 2s")

    def get(self, path: str, **options: object) -> requests.Response:
        return requests.get(self.url + path, verify=self.ca, timeout=BOUND, **options)

    @contextmanager
    def nginx(self, config: str) -> Iterator[None]:
        if shutil.which("nginx") is None:
            pytest.skip("needs nginx, and it is not on the path")
        paths = "".join(f"{kind}_temp_path {self.folder};" for kind in ("client_body", "proxy", "fastcgi"))
        paths += "".join(f"{kind}_temp_path {self.folder};" for kind in ("uwsgi", "scgi"))
        file = self.folder / "nginx.conf"
        text = self.here(config).replace("worker_rlimit_nofile", "# worker_rlimit_nofile").replace("30000", "100")
        file.write_text(
            f"daemon off; pid {self.folder}/pid;\n{text.replace('http {', f'http {{ access_log off; {paths}')}"
        )
        with self.running("nginx", "-p", self.folder, "-e", self.folder / "errors", "-c", file):
            yield

    @contextmanager
    def running(self, *command: object) -> Iterator[None]:
        with subprocess.Popen([str(word) for word in command]) as process:
            try:
                eventually(self.listens)
                yield
            finally:
                process.terminate()

    def listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=BOUND).close()
        except OSError:
            return False
        return True

    def follows(self, features: StaticFeatures, **options: object) -> None:
        """Check that an app, a stream and the page come through: none waits in a buffer."""
        with self.get("/v1/clusters/orders/events", stream=True, **options) as response:
            stream = events_of(response)
            assert next(stream).kind == "view"
            features.show(replace(VIEW, epoch=VIEW.epoch + 1, finalized={**VIEW.finalized, "group.version": 2}))
            assert next(stream).kind == "view"
        assert "orders" in self.get("/", **options).text


def ends(edge: Edge, context: ssl.SSLContext, sent: bytes) -> None:
    plain = socket.create_connection(("127.0.0.1", edge.port), timeout=BOUND)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        connection.sendall(sent)
        while connection.recv(4096):
            pass


SLOW = [b"GET / HTTP/1.1\r\nHost: a\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx"]


def test_nginx_knows_clients_by_names_in_certificates(tmp_path: Path) -> None:
    """And replaces what a client says of itself; slow clients end, and what is too large does not reach the relay."""
    features = StaticFeatures(VIEW)
    with serving({"orders": features}, access=ACCESS) as url:
        edge = Edge(tmp_path, url.removeprefix("http://"))
        with edge.nginx(block("nginx")):
            payments, other = edge.certificate("payments.example"), edge.certificate("xpayments.example")
            view = "/v1/clusters/orders/view"
            assert edge.get(view, cert=payments).status_code == 200
            assert edge.get(view, cert=other, headers={"X-API-Key": KEY}).status_code == 401
            assert edge.get(view, headers={"X-API-Key": KEY}).status_code == 401
            assert edge.get("/readyz").json() == {"status": "ready", "clusters": {}}
            source = fg.HttpSource(edge.url, cluster="orders", verify=edge.ca, cert=payments)
            with fg.Discoverer(source=source, interval=3600.0) as client:
                assert client.gate("groups", "group.version>=1").wait(BOUND)
            edge.follows(features, cert=payments)
            context = ssl.create_default_context(cafile=edge.ca)
            context.load_cert_chain(payments)
            for sent in SLOW:
                ends(edge, context, sent)
            assert edge.get("/", cert=payments, headers={"A": "a" * 20_000}).status_code == 400
            flags = f"{edge.url}/ofrep/v1/evaluate/flags"
            large = requests.post(flags, data=b" " * 200_000, verify=edge.ca, cert=payments, timeout=BOUND)
            assert large.status_code == 413


@pytest.mark.slow
def test_envoy_checks_tokens_of_a_provider(tmp_path: Path) -> None:
    """With the keys that the provider publishes; the relay sees the key of its client alone."""
    envoy = shutil.which("envoy")
    if envoy is None:
        pytest.skip("needs Envoy, and it is not on the path")
    key, other = RSAKey.generate_key(2048, {"kid": "a"}), RSAKey.generate_key(2048, {"kid": "a"})

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps({"keys": [key.as_dict(private=False)]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def token(signer: RSAKey, **claims: object) -> dict[str, str]:
        said = {"iss": "https://idp.example/realm", "aud": "featuregate", "sub": "a", "exp": 4_000_000_000, **claims}
        return {"Authorization": f"Bearer {jwt.encode({'alg': 'RS256', 'kid': 'a'}, said, signer)}"}

    features = StaticFeatures(VIEW)
    with serving({"orders": features}, access=ACCESS) as url, serving_http(Keys) as idp:
        edge = Edge(tmp_path, url.removeprefix("http://"))
        text = edge.here(block("yaml")).replace("port_value: 8080", f"port_value: {url.rpartition(':')[2]}")
        text = text.replace(
            "address: idp.example, port_value: 443", f"address: 127.0.0.1, port_value: {idp.rpartition(':')[2]}"
        )
        text, plain = re.subn(
            r"(type: STRICT_DNS\n) +transport_socket:.*?(?= +load_assignment:)", r"\1", text, flags=re.DOTALL
        )
        assert plain == 1
        (tmp_path / "envoy.yaml").write_text(text)
        command = (
            envoy,
            "-c",
            tmp_path / "envoy.yaml",
            "--log-level",
            "error",
            "--concurrency",
            "1",
            "--use-dynamic-base-id",
        )
        view = "/v1/clusters/orders/view"
        with edge.running(*command):
            eventually(lambda: edge.get(view, headers=token(key)).status_code == 200)
            for wrong in ({}, {"X-API-Key": KEY}, token(other), token(key, aud="x"), token(key, exp=1)):
                assert edge.get(view, headers=wrong).status_code in {401, 403}
            edge.follows(features, headers=token(key))
            for sent in SLOW:
                ends(edge, ssl.create_default_context(cafile=edge.ca), sent)


@pytest.mark.slow
def test_oauth2_proxy_logs_people_in(tmp_path: Path) -> None:
    """Without a session the login comes; with one, the page and its events. Here the user is one of a file."""
    program = shutil.which("oauth2-proxy")
    if program is None:
        pytest.skip("needs oauth2-proxy, and it is not on the path")
    users = tmp_path / "users"
    users.write_text(f"ann:{{SHA}}{base64.b64encode(hashlib.sha1(b'secret').digest()).decode()}\n")
    features = StaticFeatures(VIEW)
    with serving({"orders": features}, access=ACCESS) as url:
        edge, login = Edge(tmp_path, url.removeprefix("http://")), free_port()
        whole = block("nginx")
        server = whole[: whole.index("        ssl_client_certificate")] + block("nginx", 1) + "}\n}\n"
        words = block("console", 0).replace("$ ", "").replace("\\\n", " ")
        words = words.replace("https://idp.example/realm", "http://127.0.0.1:1").replace(
            '"$(openssl rand -hex 16)"', "a" * 32
        )
        words = words.replace("/etc/featuregate", str(tmp_path))
        (tmp_path / "idp.secret").write_text("secret")
        more = [
            "--skip-oidc-discovery",
            "--login-url=http://127.0.0.1:1/login",
            "--redeem-url=http://127.0.0.1:1/token",
        ]
        more += [
            "--oidc-jwks-url=http://127.0.0.1:1/keys",
            f"--http-address=127.0.0.1:{login}",
            f"--htpasswd-file={users}",
        ]
        with subprocess.Popen([program, *words.split()[1:], *more]) as process:
            try:
                with edge.nginx(server.replace("127.0.0.1:4180", f"127.0.0.1:{login}")), requests.Session() as person:
                    person.verify, person.trust_env = edge.ca, False
                    eventually(lambda: "Sign in" in person.get(edge.url, timeout=BOUND).text)
                    said = {"username": "ann", "password": "secret", "rd": "/"}
                    page = person.post(f"{edge.url}/oauth2/sign_in", data=said, timeout=BOUND)
                    assert "orders: ok" in page.text
                    edge.follows(features, cookies=person.cookies)
            finally:
                process.terminate()
