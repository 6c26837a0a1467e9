"""The net room against real brokers: every kind of listener, every way to find brokers."""

import asyncio
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import pytest
from kafka_proxy import proxying

from featuregate.config import Settings
from featuregate.errors import (
    AuthenticationFailed,
    ConnectionLost,
    DiscoveryError,
    FeatureGateError,
    TimedOut,
    TlsFailed,
)
from featuregate.loops.short_loop import ShortLoop
from featuregate.net.probe import probe_all
from featuregate.testing.local_kafka.cluster import LocalKafka
from featuregate.testing.local_kafka.processes import ReservedPorts

pytestmark = [pytest.mark.live, pytest.mark.slow]

PATIENT = {"connect_timeout": 30, "request_timeout": 30, "total_timeout": 60}


async def look(config, known=None, *, broker_list="cluster", **options):
    """Probe a cluster with these properties, in asyncio and in a short loop, which end alike."""
    settings = replace(Settings.parse(config, broker_list=broker_list), **PATIENT | options)
    outcomes = []
    for run in (partial(probe_all, settings, known), partial(asyncio.to_thread, in_short_loop, settings, known)):
        try:
            outcomes.append(await run())
        except DiscoveryError as error:
            outcomes.append(error)
    assert said(outcomes[0]) == said(outcomes[1])
    if isinstance(outcomes[1], DiscoveryError):
        raise outcomes[1]
    return outcomes[1]


def in_short_loop(settings, known):
    """Probe in a loop of this thread."""
    return ShortLoop().run(probe_all(settings, known))


def said(outcome):
    """What each node answered, or why it did not, without times and epochs."""
    if isinstance(outcome, DiscoveryError):
        return [type(why) for _, why in outcome.causes]
    return [
        (each.node_id, each.version, each.response and each.response.api_ranges, type(each.failure))
        for each in outcome.results
    ]


async def cause(config, **options):
    """Return why no broker answers."""
    with pytest.raises(DiscoveryError) as caught:
        await look(config, **options)
    return caught.value.causes[0][1]


def all_answered(probe):
    """Whether every node said something sensible."""
    return all(node.failure is None and 18 in node.response.api_ranges for node in probe.results)


LISTENERS = {"PLAIN": "SASL_PLAINTEXT", "OAUTH": "SASL_PLAINTEXT", "CERT": "SSL"}
MODULES = "org.apache.kafka.common.security."
PLAIN = MODULES + 'plain.PlainLoginModule required user_featuregate="featuregate-secret";'
OAUTH = MODULES + 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'


@dataclass
class Listeners:
    """One broker with a listener of each kind."""

    scram: LocalKafka
    ports: dict[str, int]

    def config(self, name, **more):
        """The properties of a client of one of the listeners beside that with TLS and SCRAM."""
        theirs = self.scram.client_config()
        with_sasl = {"PLAIN": {"sasl.mechanism": "PLAIN"}, "OAUTH": {"sasl.mechanism": "OAUTHBEARER"}}.get(name, {})
        login = {key: value for key, value in theirs.items() if key in ("sasl.username", "sasl.password")}
        files = {"ssl.ca.location": theirs["ssl.ca.location"]}
        extra = {"PLAIN": login, "OAUTH": UNSECURED, "CERT": files}[name]
        where = {"bootstrap.servers": f"127.0.0.1:{self.ports[name]}", "security.protocol": LISTENERS[name]}
        return {**where, **with_sasl, **extra, **more}


UNSECURED = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=featuregate"}


@pytest.fixture(scope="module")
def listeners():
    """A broker with TLS and SCRAM, PLAIN, OAUTHBEARER and client certificates, on ports of their own."""
    kafka = LocalKafka("4.2.0", security="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", client_auth=True)
    reserved = ReservedPorts([0] * len(LISTENERS))
    ports = dict(zip(LISTENERS, reserved.numbers, strict=True))
    (client,), (internal,), (controller,) = (
        [each.rpartition(":")[2] for each in where.split(",")]
        for where in (kafka.bootstrap, kafka.internal_bootstrap, kafka.controller_bootstrap)
    )
    own = {"CLIENT": client, "INTERNAL": internal, **ports}
    uris = [f"{name}://127.0.0.1:{port}" for name, port in own.items()]
    protocols = {"CLIENT": "SASL_SSL", "INTERNAL": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **LISTENERS}
    kafka.properties |= {
        "listeners": ",".join([*uris, f"CONTROLLER://127.0.0.1:{controller}"]),
        "advertised.listeners": ",".join(uris),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "listener.name.client.ssl.client.auth": "none",
        "listener.name.cert.ssl.client.auth": "required",
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.plain.plain.sasl.jaas.config": PLAIN,
        "listener.name.oauth.oauthbearer.sasl.jaas.config": OAUTH,
    }
    with closing(reserved), kafka:
        yield Listeners(kafka, ports)


