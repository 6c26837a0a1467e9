"""Authentication: which tokens the client sends, which ones it checks, and what its errors say."""

import pytest
from scramp import ScramException, ScramMechanism

from featuregate.errors import AuthenticationFailed, FeatureGateError, TimedOut
from featuregate.net import cluster_metadata
from featuregate.net.connection import Connection
from featuregate.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

PASSWORD = "hunter2"


@pytest.fixture
def authenticate(settings_for, in_each_loop):
    """Negotiate and authenticate."""

    async def run(address, mechanism="PLAIN", *, request_timeout=30, **config):
        config = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "app",
            "sasl.password": PASSWORD,
            **config,
        }
        await in_each_loop(log_in(address, settings_for(address, config=config, request_timeout=request_timeout)))

    async def log_in(address, settings):
        with await Connection.open(address, settings) as connection:
            await connection.negotiate()
            await cluster_metadata.authenticate(connection, settings)

    return run


@pytest.fixture
def listener(fake_node):
    """Make a listener with SASL that answers each token by a function of bytes."""

    def make(answer, *, mechanism="PLAIN", api_ranges=None):
        node = fake_node(api_ranges)
        node.says[SaslHandshakeRequest] = lambda request, _: SaslHandshakeResponse(
            error_code=0 if request.mechanism == mechanism else 33, mechanisms=(mechanism,)
        )
        node.says[SaslAuthenticateRequest] = lambda request, _: answer(request.auth_bytes)
        node.bare_token = answer
        return node

    return make


def accepted(token=b""):
    """Return a response with the next token of the broker."""
    return SaslAuthenticateResponse(auth_bytes=token)


def denied(message="Authentication failed: Invalid username or password"):
    """Return the response that Kafka gives to wrong credentials."""
    return SaslAuthenticateResponse(error_code=58, error_message=message)


async def failure(authenticate, *args, **kwargs):
    """Return the message of the failed authentication; the error never contains the password."""
    with pytest.raises(AuthenticationFailed) as caught:
        await authenticate(*args, **kwargs)
    assert PASSWORD not in f"{caught.value!s} {caught.value!r}"
    return str(caught.value)


BEFORE_1_0 = {3: (0, 2), 17: (0, 0), 18: (0, 0)}


@pytest.mark.parametrize(("answer", "more"), [(accepted(), {}), (b"", {"api_ranges": BEFORE_1_0})])
async def test_plain_sends_name_and_password(serve, listener, authenticate, answer, more):
    """The client sends the one token of RFC 4616, to a broker before 1.0 without a request header."""
    tokens = []
    address = await serve(listener(lambda token: tokens.append(token) or answer, **more))
    await authenticate(address)
    assert tokens == [b"\0app\0hunter2"]


async def test_invariant_12_a_refusal_is_told_in_the_brokers_words_without_the_password(serve, listener, authenticate):
    address = await serve(listener(lambda _: denied()))
    assert await failure(authenticate, address) == (
        f"{address}: authentication with PLAIN failed: the broker answered SASL_AUTHENTICATION_FAILED: "
        "Authentication failed: Invalid username or password"
    )


@pytest.mark.parametrize(
    ("listens", "says"),
    [
        ({"mechanism": "SCRAM-SHA-512"}, "it enables: SCRAM-SHA-512"),
        # the broker closes the connection without an error, so the client explains what that means
        ({"api_ranges": BEFORE_1_0}, "how brokers before 1.0 refuse credentials"),
    ],
)
async def test_a_listener_that_gives_no_reason_is_explained(serve, listener, authenticate, listens, says):
    assert says in await failure(authenticate, await serve(listener(lambda _: None, **listens)))


async def test_a_listener_without_sasl_is_told(serve, fake_node, authenticate):
    """The listener answers error 34, or does not list the API at all."""
    node = fake_node()
    node.says[SaslHandshakeRequest] = lambda *_: SaslHandshakeResponse(error_code=34)
    assert "does not expect authentication: set security.protocol" in await failure(authenticate, await serve(node))
    without = fake_node({18: (0, 4), 3: (0, 12)})
    assert "this listener does not support SASL" in await failure(authenticate, await serve(without))


