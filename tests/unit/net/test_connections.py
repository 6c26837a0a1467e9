"""Connections that are kept from one probe to the next."""

import asyncio
import os
import ssl
from contextlib import asynccontextmanager, contextmanager

import pytest
import trustme

from featuregate.errors import BrokerError, FeatureGateError
from featuregate.net import kept_connections
from featuregate.net.cluster_metadata import authenticate
from featuregate.net.kept_connections import KeptConnections
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse
from featuregate.wire.session import ExpectedNode

BOUND = 30.0
PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}


class CountingNode:
    """A node that counts its connections, the ended ones too, and says which of them a request came by."""

    def __init__(self, fake):
        self.fake = fake
        self.writers = []
        self.ended = asyncio.Semaphore(0)
        self.answers_each_connection = None
        """The number of requests that each connection answers; None: all."""

    async def __call__(self, reader, writer):
        self.writers.append(writer)
        try:
            if self.answers_each_connection is None:
                await self.fake(reader, writer)
            else:
                await self._answer_some(reader, writer)
        finally:
            self.ended.release()

    async def _answer_some(self, reader, writer):
        """Answer the first requests, and none after that, as where a firewall has forgotten the connection."""
        for _ in range(self.answers_each_connection):
            length = int.from_bytes(await reader.readexactly(4))
            writer.write(self.fake._answer(await reader.readexactly(length)))
        await reader.read()


class Probing:
    """Asks one node again and again, by connections that are kept."""

    def __init__(self, address, settings):
        self.address, self.settings = address, settings
        self.kept = KeptConnections()

    async def ask(self, expected=None, *, log_in=False):
        async with self.kept.connect(self.address, self.settings, expected) as (connection, negotiated):
            if log_in:
                await authenticate(connection, self.settings)
        return negotiated.response.api_ranges


@pytest.fixture
async def node(fake_node):
    return CountingNode(fake_node({3: (0, 13), 17: (0, 1), 18: (0, 5), 36: (0, 2)}))


@pytest.fixture
def probing(serve, settings_for, node):
    """Start to ask a node."""

    @asynccontextmanager
    async def start(config=None, tls=None, **bounds):
        address = await serve(node, tls=tls)
        found = Probing(address, settings_for(address, config=config, **bounds))
        try:
            yield found
        finally:
            found.kept.close()

    return start


async def until(semaphore):
    """Wait for one release."""
    async with asyncio.timeout(BOUND):
        await semaphore.acquire()


async def test_the_next_probe_asks_on_the_same_connection_and_hears_what_is_new(probing, node):
    """A connection that lives says what a new one would say."""
    async with probing() as probe:
        before = await probe.ask()
        node.fake.api_ranges = {**node.fake.api_ranges, 0: (0, 14)}
        assert await probe.ask() == {**before, 0: (0, 14)}
        assert len(node.writers) == 1
    await until(node.ended)


async def test_a_connection_that_the_broker_ends_is_news_and_the_next_probe_opens_another(probing, node):
    async with probing() as probe:
        await probe.ask()
        node.writers[0].close()
        async with asyncio.timeout(BOUND):
            await probe.kept.lost.wait()
        await probe.ask()
        assert len(node.writers) == 2


async def test_closing_is_no_news(probing, node):
    """The caller closed it."""
    async with probing() as probe:
        await probe.ask()
        probe.kept.close()
        await until(node.ended)
        assert not probe.kept.lost.is_set()


async def test_where_a_kept_connection_is_dead_a_new_one_answers_within_the_bound(probing, node, monkeypatch):
    """A firewall forgets a connection without telling either side: without the race, the broker would seem silent."""
    monkeypatch.setattr(kept_connections, "_HALF_OPEN", 0.01)
    node.answers_each_connection = 1
    async with probing() as probe:
        for _ in range(3):
            assert await probe.ask()
        assert len(node.writers) == 3


async def test_a_broker_that_refuses_on_both_is_an_error_and_nothing_is_kept(probing, node):
    async with probing() as probe:
        await probe.ask()
        node.fake.says[ApiVersionsRequest] = lambda *_: ApiVersionsResponse(error_code=129, api_ranges={})
        with pytest.raises(BrokerError):
            await probe.ask()
        await until(node.ended)
        await until(node.ended)


async def test_a_connection_that_takes_the_place_of_another_is_kept(probing, node):
    """The end of the one before, which the probe closes, is no news and not the end of its replacement."""
    async with probing() as probe:
        await asyncio.gather(probe.ask(), probe.ask())
        await until(node.ended)
        assert not probe.kept.lost.is_set()
        await probe.ask()
        assert len(node.writers) == 2


