"""Findings about the connection to each bootstrap address; other protocols are tried where the configured one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.cli.diagnosis import DoctorFinding, Severity, error_finding, note_finding
from featuregate.config.tls import Tls
from featuregate.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    DiscoveryError,
    FeatureGateError,
    HostNotAllowed,
    RemoteWireError,
    TimedOut,
    TlsFailed,
    UnknownHost,
)
from featuregate.net.cluster_metadata import BrokerList, fetch_broker_list
from featuregate.net.connection import OLDER, AskedVersions, Connection, new_connection, open_negotiated
from featuregate.net.probe import probe_all
from featuregate.wire.sasl import SaslHandshakeRequest
from featuregate.wire.session import NEWEST

if TYPE_CHECKING:
    from featuregate.config import Address, Settings

_UNSUPPORTED_MECHANISM: Final = 33
_HIDDEN: Final = ". Up to v3, brokers leave out features that start at level 0"
_UNKNOWN_MECHANISM: Final = "FEATUREGATE-DOCTOR"
"""No broker enables this mechanism; a SASL listener answers with the mechanisms that it enables."""


class ConnectionCause(NamedTuple):
    """The part of a finding that does not depend on the address and the evidence."""

    code: str
    problem: str
    advice: str
    """Empty for the advice of the failure itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapProbe:
    """The result of one bootstrap address: either ``broker_list`` or ``failure`` is None."""

    address: Address
    broker_list: BrokerList | None = None
    failure: FeatureGateError | None = None
    mismatch: ConnectionCause | None = None
    """The cause, where the listener was proved to speak another protocol than the configured one."""


async def probe_bootstrap(settings: Settings, versions: AskedVersions) -> tuple[BootstrapProbe, ...]:
    """Ask each bootstrap address for the broker list, all at the same time."""
    return tuple(await asyncio.gather(*(_probe(address, settings, versions) for address in settings.bootstrap)))


def closing_findings(closed_on_newer: Mapping[Address, int]) -> Iterator[DoctorFinding]:
    """Yield the addresses that close the connection on newer versions of ApiVersions. Pure."""
    by_version: dict[int, list[str]] = {}
    for address, version in closed_on_newer.items():
        by_version.setdefault(version, []).append(str(address))
    for version, addresses in by_version.items():
        newer = " and ".join(f"v{tried}" for tried in (NEWEST, *OLDER) if tried > version)
        yield note_finding(
            code="closes-on-newer-versions",
            where=", ".join(addresses),
            problem="The listener closes the connection on ApiVersions versions that it does not know.",
            evidence=f"closed on {newer}, answered v{version}; Kafka answers error 35 in place of closing (KIP-511)",
            advice="update the service or the proxy that listens there; until then featuregate asks it for the older "
            f"version, and newer clients may not connect to it{_HIDDEN if version >= OLDER[0] else ''}",
        )


def connection_findings(probes: Sequence[BootstrapProbe]) -> Iterator[DoctorFinding]:
    """Yield the addresses that fail, each with the cause, and whether the addresses lead to one cluster. Pure."""
    severity: Severity = "warning" if any(probe.broker_list for probe in probes) else "error"
    for probe in probes:
        if probe.failure is not None:
            cause = probe.mismatch or _cause(probe.failure)
            yield DoctorFinding(
                severity=severity,
                code=cause.code,
                where=str(probe.address),
                problem=cause.problem,
                evidence=str(probe.failure),
                advice=cause.advice,
            )
    for differs, addresses in _addresses_by("differs", probes).items():
        yield note_finding(
            code="addresses-differ",
            where=", ".join(addresses),
            problem="DescribeCluster and Metadata give other addresses: a proxy rewrites one of them.",
            evidence=differs,
            advice="let the proxy rewrite both; featuregate uses what Metadata gives, as all clients do",
        )
    clusters = _addresses_by("cluster_id", probes)
    if len(clusters) > 1:
        yield error_finding(
            code="two-clusters",
            where="configuration",
            problem="The bootstrap list leads to more than one cluster; a client connects to any of them.",
            evidence="; ".join(f"{', '.join(addresses)}: cluster {cluster}" for cluster, addresses in clusters.items()),
            advice="list the brokers of one cluster only",
        )


