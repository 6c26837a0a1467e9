"""Where the tokens of OAUTHBEARER come from."""

import asyncio
import base64
import gzip
import json
import threading
from dataclasses import dataclass, replace
from unittest.mock import Mock

import pytest
import requests
import responses

from featuregate.config import Secret
from featuregate.config.oauthbearer import Callback, ClientCredentials, TokenProvider, UnsecuredToken
from featuregate.credentials.tokens import TokenFetcher, fetch_token
from featuregate.errors import AuthenticationFailed, ConfigError, TimedOut

URL = "https://id.example/token"
SOURCE = ClientCredentials(
    endpoint=URL, client_id="app", client_secret=Secret("hunter2"), scope="kafka read", extensions=(("a", "b"),)
)


class Clock:
    """A clock in seconds since 1970 that a test moves."""

    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        """Return the time."""
        return self.now


@pytest.fixture
def clock():
    """Return a clock that stands still."""
    return Clock()


@pytest.fixture
def endpoint():
    """Replace the token endpoint by answers without a network."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def test_the_endpoint_is_asked_by_client_credentials(endpoint, clock):
    endpoint.post(URL, json={"access_token": "t.o.k", "expires_in": 100})
    token = TokenFetcher(clock).fetch(SOURCE, 5)
    assert token.value.reveal() == "t.o.k"
    assert token.extensions == (("a", "b"),)
    request = endpoint.calls[0].request
    assert request.body == "grant_type=client_credentials&scope=kafka+read"
    assert request.headers["Authorization"] == "Basic " + base64.b64encode(b"app:hunter2").decode()


@dataclass
class Signer:
    """A signer as people write it: a dataclass, which has no hash."""

    region: str

    def __call__(self, _config: str) -> tuple[str, float]:
        """Give a token as confluent-kafka wants it."""
        return self.region, 4e9

    def token(self) -> str:
        """Give a token as kafka-python wants it."""
        return self.region


def test_a_signer_may_be_a_dataclass(clock):
    """It has no hash. Signers that differ do not share a token."""
    fetcher = TokenFetcher(clock)
    for name in ("a", "b"):
        for source in (Callback(function=Signer(name), config=""), TokenProvider(provider=Signer(name))):
            assert fetcher.fetch(source, 5).value.reveal() == name


def test_the_endpoints_certificate_is_checked(endpoint, clock):
    """The fetcher trusts the system's authorities, or those of https.ca.location."""
    endpoint.post(URL, json={"access_token": "t", "expires_in": 100})
    TokenFetcher(clock).fetch(SOURCE, 5)
    TokenFetcher(clock).fetch(replace(SOURCE, ca_location="/ca.pem"), 5)
    system, own = (call.request.req_kwargs["verify"] for call in endpoint.calls)
    assert system  # True, or the bundle that REQUESTS_CA_BUNDLE names
    assert own == "/ca.pem"