async def test_another_node_at_the_same_address_gets_a_connection_of_its_own(probing, node):
    """The request names the node that it expects; connections that no probe used are closed."""
    async with probing() as probe:
        await probe.ask(ExpectedNode("cluster-1", 1))
        probe.kept.close_unused()
        await probe.ask(ExpectedNode("cluster-1", 2))
        assert len(node.writers) == 2
        assert node.ended.locked(), "both are open"
        probe.kept.close_unused()
        await until(node.ended)


async def test_a_connection_whose_use_failed_is_not_kept(probing, node):
    """An answer may still be on its way."""
    async with probing() as probe:
        with pytest.raises(ZeroDivisionError):
            async with probe.kept.connect(probe.address, probe.settings, None):
                raise ZeroDivisionError
        await until(node.ended)
        await probe.ask()
        assert len(node.writers) == 2


async def test_a_probe_that_is_cancelled_leaves_no_connection(probing, node, monkeypatch):
    """The cancelled probe closes the kept connection and the new one."""
    monkeypatch.setattr(kept_connections, "_HALF_OPEN", 0.01)
    async with probing() as probe:
        await probe.ask()
        asked = asyncio.Semaphore(0)

        def say_nothing(*_):
            asked.release()
            return b""

        node.fake.says[ApiVersionsRequest] = say_nothing
        task = asyncio.ensure_future(probe.ask())
        await until(asked)
        await until(asked)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(node.ended)
        await until(node.ended)


async def test_a_connection_is_authenticated_once_and_kept(probing, node):
    """A broker answers ApiVersions once before authentication, and any time after it."""
    node.fake.says[SaslAuthenticateRequest] = lambda *_: SaslAuthenticateResponse()
    async with probing(PLAIN) as probe:
        await probe.ask()
        await probe.ask(log_in=True)
        assert [type(request).__name__ for request, _ in node.fake.asked] == [
            "ApiVersionsRequest",
            "SaslHandshakeRequest",
            "SaslAuthenticateRequest",
            "ApiVersionsRequest",
        ]


async def test_a_broker_that_refuses_the_password_has_answered_all_the_same(probing, node):
    """ApiVersions needs no rights; the connection is not kept, as it would not be answered again."""
    node.fake.says[SaslAuthenticateRequest] = lambda *_: SaslAuthenticateResponse(error_code=58)
    async with probing(PLAIN) as probe:
        assert await probe.ask()
        await until(node.ended)
        with pytest.raises(FeatureGateError):
            await probe.ask(log_in=True)
        assert len(node.writers) == 2


@pytest.mark.parametrize("config", [PLAIN, {"security.protocol": "SASL_PLAINTEXT"}])
async def test_a_bootstrap_broker_list_sends_only_api_versions_and_keeps_no_sasl_connection(probing, node, config):
    """With credentials or without: an app that lists every broker needs none, and none is sent."""
    node.fake.says[SaslAuthenticateRequest] = lambda *_: SaslAuthenticateResponse()
    async with probing(config, broker_list="bootstrap") as probe:
        for _ in range(2):
            assert await probe.ask()
            await until(node.ended)
        assert [type(request) for request, _ in node.fake.asked] == [ApiVersionsRequest] * 2


async def test_a_broker_that_hangs_in_authentication_has_answered_all_the_same(probing, node, monkeypatch):
    """The probe does not wait for all of its time."""
    monkeypatch.setattr(kept_connections, "_LOG_IN", 0.05)
    node.fake.says[SaslAuthenticateRequest] = lambda *_: b""
    async with probing(PLAIN) as probe:
        async with asyncio.timeout(BOUND / 2):
            assert await probe.ask()
        await until(node.ended)


@contextmanager
def a_forked_child():
    """Let a child that does nothing live as long as the block."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    try:
        yield
    finally:
        os.close(read)
        os.close(write)
        os.waitpid(child, 0)


def plaintext():
    """Return the settings of a client, and the TLS of a node."""
    return {}, None


def with_tls():
    """Return the settings of a client, and the TLS of a node."""
    authority = trustme.CA()
    ours, theirs = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.configure_trust(ours)
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    return {"security_protocol": "SSL", "ssl_context": ours}, theirs


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("secured", [plaintext, with_tls])
async def test_a_forked_child_neither_disturbs_nor_prolongs_a_connection(probing, node, secured):
    """The parent goes on with it, and the broker sees its end while the child lives."""
    config, tls = secured()
    async with probing(config, tls) as probe:
        await probe.ask()
        with a_forked_child():
            await probe.ask()
            assert len(node.writers) == 1
            probe.kept.close()
            await until(node.ended)
