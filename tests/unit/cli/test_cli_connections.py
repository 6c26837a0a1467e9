"""Findings about the connection to each bootstrap address, from hand-made probes."""

import pytest

from featuregate.cli.diagnosis.connections import BootstrapProbe, ProbedListener, connection_findings
from featuregate.cli.diagnosis.findings import DoctorFinding
from featuregate.config import Address, Settings
from featuregate.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    FeatureGateError,
    RemoteWireError,
    TimedOut,
    TlsFailed,
    UnknownHost,
)
from featuregate.kafka_errors import broker_error
from featuregate.net.probe import BrokerList

AT = Address("b1", 9092)
PLAINTEXT = Settings(bootstrap=(AT,))
LOST = ConnectionLost(AT, "waiting for ApiVersions")


def broker_list(cluster_id: str | None) -> BrokerList:
    """Return the broker list of one address."""
    return BrokerList(cluster_id=cluster_id, controller_id=None, nodes=(), source="cluster", registered=True)


def about(probe: BootstrapProbe, settings: Settings = PLAINTEXT) -> DoctorFinding:
    """Return the finding about one address."""
    (finding,) = connection_findings([probe], settings)
    return finding


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (UnknownHost(AT, "resolving the name", "no such name"), "unresolvable"),
        (ConnectFailed(AT, "connecting", "Connection refused"), "refused"),
        (TimedOut(AT, "waiting for ApiVersions", "no answer within 5 s"), "silent"),
        (TimedOut(AT, "connecting", "no answer within 5 s"), "unreachable"),
        (TimedOut(AT, "fetching the broker list", "the 4 s in total have passed"), "unreachable"),
        (TlsFailed(AT, "in the TLS handshake", "expired: renew it"), "tls"),
        (
            TlsFailed(AT, "waiting", "the peer requires a client certificate that it trusts: set it"),
            "client-certificate",
        ),
        (AuthenticationFailed(AT, "PLAIN", "refused"), "authentication"),
        (ConfigError("bootstrap.servers", "b1:9092 is a controller: use bootstrap.controllers"), "wrong-endpoint"),
        (ConfigError("ssl.ca.location", "'/nope' cannot be read"), "configuration"),
        (RemoteWireError("a frame of 1213486160 bytes", "frame", 0), "not-kafka"),
        (LOST, "cut"),
        (broker_error(42), "refused-by-broker"),
    ],
)
def test_each_failure_has_a_code(failure, code: str) -> None:
    """The evidence of the finding is the failure itself."""
    finding = about(BootstrapProbe(address=AT, failure=failure))
    assert (finding.code, finding.where, finding.evidence) == (code, "b1:9092", str(failure))
    assert finding.advice


@pytest.mark.parametrize(
    ("failure", "advice"),
    [
        (TlsFailed(AT, "in the TLS handshake", "certificate has expired: renew it at the broker"), "renew it at"),
        (ConfigError("ssl.ca.location", "'/nope' cannot be read"), "the page Configuration"),
        (TimedOut(AT, "fetching the broker list", "the 4 s in total have passed"), "set a longer --timeout"),
    ],
)
def test_advice_is_that_of_the_failure_where_it_has_one(failure: FeatureGateError, advice: str) -> None:
    """A timeout of the whole probe is no proof of a firewall: the connection may exist."""
    assert advice in about(BootstrapProbe(address=AT, failure=failure)).advice


@pytest.mark.parametrize(
    ("protocol", "listener", "code", "advice"),
    [
        ("PLAINTEXT", ProbedListener(speaks_tls=True), "listener-speaks-tls", "SSL"),
        ("SSL", ProbedListener(speaks_plaintext=True), "listener-speaks-plaintext", "security.protocol to PLAINTEXT"),
        (
            "PLAINTEXT",
            ProbedListener(speaks_plaintext=True, mechanisms=("PLAIN", "SCRAM-SHA-256")),
            "listener-requires-sasl",
            "set security.protocol to SASL_PLAINTEXT, and sasl.mechanism to one of PLAIN, SCRAM-SHA-256",
        ),
    ],
)
def test_a_listener_with_another_protocol_is_named(
    protocol: str, listener: ProbedListener, code: str, advice: str
) -> None:
    """A handshake, a response or a list of mechanisms proves the protocol."""
    settings = Settings.parse({"bootstrap.servers": "b1:9092", "security.protocol": protocol})
    finding = about(BootstrapProbe(address=AT, failure=LOST, listener=listener), settings)
    assert finding.code == code
    assert advice in finding.advice


def test_a_failing_address_beside_a_good_one_is_a_warning() -> None:
    """Clients can still connect."""
    probes = [
        BootstrapProbe(address=AT, failure=LOST),
        BootstrapProbe(address=Address("b2", 9092), broker_list=broker_list("c")),
    ]
    assert [finding.severity for finding in connection_findings(probes, PLAINTEXT)] == ["warning"]


def test_no_good_address_is_an_error() -> None:
    """No client can connect."""
    assert about(BootstrapProbe(address=AT, failure=LOST)).severity == "error"


def test_two_clusters_in_one_list_are_an_error() -> None:
    """A client would connect to either of the two."""
    probes = [
        BootstrapProbe(address=Address("b1", 1), broker_list=broker_list("x")),
        BootstrapProbe(address=Address("b2", 2), broker_list=broker_list("y")),
    ]
    (finding,) = connection_findings(probes, PLAINTEXT)
    assert (finding.code, finding.severity) == ("two-clusters", "error")
    assert finding.evidence == "b1:1: cluster x; b2:2: cluster y"


def test_one_cluster_at_many_addresses_is_no_finding() -> None:
    """An old broker without a cluster id counts as part of it."""
    probes = [
        BootstrapProbe(address=AT, broker_list=broker_list("x")),
        BootstrapProbe(address=AT, broker_list=broker_list("x")),
        BootstrapProbe(address=AT, broker_list=broker_list(None)),
    ]
    assert list(connection_findings(probes, PLAINTEXT)) == []