class ScramListener:
    """A broker that answers tokens by the server half of scramp."""

    def __init__(self, mechanism, password=PASSWORD, spoil=lambda token: token):
        self._mechanism = ScramMechanism(mechanism)
        self._info = self._mechanism.make_auth_info(password)
        self._server = None
        self._spoil = spoil

    def token(self, token):
        """Return the next token of the server."""
        if self._server is None:
            self._server = self._mechanism.make_server(lambda _: self._info)
            first, by_token, _ = token.decode().partition(",tokenauth=true")  # which scramp does not know
            self._server.set_client_first(first)
            self._server.client_first_bare += by_token
            return self._spoil(self._server.get_server_first().encode())
        self._server.set_client_final(token.decode())
        return self._spoil(self._server.get_server_final().encode())

    def __call__(self, token):
        """The same inside SaslAuthenticate, with Kafka's refusal."""
        try:
            return accepted(self.token(token))
        except ScramException:
            return denied()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_scram_proves_the_password_both_ways(serve, listener, authenticate, mechanism):
    """The client sends a proof of the password in two tokens, which the server half of scramp checks."""
    node = listener(ScramListener(mechanism), mechanism=mechanism)
    await authenticate(await serve(node), mechanism)
    tokens = [request.auth_bytes for request, _ in node.asked if isinstance(request, SaslAuthenticateRequest)]
    assert PASSWORD.encode() not in b"".join(tokens)
    assert len(tokens) == 2


async def test_scram_goes_over_bare_tokens_too(serve, listener, authenticate):
    node = listener(ScramListener("SCRAM-SHA-256").token, mechanism="SCRAM-SHA-256", api_ranges=BEFORE_1_0)
    await authenticate(await serve(node), "SCRAM-SHA-256")


async def test_a_delegation_token_is_told_in_the_first_message(serve, listener, authenticate):
    """The extension is part of what both sides prove (KIP-48)."""
    node = listener(ScramListener("SCRAM-SHA-512"), mechanism="SCRAM-SHA-512")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="app" password="{PASSWORD}" tokenauth="true";'
    await authenticate(await serve(node), "SCRAM-SHA-512", **{"sasl.jaas.config": jaas})
    first = next(request.auth_bytes for request, _ in node.asked if isinstance(request, SaslAuthenticateRequest))
    assert first.startswith(b"n,,n=app,r=")
    assert first.endswith(b",tokenauth=true")


async def test_a_wrong_scram_password_is_refused(serve, listener, authenticate):
    node = listener(ScramListener("SCRAM-SHA-256", password="other"), mechanism="SCRAM-SHA-256")
    assert "Invalid username or password" in await failure(authenticate, await serve(node), "SCRAM-SHA-256")


async def test_a_broker_that_cannot_prove_that_it_knows_the_password_is_refused(serve, listener, authenticate):
    """The client refuses a broker that reports success with a forged signature."""

    def forge(token):
        return b"v=" + b"A" * 43 + b"=" if token.startswith(b"v=") else token

    node = listener(ScramListener("SCRAM-SHA-256", spoil=forge), mechanism="SCRAM-SHA-256")
    assert "server signature doesn't match" in await failure(authenticate, await serve(node), "SCRAM-SHA-256")


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (b"r=x,s=AAAA,i=4096", ""),
        (b"\xff\xfe", "is not UTF-8"),
        (b"", ""),
        (b"e=unknown-user", "unknown-user"),
        (b"e=\x1b[31mred\n", "e"),
        ("v=\u00e9".encode(), ""),
        (b"r=x,s=QUFBQUFBQUFBQUFB,i=", ""),
        (b"r=x,s=QUFBQUFBQUFBQUFB,i=ten", ""),
        ("r=x,s=QUFBQUFBQUFBQUFB,i=\u0664".encode(), ""),
        (b"r=x,s=QUFBQUFBQUFBQUFB,i=4095", "fewer than 4096 iterations of the hash"),
        (b"r=x,s=QUFBQUFBQUFBQUFB,i=1000001", "more than 1000000 iterations"),
        (b"r=x,s=QUFBQUFBQUFBQUFB,i=99999999999999999999", "more than 1000000 iterations"),
    ],
)
async def test_invariant_7_a_broker_that_answers_scram_with_nonsense_is_refused(
    serve, listener, authenticate, token, says
):
    """The broker can neither crash the client nor make the client hash for minutes."""
    node = listener(lambda _: accepted(token), mechanism="SCRAM-SHA-256")
    said = await failure(authenticate, await serve(node), "SCRAM-SHA-256")
    assert says in said
    assert said.isprintable()


