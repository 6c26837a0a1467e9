"""Findings about the connection to each bootstrap address, from hand-made probes: whole, with ``connections.txt``."""

import pytest
from transcripts import sections

from featuregate.cli.commands.doctor import to_text
from featuregate.cli.diagnosis import connections
from featuregate.cli.diagnosis.connections import BootstrapProbe, connection_findings
from featuregate.config import Address
from featuregate.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    HostNotAllowed,
    RemoteWireError,
    TimedOut,
    TlsFailed,
    UnknownHost,
)
from featuregate.kafka_errors import broker_error
from featuregate.net.cluster_metadata import BrokerList

AT, OTHER = Address("b1", 9092), Address("b2", 9092)
LOST = ConnectionLost(AT, "waiting for ApiVersions")
FAILURES = (
    UnknownHost(AT, "resolving the name", "no such name"),
    HostNotAllowed(AT, "connecting"),
    ConnectFailed(AT, "connecting", "Connection refused"),
    TimedOut(AT, "waiting for ApiVersions", "no answer within 5 s"),
    TimedOut(AT, "connecting", "no answer within 5 s"),
    TimedOut(AT, "fetching the broker list", "the 4 s in total have passed"),
    TlsFailed(AT, "in the TLS handshake", "certificate has expired: renew it at the broker"),
    TlsFailed(AT, "waiting", "the peer requires a client certificate that it trusts: set it"),
    TlsFailed(AT, "waiting", "it may require a client certificate"),
    ConnectionLost(AT, "waiting", "it may want a client certificate"),
    AuthenticationFailed(AT, "PLAIN", "refused"),
    ConfigError("bootstrap.servers", "b1:9092 is a controller: use bootstrap.controllers"),
    ConfigError("ssl.ca.location", "'/nope' cannot be read"),
    RemoteWireError("a frame of 1213486160 bytes", "frame", 0),
    LOST,
    broker_error(42),
)


def answered(at: Address, cluster_id: str | None) -> BootstrapProbe:
    found = BrokerList(cluster_id=cluster_id, controller_id=None, nodes=(), source="cluster", registered=True)
    return BootstrapProbe(address=at, broker_list=found)


def lost(mismatch: connections.ConnectionCause | None = None) -> list[BootstrapProbe]:
    return [BootstrapProbe(address=AT, failure=LOST, mismatch=mismatch)]


SCENES: dict[str, list[BootstrapProbe]] = {
    **{str(failure): [BootstrapProbe(address=AT, failure=failure)] for failure in FAILURES},
    "the listener speaks TLS": lost(connections.with_tls("PLAINTEXT")),
    "the listener speaks HTTP over TLS": lost(connections.OTHER_OVER_TLS),
    "the listener speaks plaintext": lost(connections.without_tls("SSL")),
    "the listener has mechanisms": lost(connections.requires_sasl("PLAINTEXT", ("PLAIN", "SCRAM-SHA-256"))),
    "clients can still connect": [*lost(), answered(OTHER, "c")],
    "two clusters": [answered(AT, "x"), answered(OTHER, "y")],
    "one cluster, and an old broker without its id": [answered(AT, "x"), answered(OTHER, None)],
}
PRINTED = sections(__file__, "connections.txt")


@pytest.mark.parametrize("scene", SCENES)
def test_each_failure_of_a_connection_has_its_cause_and_advice(scene: str) -> None:
    """A handshake, a response or a list of mechanisms proves another protocol; the evidence is the failure itself."""
    found = list(connection_findings(SCENES[scene]))
    assert f"{' '.join(finding.code for finding in found)}\n{to_text(found)}".strip() == PRINTED[scene]
