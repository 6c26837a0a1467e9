"""Tokens of an OpenID Connect provider: which are valid, and what a refused one costs."""

import asyncio
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from http_serving import never_done, serving_http
from relay_on_socket import serving

from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.access import fetching
from featuregate_relay.access.authentication import Access
from featuregate_relay.access.clients import RelayClient
from featuregate_relay.access.fetching import FetchError, fetch_json, is_trusted_url
from featuregate_relay.access.tokens import InvalidToken, Tokens

BOUND = 60.0
AUDIENCE = "featuregate"
EC_KEY = ec.generate_private_key(ec.SECP256R1())
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
STRANGE_KEY = ec.generate_private_key(ec.SECP256R1())


class Issuer:
    """A provider on a loopback address. ``asked`` are the paths that were asked for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys = {"a": EC_KEY}
        self.asked: list[str] = []
        self.named = url
        self.status = 200
        self.named_algorithm: str | None = None

    def document(self, path: str) -> dict[str, Any]:
        if path.endswith("openid-configuration"):
            return {"issuer": self.named, "jwks_uri": f"{self.url}/keys"}
        named = {} if self.named_algorithm is None else {"alg": self.named_algorithm}
        return {"keys": [published(name, key) | named for name, key in self.keys.items()]}

    def token(self, key: Any = EC_KEY, *, kid: str | None = "a", alg: str = "ES256", **changes: Any) -> str:
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "app", "exp": time.time() + 600, **changes}  # noqa: TID251
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(claims, key, algorithm=alg, headers={} if kid is None else {"kid": kid})


def published(name: str, key: Any) -> dict[str, Any]:
    algorithm = (
        jwt.algorithms.ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else jwt.algorithms.RSAAlgorithm
    )
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": name, "use": "sig"}


@contextmanager
def issuing() -> Iterator[Issuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            body = json.dumps(issuer.document(self.path)).encode()
            self.send_response(issuer.status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Location", f"{issuer.url}/elsewhere")
            self.end_headers()
            self.wfile.write(body)

    with serving_http(Handler) as url:
        issuer = Issuer(url)
        yield issuer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """A provider."""
    with issuing() as issuer:
        yield issuer


class Checking:
    """Tokens of this issuer, on a clock that the test sets."""

    def __init__(self, issuer: Issuer, *algorithms: str) -> None:
        self.now = 0.0
        self.tokens = Tokens(issuer.url, AUDIENCE, algorithms or ("RS256", "ES256"), clock=lambda: self.now)

    def subject(self, token: str) -> str:
        return asyncio.run(self.tokens.claims(token))["sub"]

    def problem(self, token: str) -> str:
        with pytest.raises(InvalidToken) as caught:
            self.subject(token)
        return str(caught.value)


def test_a_token_of_the_issuer_is_valid(issuer: Issuer) -> None:
    """The relay fetches the keys of the issuer once."""
    checking = Checking(issuer)
    assert checking.subject(issuer.token()) == "app"
    assert checking.subject(issuer.token(sub="other")) == "other"
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize("kid", ["a", None])
@pytest.mark.parametrize("alg", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_key_of_rsa_that_names_no_algorithm_is_for_each_that_is_accepted(
    issuer: Issuer, alg: str, kid: str | None
) -> None:
    """And for no other: a key for signatures need not name its algorithm (RFC 7517, 4.4)."""
    issuer.keys = {"a": RSA_KEY}
    token = issuer.token(RSA_KEY, kid=kid, alg=alg)
    assert Checking(issuer, alg, "ES256").subject(token) == "app"
    assert Checking(issuer, "RS256" if alg != "RS256" else "PS256").problem(token) == "its algorithm is not accepted"


def test_a_key_that_names_its_algorithm_is_for_that_one_alone(issuer: Issuer) -> None:
    """The relay refuses the other algorithms that it accepts elsewhere."""
    issuer.keys = {"a": RSA_KEY}
    issuer.named_algorithm = "RS512"
    checking = Checking(issuer, "RS256", "RS512")
    assert checking.subject(issuer.token(RSA_KEY, alg="RS512")) == "app"
    assert checking.problem(issuer.token(RSA_KEY, alg="RS256")) == "the issuer has no such key"


WRONG: dict[str, dict[str, Any]] = {
    "expired": {"exp": 1},
    "not valid yet": {"nbf": 9_999_999_999},
    "of another issuer": {"iss": "https://other.example"},
    "for another audience": {"aud": "other"},
    "without an end": {"exp": None},
    "without a subject": {"sub": None},
    "without an audience": {"aud": None},
    "of a subject that is no text": {"sub": 7},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_a_token_is_found_before_a_key_is_fetched(issuer: Issuer, changes: dict[str, Any]) -> None:
    """A refused token costs the provider nothing."""
    if isinstance(changes.get("sub"), int):
        token = jwt.api_jws.PyJWS().encode(
            json.dumps({"iss": issuer.url, "aud": AUDIENCE, "sub": 7, "exp": 9_999_999_999}).encode(),
            EC_KEY,
            algorithm="ES256",
            headers={"kid": "a"},
        )
    else:
        token = issuer.token(**changes)
    assert Checking(issuer).problem(token)
    assert issuer.asked == []


@pytest.mark.parametrize("changes", [{"exp": -60}, {"nbf": 3600}], ids=str)
def test_a_token_is_wrong_a_minute_after_its_end_and_an_hour_before_its_beginning(
    issuer: Issuer, changes: dict[str, float]
) -> None:
    """Counted from the test, and not from the import of this module: a whole run may take more than that hour."""
    now = time.time()  # noqa: TID251 - tokens tell the time of day
    token = issuer.token(**{claim: now + seconds for claim, seconds in changes.items()})
    assert Checking(issuer).problem(token)
    assert issuer.asked == []


@pytest.mark.parametrize(
    "token", ["", "..", "a.b.c", "e30.e30.e30", "e30.e30", "é.é.é", "a" * 9000, "eyJhbGciOiJub25lIn0.e30."]
)
def test_a_malformed_token_is_refused(issuer: Issuer, token: str) -> None:
    """The problem is a sentence."""
    assert Checking(issuer).problem(token)
    assert issuer.asked == []


def test_algorithms_are_those_of_the_configuration(issuer: Issuer) -> None:
    """Not those that a token names: `none`, or a published key as the secret of an HMAC."""
    unsigned = jwt.encode({"iss": issuer.url, "aud": AUDIENCE, "sub": "x", "exp": 9_999_999_999}, "", algorithm="none")
    secret = b"what everybody may read in a key" * 2
    assert "algorithm" in Checking(issuer).problem(unsigned)
    assert "algorithm" in Checking(issuer).problem(issuer.token(secret, alg="HS256"))
    assert "algorithm" in Checking(issuer).problem(issuer.token(RSA_KEY, alg="RS512"))
    assert issuer.asked == []


def test_a_signature_by_another_key_is_refused(issuer: Issuer) -> None:
    """Also by a key of another kind under the same id."""
    checking = Checking(issuer)
    assert checking.problem(issuer.token(STRANGE_KEY)) == "Signature verification failed"
    assert checking.problem(issuer.token(RSA_KEY, alg="RS256"))
    assert len(issuer.asked) == 2


def test_a_new_key_is_fetched_and_an_invented_one_at_most_twice_a_minute(issuer: Issuer) -> None:
    """Tokens with many invented ids cause no more requests."""
    checking = Checking(issuer)
    checking.subject(issuer.token())
    issuer.keys = {"a": EC_KEY, "b": RSA_KEY}
    assert checking.problem(issuer.token(RSA_KEY, alg="RS256", kid="b")) == "the issuer has no such key"
    checking.now = 31.0
    assert checking.subject(issuer.token(RSA_KEY, alg="RS256", kid="b")) == "app"
    for number in range(20):
        assert checking.problem(issuer.token(kid=f"invented-{number}"))
    assert len(issuer.asked) == 4


@pytest.mark.parametrize("member", ["kid", "alg", "kty", "crv", "x", "use"])
@pytest.mark.parametrize("value", [["a"], {"a": 1}, 7])
def test_a_malformed_key_takes_no_other_key_with_it(issuer: Issuer, member: str, value: object) -> None:
    """It is skipped, whatever its members are."""
    whole = issuer.document
    malformed = {**published("a", EC_KEY), "kid": "b", member: value}
    issuer.document = lambda path: (  # type: ignore[method-assign]
        whole(path)
        if path.endswith("openid-configuration")
        else {"keys": [malformed, *whole(path)["keys"], 7, None, "text", []]}
    )
    assert Checking(issuer).subject(issuer.token()) == "app"


def test_an_issuer_without_a_usable_key_is_one_line(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    """And no error of the relay."""
    issuer.keys = {}
    assert Checking(issuer).problem(issuer.token()) == "the issuer has no such key"
    (line,) = caplog.messages
    assert line.endswith("cannot be fetched: it publishes no key that can be used")


@pytest.mark.parametrize("claim", ["exp", "nbf", "iat", "sub", "iss", "aud"])
@pytest.mark.parametrize("value", [[], {}, [1], float("inf"), float("nan"), 10**400, True])
def test_a_claim_of_another_type_is_an_invalid_token(issuer: Issuer, claim: str, value: object) -> None:
    """Anybody can send one, and its claims are read before its signature is checked."""
    encoded = ".".join(
        urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in (
            {"alg": "ES256", "kid": "a"},
            {"iss": issuer.url, "aud": AUDIENCE, "sub": "app", "exp": 9e9, claim: value},
        )
    )
    assert Checking(issuer).problem(f"{encoded}.AAAA")


def test_a_key_that_was_withdrawn_opens_nothing_after_a_while(issuer: Issuer) -> None:
    """A token needs no key id while the issuer has one key."""
    checking = Checking(issuer)
    assert checking.subject(issuer.token(kid=None)) == "app"
    issuer.keys = {"b": RSA_KEY}
    checking.now = 601.0
    assert checking.problem(issuer.token()) == "the issuer has no such key"


def test_an_issuer_that_is_down_locks_no_client_out(issuer: Issuer) -> None:
    """The last keys of the issuer stay valid for a day."""
    checking = Checking(issuer)
    checking.subject(issuer.token())
    issuer.status = 500
    checking.now = 3600.0
    assert checking.subject(issuer.token()) == "app"
    checking.now = 100_000.0
    assert checking.problem(issuer.token()) == "the issuer has no such key"


def test_documents_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where an issuer sends a few bytes again and again."""
    monkeypatch.setattr(fetching, "_SECONDS", 0.3)
    with never_done() as (url, gone):
        with pytest.raises(FetchError, match="it did not answer within"):
            fetch_json(url, None)
        assert gone.wait(BOUND)


