"""Findings about the connection to each bootstrap address, from hand-made probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from featuregate.cli.diagnosis.connections import BootstrapProbe, Listener, connection_findings
from featuregate.config import Address, Settings
from featuregate.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    RemoteWireError,
    TimedOut,
    TlsFailed,
)
from featuregate.kafka_errors import broker_error
from featuregate.net.probe import BrokerList

if TYPE_CHECKING:
    from featuregate.cli.diagnosis.findings import Finding

AT = Address("b1", 9092)
PLAINTEXT = Settings(bootstrap=(AT,))
LOST = ConnectionLost(AT, "waiting for ApiVersions")


def broker_list(cluster_id: str | None) -> BrokerList:
    """Return the broker list of one address."""
    return BrokerList(cluster_id=cluster_id, controller_id=None, nodes=(), source="cluster", registered=True)


def about(probe: BootstrapProbe, settings: Settings = PLAINTEXT) -> Finding:
    """Return the finding about one address."""
    (finding,) = connection_findings([probe], settings)
    return finding


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ConnectFailed(AT, "resolving the name", "no such name"), "unresolvable"),
        (ConnectFailed(AT, "connecting", "Connection refused"), "refused"),
        (TimedOut(AT, "waiting for ApiVersions", "no answer within 5 s"), "silent"),
        (TimedOut(AT, "connecting", "no answer within 5 s"), "unreachable"),
        (TimedOut(AT, "finding who belongs to the cluster", "4 s for all of it ran out"), "unreachable"),
        (TlsFailed(AT, "in the TLS handshake", "expired: renew it"), "tls"),
        (AuthenticationFailed(AT, "PLAIN", "refused"), "authentication"),
        (ConfigError("bootstrap.servers", "b1:9092 is a controller: use bootstrap.controllers"), "wrong-endpoint"),
        (ConfigError("ssl.ca.location", "'/nope' cannot be read"), "configuration"),
        (RemoteWireError("a frame of 1213486160 bytes", "frame", 0), "not-kafka"),
        (LOST, "cut"),
        (broker_error(42), "refused-by-broker"),
    ],
)
def test_each_failure_has_a_code(failure, code: str) -> None:
    """The evidence is the failure itself."""
    finding = about(BootstrapProbe(address=AT, failure=failure))
    assert (finding.code, finding.where, finding.evidence) == (code, "b1:9092", str(failure))
    assert finding.advice


def test_a_timeout_of_the_whole_probe_is_no_proof_of_a_firewall() -> None:
    """The connection may exist: the stage is unknown."""
    failure = TimedOut(AT, "finding who belongs to the cluster", "4 s for all of it ran out")
    finding = about(BootstrapProbe(address=AT, failure=failure))
    assert finding.problem == "No answer arrived in time."
    assert "--timeout" in finding.advice


def test_the_advice_of_a_failure_is_the_advice_of_the_finding() -> None:
    """Errors of certificates and endpoints have advice."""
    failure = TlsFailed(AT, "in the TLS handshake", "certificate has expired: renew it at the broker")
    assert about(BootstrapProbe(address=AT, failure=failure)).advice == "renew it at the broker"


def test_a_failure_without_advice_gets_general_advice() -> None:
    """The problem is not repeated."""
    failure = ConfigError("ssl.ca.location", "'/nope' cannot be read")
    assert "docs/reference/configuration" in about(BootstrapProbe(address=AT, failure=failure)).advice


def test_a_tls_listener_behind_a_plaintext_setting_is_named() -> None:
    """A successful handshake proves it."""
    finding = about(BootstrapProbe(address=AT, failure=LOST, listener=Listener(speaks_tls=True)))
    assert finding.code == "listener-speaks-tls"
    assert "SSL" in finding.advice


def test_a_plaintext_listener_behind_a_tls_setting_is_named() -> None:
    """An answer in plaintext proves it."""
    settings = Settings.parse({"bootstrap.servers": "b1:9092", "security.protocol": "SSL"})
    failure = TlsFailed(AT, "in the TLS handshake", "closed")
    finding = about(BootstrapProbe(address=AT, failure=failure, listener=Listener(speaks_plaintext=True)), settings)
    assert finding.code == "listener-speaks-plaintext"
    assert "set security.protocol to PLAINTEXT" in finding.advice


def test_a_sasl_listener_behind_a_plaintext_setting_is_named_with_its_mechanisms() -> None:
    """The listener lists them."""
    clues = Listener(speaks_plaintext=True, mechanisms=("PLAIN", "SCRAM-SHA-256"))
    finding = about(BootstrapProbe(address=AT, failure=LOST, listener=clues))
    assert finding.code == "listener-wants-sasl"
    assert "SASL_PLAINTEXT" in finding.advice
    assert "PLAIN, SCRAM-SHA-256" in finding.advice


def test_a_failing_address_beside_a_good_one_is_a_warning() -> None:
    """Clients can connect."""
    probes = [
        BootstrapProbe(address=AT, failure=LOST),
        BootstrapProbe(address=Address("b2", 9092), broker_list=broker_list("c")),
    ]
    assert [finding.severity for finding in connection_findings(probes, PLAINTEXT)] == ["warning"]


def test_no_good_address_is_an_error() -> None:
    """No client can connect."""
    assert about(BootstrapProbe(address=AT, failure=LOST)).severity == "error"


def test_two_clusters_in_one_list_are_an_error() -> None:
    """A client connects to either."""
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