@pytest.fixture(scope="module")
def scram(listeners):
    """The listener with TLS and SCRAM."""
    return listeners.scram


async def test_scram_over_tls(scram):
    """The very properties that confluent-kafka takes."""
    probe = await look(scram.client_config())
    assert all_answered(probe)
    assert probe.broker_list.cluster_id == scram.cluster_id
    assert probe.broker_list.registered


async def test_scram_over_tls_in_javas_spelling(scram):
    """The same listener, as a Java client would be told about it."""
    librdkafka = scram.client_config()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    name, password = librdkafka["sasl.username"], librdkafka["sasl.password"]
    java = {
        "bootstrap.servers": scram.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": librdkafka["ssl.ca.location"],
        "ssl.truststore.type": "PEM",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="{name}" password="{password}";',
    }
    assert all_answered(await look(java))


async def test_a_wrong_scram_password(scram):
    """The error has the words of the broker."""
    error = await cause(scram.client_config({"sasl.password": "hunter2"}))
    assert isinstance(error, AuthenticationFailed)
    assert "SASL_AUTHENTICATION_FAILED" in str(error)
    assert "hunter2" not in str(error)


async def test_another_mechanism_than_the_listeners(scram):
    """The broker lists the mechanisms that it enables."""
    assert "it enables: SCRAM-SHA-512" in str(await cause(scram.client_config({"sasl.mechanism": "PLAIN"})))


async def test_listed_brokers_need_no_password(scram):
    """ApiVersions is answered before authentication."""
    config = scram.client_config({"sasl.username": None, "sasl.password": None})
    probe = await look(config, broker_list="bootstrap")
    assert all_answered(probe)
    assert probe.results[0].response.finalized


async def test_an_authority_that_we_do_not_know(scram):
    """What the system trusts does not count ours."""
    error = await cause(scram.client_config({"ssl.ca.location": None}))
    assert isinstance(error, TlsFailed)
    assert "ssl.ca.location" in str(error)


async def test_plain_text_to_a_listener_with_tls(scram):
    """Kafka answers with an alert, or hangs up."""
    assert "security.protocol" in str(await cause(scram.bootstrap))


async def test_tls_to_a_plain_listener(scram):
    """Kafka takes our hello for a length, and hangs up."""
    error = await cause({"bootstrap.servers": scram.internal_bootstrap, "security.protocol": "SSL"})
    assert isinstance(error, TlsFailed)
    assert "security.protocol" in str(error)


async def test_plain_and_listeners_that_want_something_else(listeners, scram):
    """With SASL where there is none, and without where there is, Kafka's behaviour becomes advice."""
    plain = listeners.config("PLAIN")
    assert all_answered(await look(plain))
    assert isinstance(await cause(plain | {"sasl.password": "hunter2"}), AuthenticationFailed)
    error = await cause(plain | {"bootstrap.servers": scram.internal_bootstrap})
    assert isinstance(error, AuthenticationFailed)
    assert "security.protocol" in str(error)
    error = await cause(plain["bootstrap.servers"])
    assert isinstance(error, ConnectionLost)
    assert "does this listener want authentication? See security.protocol" in str(error)


async def test_oauthbearer(listeners):
    """Brokers take unsigned tokens of ours and of the app's callback."""
    config = listeners.config("OAUTH")
    assert all_answered(await look(config))
    error = await cause(config | {"oauth_cb": lambda _: ("no.token.", 4e9)})
    assert isinstance(error, AuthenticationFailed)
    assert "invalid_token" in str(error)


async def test_client_certificates(listeners, scram):
    """With ours the listener answers; without it the error says what is missing."""
    theirs = scram.client_config()
    ours = {name: theirs[name] for name in ("ssl.certificate.location", "ssl.key.location")}
    assert all_answered(await look(listeners.config("CERT", **ours)))
    error = await cause(listeners.config("CERT"))
    assert isinstance(error, TlsFailed | ConnectionLost)
    assert "ssl.certificate.location" in str(error)