def test_a_token_is_kept_for_four_fifths_of_its_life(endpoint, clock):
    """Then the fetcher fetches a new one. It keeps none of which the endpoint does not say how long it is valid."""
    endpoint.post(URL, json={"access_token": "one", "expires_in": 100})
    endpoint.post(URL, json={"access_token": "two"})
    endpoint.post(URL, json={"access_token": "three"})
    fetcher = TokenFetcher(clock)
    found = []
    for seconds in (0, 79, 2, 0):
        clock.now += seconds
        found.append(fetcher.fetch(SOURCE, 5).value.reveal())
    assert found == ["one", "one", "two", "three"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"status": 401, "json": {"error": "invalid_client", "error_description": "no"}}, "401: invalid_client: no"),
        ({"status": 500, "body": "<html>"}, "500: no reason given"),
        ({"status": 200, "body": "[]"}, "200: no JSON object"),
        ({"status": 200, "body": "[" * 100_000}, "200: no JSON object"),
        ({"status": 200, "json": {"token": "x"}}, "no access_token"),
        ({"status": 200, "body": '{"access_token": "a\\ud800b"}'}, "200: no JSON object"),
        # RFC 6749 allows visible ASCII characters
        *(
            ({"status": 200, "json": {"access_token": token}}, "no access_token")
            for token in ("", "a b\n", "t\u00f6ken")
        ),
        ({"status": 400, "json": {"error": "a\nb\x1b[31m"}}, "400: a?b?[31m"),
        ({"status": 302, "headers": {"Location": "https://evil.example"}}, "a redirect"),
        ({"body": requests.ConnectTimeout("x")}, "cannot be reached: ConnectTimeout"),
        ({"body": requests.exceptions.SSLError("x")}, "cannot be reached: SSLError"),
    ],
)
def test_an_endpoint_that_gives_no_token_is_told_without_the_secret(endpoint, clock, answer, says):
    """The error has the reason of the endpoint, and the fetcher does not keep the failure."""
    endpoint.post(URL, **answer)
    endpoint.post(URL, json={"access_token": "t", "expires_in": 100})
    fetcher = TokenFetcher(clock)
    with pytest.raises(AuthenticationFailed) as caught:
        fetcher.fetch(SOURCE, 5)
    assert says in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert fetcher.fetch(SOURCE, 5)


@pytest.mark.parametrize(
    "answer", [{"status": 500}, {"status": 200, "json": {}}, {"body": requests.ConnectionError(f"{URL}?code=hunter2")}]
)
def test_invariant_12_the_query_of_an_endpoint_is_not_told(endpoint, clock, answer):
    """The query may contain a key, and the errors of requests repeat the query."""
    endpoint.post(f"{URL}?code=hunter2", **answer)
    source = replace(SOURCE, endpoint=f"{URL}?code=hunter2")
    with pytest.raises(AuthenticationFailed, match=URL) as caught:
        TokenFetcher(clock).fetch(source, 5)
    assert "hunter2" not in f"{source!r} {all_of(caught.value)}"


def all_of(error):
    """Return all texts of an error and of its causes."""
    behind = [all_of(other) for other in (error.__cause__, error.__context__) if other is not None]
    return [str(error), repr(error), error.args, getattr(error, "__notes__", []), behind]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        *[(given, "oauth_cb") for given in (None, "t", ("t",), ("t", "soon"), ("t", 1, "p", 7))],
        *[
            (given, "reading it failed with ValueError")
            for given in ((1.0, "hunter2"), ("hunter2", 1.0, None, ["hunter2"]), "hunter2")
        ],
        (
            ("hunter2", 1_901_000_000_000),
            "gave an expiry in milliseconds: divide it by 1000",
        ),  # as signers of clouds do
    ],
)
def test_invariant_12_a_callback_that_gives_something_else_is_told_without_it(clock, given, says):
    """A callback may put the token where the expiry belongs, and Python's error of parsing it would repeat it."""
    source = Callback(function=lambda _: given, config="")
    with pytest.raises(ConfigError, match=says) as caught:
        TokenFetcher(clock).fetch(source, 5)
    assert caught.value.key == "oauth_cb"
    assert "hunter2" not in str(all_of(caught.value))


@pytest.mark.parametrize("kind", [ValueError, SystemExit, asyncio.CancelledError])
def test_invariant_12_whatever_a_callback_raises_is_told_without_its_text(kind):
    """Also what ends a thread, which would reach the app with its text."""
    failing = Mock(side_effect=kind("hunter2"))
    for source in (Callback(function=failing, config=""), TokenProvider(provider=Mock(token=failing))):
        with pytest.raises(ConfigError, match=f"failed with {kind.__name__}$") as caught:
            TokenFetcher().fetch(source, 5)
        assert "hunter2" not in str(caught.value)