def _addresses_by(answer: str, probes: Sequence[BootstrapProbe]) -> dict[str, list[str]]:
    """Return the addresses by one field of their broker lists, where it says anything."""
    found: dict[str, list[str]] = {}
    for probe in probes:
        if said := getattr(probe.broker_list, answer, None):
            found.setdefault(said, []).append(str(probe.address))
    return found


async def _probe(address: Address, settings: Settings, versions: AskedVersions) -> BootstrapProbe:
    try:
        only = replace(settings, bootstrap=(address,))
        return BootstrapProbe(address=address, broker_list=await _broker_list(only, versions))
    except DiscoveryError as error:
        own = next((cause for at, cause in error.causes if at == str(address)), error)
        failure = own if isinstance(own, FeatureGateError) else error
    except FeatureGateError as error:
        failure = error
    return BootstrapProbe(address=address, failure=failure, mismatch=await _mismatch(address, settings, failure))


async def _broker_list(settings: Settings, versions: AskedVersions) -> BrokerList:
    connect = partial(new_connection, versions=versions)
    if settings.broker_list == "bootstrap":
        return (await probe_all(settings, None, connect)).broker_list
    deadline = asyncio.get_running_loop().time() + settings.total_timeout
    return (await fetch_broker_list(settings, None, deadline, connect)).broker_list


async def _mismatch(address: Address, settings: Settings, failure: FeatureGateError) -> ConnectionCause | None:
    """Try other protocols, where the listener was reached and the failure does not name the cause."""
    if not isinstance(failure, ConnectionLost | RemoteWireError | TimedOut | TlsFailed):
        return None
    plain = replace(settings, protocol="PLAINTEXT", tls=None, sasl=None)
    speaks_plaintext = settings.tls is None and await _answers(address, plain)
    may_lack_sasl = settings.sasl is None and (settings.tls is not None or speaks_plaintext)
    if may_lack_sasl and (mechanisms := await _mechanisms(address, settings)):
        return requires_sasl(settings.protocol, mechanisms)
    if settings.tls is not None:
        return without_tls(settings.protocol) if await _answers(address, plain) else None
    unverified = replace(plain, protocol="SSL", tls=Tls(verify=False, check_hostname=False))
    return None if speaks_plaintext else await _over_tls(address, unverified, settings.protocol)


async def _over_tls(address: Address, settings: Settings, protocol: str) -> ConnectionCause | None:
    try:
        connection = await Connection.open(address, settings)
    except FeatureGateError:
        return None
    with connection:
        try:
            await connection.negotiate()
        except RemoteWireError:
            return OTHER_OVER_TLS
        except FeatureGateError:
            pass  # a listener that wants a certificate says no more than this
    return with_tls(protocol)


async def _answers(address: Address, settings: Settings) -> bool:
    try:
        (await open_negotiated(address, settings, None)).connection.close()
    except FeatureGateError:
        return False
    return True


async def _mechanisms(address: Address, settings: Settings) -> tuple[str, ...]:
    try:
        with (await open_negotiated(address, settings, None)).connection as connection:
            response = await connection.request(SaslHandshakeRequest(mechanism=_UNKNOWN_MECHANISM))
    except FeatureGateError:
        return ()
    return response.mechanisms if response.error_code == _UNSUPPORTED_MECHANISM else ()


_CONFIGURATION: Final = "the page Configuration of the documentation lists the properties and their values"

_CLIENT_CERTIFICATE: Final = (
    "set ssl.certificate.location and ssl.key.location, or ssl.keystore.location, to a certificate that an authority "
    "in the broker's ssl.truststore.location signed"
)

_WITHOUT_A_WORD: Final = (
    "The listener ends the TLS connection without a word, as one does that requires a client certificate."
)