@pytest.mark.proof("net")
async def test_the_oldest_brokers_that_negotiate(shared_kafka):
    """0.10.0.1: found by Metadata v1, without a cluster id."""
    probe = await look(shared_kafka("0.10.0.1").bootstrap)
    assert all_answered(probe)
    assert probe.broker_list.cluster_id is None
    assert not probe.broker_list.registered
    assert probe.results[0].version == 0


def port_of(kafka):
    """The port of a cluster of one broker."""
    return int(kafka.bootstrap.rpartition(":")[2])


@pytest.mark.proof("net")
async def test_a_broker_of_38_behind_a_proxy_of_40(shared_kafka):
    """The proxy refuses v5 and the broker v4; v3 is answered, on one connection."""
    kafka = shared_kafka("3.8.1")
    async with proxying(port_of(kafka), newest=4) as (address, asked):
        probe = await look(address, broker_list="bootstrap")
    assert all_answered(probe)
    assert (asked, probe.results[0].version) == ([5, 4, 3] * 2, 3), "each kind of loop has a connection of its own"


@pytest.mark.proof("net")
async def test_a_real_broker_behind_a_proxy_that_rewrites_metadata_alone(kafka):
    """The broker is asked at the address that Metadata has."""

    def hidden(said):
        return replace(said, brokers=tuple(replace(node, host="kafka.internal.invalid") for node in said.brokers))

    def rewritten(said):
        return replace(said, brokers=tuple(replace(node, port=port) for node in said.brokers))

    async with proxying(port_of(kafka), changes={60: hidden, 3: rewritten}) as (address, _):
        port = int(address.rpartition(":")[2])
        probe = await look(address)
    assert all_answered(probe)
    assert [str(result.address) for result in probe.results] == [address]
    assert "kafka.internal.invalid" in probe.broker_list.differs


@pytest.mark.proof("net")
async def test_sasl_of_the_oldest_brokers():
    """Tokens travel bare after SaslHandshake v0, and a refusal is a connection that is closed."""
    with LocalKafka("0.10.0.1", security="SASL_PLAINTEXT", sasl_mechanism="PLAIN") as kafka:
        assert all_answered(await look(kafka.client_config()))
        error = await cause(kafka.client_config({"sasl.password": "hunter2"}))
        assert isinstance(error, AuthenticationFailed)
        assert "before 1.0" in str(error)


@pytest.fixture(scope="module")
def three():
    """Three brokers, with a controller apart."""
    with LocalKafka("4.2.0", nodes=3, controllers=1) as kafka:
        yield kafka


@pytest.mark.proof("net")
async def test_brokers_find_each_other(three):
    """One address is enough to find all brokers."""
    probe = await look(three.bootstrap.split(",")[0])
    assert [node.node_id for node in probe.results] == list(three.nodes)
    assert all_answered(probe)


@pytest.mark.proof("net")
async def test_controllers_find_each_other(three):
    """The client finds all controllers by bootstrap.controllers."""
    probe = await look({"bootstrap.controllers": three.controller_bootstrap})
    assert [node.node_id for node in probe.results] == list(three.controllers)
    assert all_answered(probe)
    assert {node.role for node in probe.results} == {"controller"}


@pytest.mark.proof("net")
async def test_brokers_and_controllers_are_not_mistaken(three):
    """The error of each names the property to use."""
    assert "use bootstrap.controllers" in str(await cause(three.controller_bootstrap))
    assert "use bootstrap.servers" in str(await cause({"bootstrap.controllers": three.bootstrap}))


@pytest.mark.proof("net")
async def test_a_paused_broker_costs_one_timeout_and_a_stopped_one_stays_known(three):
    """The others' answers count; the broker list names all that are registered."""
    known = (await look(three.bootstrap)).broker_list
    three.pause(3)
    try:
        probe = await look(three.bootstrap, known, request_timeout=2)
    finally:
        three.resume(3)
    assert isinstance(probe.results[2].failure, TimedOut)
    assert [node.failure for node in probe.results[:2]] == [None, None]
    three.stop(3)
    try:
        probe = await look(three.bootstrap, known)
    finally:
        three.start(3)
    assert [node.node_id for node in probe.broker_list.nodes] == list(three.nodes)
    assert isinstance(probe.results[2].failure, FeatureGateError)
    assert probe.broker_list.nodes[2].is_fenced