def test_a_secret_in_any_script_is_sent(endpoint, clock):
    """The fetcher encodes the secret in UTF-8; requests would use Latin-1, and fail with an error that contains it."""
    endpoint.post(URL, json={"access_token": "t"})
    TokenFetcher(clock).fetch(replace(SOURCE, client_secret=Secret("hunter€")), 5)
    sent = endpoint.calls[0].request.headers["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(sent).decode() == "app:hunter€"


def test_a_life_without_end_is_a_day(endpoint, clock):
    """The fetcher keeps a token for a day at most, whatever the endpoint says."""
    endpoint.post(URL, body='{"access_token": "one", "expires_in": ' + "9" * 400 + "}")
    endpoint.post(URL, json={"access_token": "two", "expires_in": 100})
    fetcher = TokenFetcher(clock)
    fetcher.fetch(SOURCE, 5)
    clock.now += 24 * 3600
    assert fetcher.fetch(SOURCE, 5).value.reveal() == "two"


async def answering(serve, *parts):
    """Return a source whose endpoint sends just these bytes, and then nothing."""

    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
            await writer.drain()
        await reader.read()

    address = await serve(talk)
    return replace(SOURCE, endpoint=f"http://{address}/token")


async def test_invariant_7_an_endpoint_that_stops_in_the_middle_is_told(serve):
    """The fetcher raises an error of featuregate, not one of the library below."""
    source = await answering(serve, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    with pytest.raises(AuthenticationFailed, match="cannot be reached: ConnectionError"):
        await asyncio.to_thread(TokenFetcher().fetch, source, 0.1)


async def test_invariant_7_an_answer_is_not_unpacked(serve):
    """The fetcher refuses a compressed body, which may unpack to a thousand times its size."""
    packed = gzip.compress(b'{"access_token": "t"}')
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    source = await answering(serve, head.encode() + packed)
    with pytest.raises(AuthenticationFailed, match="200: no JSON object"):
        await asyncio.to_thread(TokenFetcher().fetch, source, 30)


def test_a_callback_tells_when_its_token_expires(clock):
    calls = []
    source = Callback(function=lambda config: calls.append(config) or ("t", clock.now + 100), config="x=y")
    fetcher = TokenFetcher(clock)
    fetcher.fetch(source, 5)
    clock.now += 79
    fetcher.fetch(source, 5)
    assert calls == ["x=y"]
    clock.now += 2
    fetcher.fetch(source, 5)
    assert calls == ["x=y", "x=y"]


def test_an_unsecured_token_says_who_and_until_when(clock):
    source = UnsecuredToken(claims=(("sub", "admin"), ("scope", "a b")), life_seconds=60)
    value = TokenFetcher(clock).fetch(source, 5).value.reveal()
    header, claims, signature = value.split(".")

    def decoded(part):
        return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))

    assert decoded(header) == {"alg": "none"}
    assert decoded(claims) == {"sub": "admin", "scope": ["a", "b"], "iat": 1_000_000, "exp": 1_000_060}
    assert signature == ""


async def test_invariant_7_a_callback_that_hangs_costs_one_timeout():
    never = threading.Event()
    source = Callback(function=lambda _: never.wait(), config="")
    with pytest.raises(TimedOut, match="oauth_cb: timed out while waiting for a token"):
        await fetch_token(source, 0.05, TokenFetcher())
    never.set()


def test_invariant_7_waiting_for_a_source_that_hangs_times_out():
    """Otherwise each poll would leave one more thread behind."""
    started, never = threading.Event(), threading.Event()
    source = Callback(function=lambda _: (started.set(), never.wait(), 4e9)[1:], config="")
    fetcher = TokenFetcher()
    first = threading.Thread(target=fetcher.fetch, args=(source, 5))
    first.start()
    started.wait()
    with pytest.raises(TimedOut, match="oauth_cb: timed out while waiting for a token"):
        fetcher.fetch(source, 0.05)
    never.set()
    first.join()