_DIAGNOSES: Final = (
    (UnknownHost, "", "unresolvable", "The name does not resolve on this machine.", "check the spelling, and DNS"),
    (
        HostNotAllowed,
        "",
        "not-allowed",
        "featuregate.allowed.hosts does not list it, so the client does not connect.",
        "add it to featuregate.allowed.hosts if it is a broker of yours",
    ),
    (ConnectFailed, "", "refused", "The connection is refused.", "check the port, and whether the broker is running"),
    (
        TimedOut,
        "waiting for",
        "silent",
        "The listener accepts the connection, and does not answer.",
        "check whether the broker hangs, and whether the port is that of a Kafka listener",
    ),
    (
        TimedOut,
        "fetching",  # this limit covers all stages, so the cause may be either of the other two
        "unreachable",
        "No answer arrived in time.",
        "set a longer --timeout to see the cause; check for a firewall, and whether the broker hangs",
    ),
    (TimedOut, "", "unreachable", "The connection timed out.", "check the host, and for a firewall"),
    (
        TlsFailed,
        "requires a client certificate",
        "client-certificate",
        "The listener requires a client certificate that it trusts.",
        _CLIENT_CERTIFICATE,
    ),
    (TlsFailed, "require a client certificate", "client-certificate", _WITHOUT_A_WORD, _CLIENT_CERTIFICATE),
    (ConnectionLost, "want a client certificate", "client-certificate", _WITHOUT_A_WORD, _CLIENT_CERTIFICATE),
    (TlsFailed, "", "tls", "The TLS handshake fails.", ""),
    (
        AuthenticationFailed,
        "",
        "authentication",
        "Authentication fails.",
        "check sasl.mechanism, the user name and the password or token",
    ),
    (ConfigError, "bootstrap.", "wrong-endpoint", "The node is not of the kind that the option names.", ""),
    (ConfigError, "", "configuration", "A property is not valid.", ""),
    (RemoteWireError, "", "not-kafka", "The listener does not speak Kafka's protocol.", "check the address"),
    (ConnectionLost, "", "cut", "The broker closes the connection before it answers.", "check the broker's log"),
    (FeatureGateError, "", "refused-by-broker", "The broker refuses the request.", "check its log; it may be starting"),
)
"""By kind of failure and a part of its stage, key or problem: code, problem and advice. The first match applies."""


OTHER_OVER_TLS: Final = ConnectionCause(
    "not-kafka", "The listener speaks TLS, and another protocol than Kafka's inside.", "check the port"
)


def with_tls(protocol: str) -> ConnectionCause:
    """Return the cause where the listener speaks TLS, and the client does not."""
    problem = f"The listener speaks TLS, but security.protocol is {protocol}."
    right = "SASL_SSL" if protocol.startswith("SASL_") else "SSL, or to SASL_SSL if it requires authentication"
    return ConnectionCause("listener-speaks-tls", problem, f"set security.protocol to {right}")


def without_tls(protocol: str) -> ConnectionCause:
    """Return the cause where the client speaks TLS, and the listener does not."""
    problem = f"The listener does not speak TLS, but security.protocol is {protocol}."
    right = f"{protocol.replace('SSL', 'PLAINTEXT')}, or use the port of the TLS listener"
    return ConnectionCause("listener-speaks-plaintext", problem, f"set security.protocol to {right}")


def requires_sasl(protocol: str, mechanisms: Sequence[str]) -> ConnectionCause:
    """Return the cause where the listener has these mechanisms, and the client does not log in."""
    problem = f"The listener requires authentication, but security.protocol is {protocol}."
    right = f"SASL_{protocol}, and sasl.mechanism to one of {', '.join(mechanisms)}"
    return ConnectionCause("listener-requires-sasl", problem, f"set security.protocol to {right}")


def _cause(failure: FeatureGateError) -> ConnectionCause:
    where = f"{getattr(failure, 'stage', '')} {getattr(failure, 'key', '')} {getattr(failure, 'problem', '')}"
    found = (ConnectionCause(*said) for kind, part, *said in _DIAGNOSES if isinstance(failure, kind) and part in where)
    cause = next(found)
    if cause.advice:
        return cause
    # The errors of net and config read "what is wrong: what to do".
    _, colon, advice = getattr(failure, "problem", "").rpartition(": ")
    return cause._replace(advice=advice if colon else _CONFIGURATION)