def test_certificates_that_are_away_are_no_answer(tmp_path: Path) -> None:
    """As while a secret is mounted again: the keys at hand stay, and no request fails."""
    with pytest.raises(FetchError):
        fetch_json("https://127.0.0.1:1/keys", tmp_path / "ca.pem")


def test_a_provider_that_names_another_issuer_is_not_trusted(issuer: Issuer) -> None:
    """The relay does not even fetch its keys."""
    issuer.named = "https://other.example"
    assert Checking(issuer).problem(issuer.token())
    assert issuer.asked == ["/.well-known/openid-configuration"]


@pytest.mark.parametrize("status", [302, 404, 500])
def test_documents_are_fetched_without_redirects(issuer: Issuer, status: int) -> None:
    """A redirect could lead into the network of the relay."""
    issuer.status = status
    with pytest.raises(FetchError, match=f"it answered {status}"):
        fetch_json(f"{issuer.url}/keys", None)
    assert issuer.asked == ["/keys"]


def test_documents_have_a_size(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document must be a JSON object, too."""
    monkeypatch.setattr(fetching, "_MOST_BYTES", 10)
    with pytest.raises(FetchError, match="too large"):
        fetch_json(f"{issuer.url}/keys", None)


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("https://idp.example/realm", True),
        ("http://127.0.0.1:80", True),
        ("http://[::1]:80", True),
        ("http://idp.example", False),
        ("http://localhost", False),
        ("file:///etc/passwd", False),
        ("https://", False),
        ("", False),
    ],
)
def test_addresses_are_https(url: str, *, trusted: bool) -> None:
    """An address of this machine may be HTTP."""
    assert is_trusted_url(url) is trusted
    if not trusted:
        with pytest.raises(FetchError):
            fetch_json(url, None)


def test_a_token_opens_what_its_subject_may_read(issuer: Issuer) -> None:
    """A subject that no client has gets the rights of every token."""
    tokens = Tokens(issuer.url, AUDIENCE, ("ES256",), clock=time.monotonic)
    clients = {"admin": RelayClient("admin", None)}
    access = Access(tokens=tokens, subjects=clients, any_subject=frozenset({"orders"}))
    view = release_view("4.2")
    with serving({"orders": StaticFeatures(view), "stock": StaticFeatures(view)}, access=access) as url:

        def status(name: str, token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return requests.get(f"{url}/v1/clusters/{name}/view", headers=headers, timeout=BOUND).status_code

        assert [status("orders", issuer.token()), status("stock", issuer.token())] == [200, 403]
        assert [status(name, issuer.token(sub="admin")) for name in ("orders", "stock")] == [200, 200]
        assert status("orders", issuer.token(exp=1)) == 401
        assert status("orders", "a.b.c") == 401
        assert status("orders", "no-token") == 401