def test_threads_share_one_fetch_of_a_token(clock):
    """The fetcher calls a callback in one thread at a time, because callbacks need not be thread-safe."""
    calls, started, go_on = [], threading.Event(), threading.Event()

    def callback(config):
        calls.append(config)
        started.set()
        go_on.wait()
        return "t", clock.now + 100

    source, fetcher = Callback(function=callback, config=""), TokenFetcher(clock)
    threads = [threading.Thread(target=fetcher.fetch, args=(source, 5)) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_invariant_12_the_repr_of_a_token_hides_its_value(clock):
    source = Callback(function=lambda _: ("hunter2", clock.now + 9), config="")
    assert "hunter2" not in repr(TokenFetcher(clock).fetch(source, 5))


class Provider:
    """A token provider of kafka-python, which counts its calls."""

    def __init__(self):
        self.calls = 0

    def token(self):
        """Return a new token each time."""
        self.calls += 1
        return f"t{self.calls}"

    def extensions(self):
        """Return SASL extensions."""
        return {"logicalCluster": "lkc-1"}


class CoroutineProvider:
    """A token provider of aiokafka, which has no extensions."""

    async def token(self):
        """Return a token after a turn of the loop."""
        await asyncio.sleep(0)
        return "t"


async def test_a_token_provider_is_asked_for_each_connection():
    """It gives no expiry, and caches its tokens itself."""
    source = TokenProvider(provider=Provider())
    fetcher = TokenFetcher()
    found = [await fetch_token(source, 30, fetcher) for _ in range(2)]
    assert [token.value.reveal() for token in found] == ["t1", "t2"]
    assert found[0].extensions == (("logicalCluster", "lkc-1"),)


async def test_a_token_provider_may_be_a_coroutine():
    """It runs in a loop of its own, beside the caller's."""
    token = await fetch_token(TokenProvider(provider=CoroutineProvider()), 30, TokenFetcher())
    assert (token.value.reveal(), token.extensions) == ("t", ())


def failing():
    raise ValueError("hunter2")


@pytest.mark.parametrize(
    ("token", "says"),
    [
        *[(lambda given=given: given, r"token\(\) must give a str") for given in (None, b"hunter2", 3)],
        (failing, "it failed with ValueError"),
    ],
)
def test_a_token_provider_that_gives_no_text_is_an_error_without_it(token, says):
    """The error names the keyword. The text of the app's error may hold a secret; the cause has it."""
    provider = Provider()
    provider.token = token
    with pytest.raises(ConfigError, match=f"sasl_oauth_token_provider: gave no token: {says}") as caught:
        TokenFetcher().fetch(TokenProvider(provider=provider), 5)
    assert "hunter2" not in str(caught.value)


# Python's wrap_socket leaves its object unclosed where the connection is reset before the handshake begins, which is so
# on a busy machine, at the end of the exchange.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
@pytest.mark.parametrize(
    ("scheme", "start"),
    [
        ("http", b""),
        ("http", b"HTTP/1.1 200 OK\r\nX: "),
        ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"),
        ("https", b"\x16\x03\x03\x40\x00"),
    ],
    ids=["status line", "header", "body", "TLS handshake"],
)
async def test_invariant_7_an_endpoint_that_drips_has_one_bound_for_the_whole_exchange(serve, scheme, start):
    """Each byte would begin the timeout again; the next fetch is not held up."""
    gone = asyncio.Event()

    async def drip(reader, writer):
        await reader.read(1)
        writer.write(start)
        try:
            while not gone.is_set():
                writer.write(b"x")
                await writer.drain()
                await asyncio.wait({asyncio.ensure_future(gone.wait())}, timeout=0.02)
        finally:
            gone.set()

    address = await serve(drip)
    source = replace(SOURCE, endpoint=f"{scheme}://{address}/token")
    fetcher = TokenFetcher()
    with pytest.raises((TimedOut, AuthenticationFailed), match=r"no answer within 0\.3 s|ReadTimeout"):
        await asyncio.to_thread(fetcher.fetch, source, 0.3)
    async with asyncio.timeout(30):
        await gone.wait()
    with pytest.raises((TimedOut, AuthenticationFailed)):  # asked again, not waiting for the first one
        await asyncio.to_thread(fetcher.fetch, source, 5)