async def test_a_broker_that_adds_nothing_to_the_nonce_is_refused(serve, listener, authenticate):
    """Then its messages could be those of an earlier exchange (RFC 5802, section 5.1)."""

    def only_the_clients(token):
        nonce, rest = token.split(b",", 1)
        return nonce[: 2 + len(nonce[2:]) // 2] + b"," + rest if token.startswith(b"r=") else token

    node = listener(ScramListener("SCRAM-SHA-256", spoil=only_the_clients), mechanism="SCRAM-SHA-256")
    assert "nonce" in await failure(authenticate, await serve(node), "SCRAM-SHA-256")


async def test_a_user_name_that_scram_cannot_prepare_is_refused(serve, listener, authenticate):
    """The client refuses a name with a character that RFC 4013 forbids."""
    node = listener(ScramListener("SCRAM-SHA-256"), mechanism="SCRAM-SHA-256")
    address = await serve(node)
    assert "SCRAM-SHA-256" in await failure(authenticate, address, "SCRAM-SHA-256", **{"sasl.username": "a\u0007b"})


def oauth(**config):
    """Return properties with a token callback."""
    return {"oauth_cb": lambda _: ("t.o.k", 4e9), "sasl.oauthbearer.config": "", **config}


async def test_oauthbearer_sends_the_token_with_its_extensions(serve, listener, authenticate):
    tokens = []
    address = await serve(listener(lambda token: tokens.append(token) or accepted(), mechanism="OAUTHBEARER"))
    callback = {"oauth_cb": lambda config: (config, 4e9, "principal", {"logicalCluster": "lkc-1"})}
    await authenticate(address, "OAUTHBEARER", **oauth(**callback, **{"sasl.oauthbearer.config": "t.o.k"}))
    assert tokens == [b"n,,\x01auth=Bearer t.o.k\x01logicalCluster=lkc-1\x01\x01"]


async def test_a_refused_token_is_acknowledged_and_told_in_the_brokers_words(serve, listener, authenticate):
    """The broker sends JSON first, and the failure after the client has acknowledged it."""
    tokens = []

    def answer(token):
        tokens.append(token)
        return accepted(b'{"status":"invalid_token"}') if len(tokens) == 1 else denied("bad audience")

    address = await serve(listener(answer, mechanism="OAUTHBEARER"))
    message = await failure(authenticate, address, "OAUTHBEARER", **oauth())
    assert tokens[1] == b"\x01"
    assert '{"status":"invalid_token"}' in message
    assert "bad audience" in message
    assert "t.o.k" not in message


async def test_a_token_that_is_refused_without_a_second_answer_is_refused_all_the_same(serve, listener, authenticate):
    """A broker that accepts the acknowledgement has still refused the token."""
    address = await serve(listener(lambda _: accepted(b"{}"), mechanism="OAUTHBEARER"))
    assert "refused the token: {}" in await failure(authenticate, address, "OAUTHBEARER", **oauth())


async def test_a_callback_that_fails_is_a_config_error_without_its_text(serve, listener, authenticate):
    """The text of the app's error may contain a secret, so the message names only its type."""

    def fail(config):
        raise RuntimeError(PASSWORD)

    address = await serve(listener(None, mechanism="OAUTHBEARER"))
    with pytest.raises(FeatureGateError, match=r"oauth_cb.*RuntimeError") as caught:
        await authenticate(address, "OAUTHBEARER", oauth_cb=fail)
    assert PASSWORD not in str(caught.value)


async def test_invariant_7_a_broker_that_falls_silent_in_between_costs_one_timeout(serve, fake_node, authenticate):
    node = fake_node({17: (0, 1), 18: (0, 4), 36: (0, 2)})
    node.says[SaslHandshakeRequest] = lambda *_: b"\0"
    with pytest.raises(TimedOut, match="SaslHandshake v1"):
        await authenticate(await serve(node), request_timeout=0.2)
