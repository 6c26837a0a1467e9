"""Findings about the connection to each bootstrap address; other protocols are tried where the configured one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.cli.diagnosis import DoctorFinding, Severity
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
from featuregate.net.cluster_metadata import fetch_broker_list
from featuregate.net.connection import OLDER, AskedVersions, Connection, new_connection, open_negotiated
from featuregate.net.probe import BrokerList, probe_all
from featuregate.wire.sasl import SaslHandshakeRequest
from featuregate.wire.session import NEWEST

if TYPE_CHECKING:
    from featuregate.config import Address, Settings

_UNSUPPORTED_MECHANISM: Final = 33
_HIDDEN: Final = ". Up to v3, brokers leave out features that start at level 0"
_UNKNOWN_MECHANISM: Final = "FEATUREGATE-DOCTOR"
"""No broker enables this mechanism; a SASL listener answers with the mechanisms that it enables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedListener:
    """What other protocols showed of a listener, where the configured protocol failed."""

    speaks_tls: bool = False
    other_over_tls: bool = False
    """Whether another protocol than Kafka's came over TLS, such as HTTP."""
    speaks_plaintext: bool = False
    mechanisms: tuple[str, ...] = ()
    """The SASL mechanisms that it enables; empty without SASL, or where the listener does not list them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapProbe:
    """The result of one bootstrap address: either ``broker_list`` or ``failure`` is None."""

    address: Address
    broker_list: BrokerList | None = None
    failure: FeatureGateError | None = None
    listener: ProbedListener = ProbedListener()


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
        yield DoctorFinding(
            severity="note",
            code="closes-on-newer-versions",
            where=", ".join(addresses),
            problem="The listener closes the connection on ApiVersions versions that it does not know.",
            evidence=f"closed on {newer}, answered v{version}; Kafka answers error 35 in place of closing (KIP-511)",
            advice="update the service or the proxy that listens there; until then featuregate asks it for the older "
            f"version, and newer clients may not connect to it{_HIDDEN if version >= OLDER[0] else ''}",
        )


def connection_findings(probes: Sequence[BootstrapProbe], settings: Settings) -> Iterator[DoctorFinding]:
    """Yield the addresses that fail, each with the cause, and whether the addresses lead to one cluster. Pure."""
    severity: Severity = "warning" if any(probe.broker_list for probe in probes) else "error"
    for probe in probes:
        if probe.failure is not None:
            yield _failure_finding(probe, probe.failure, settings, severity)
    yield from _differing(probes)
    clusters: dict[str, list[str]] = {}
    for probe in probes:
        if probe.broker_list is not None and probe.broker_list.cluster_id is not None:
            clusters.setdefault(probe.broker_list.cluster_id, []).append(str(probe.address))
    if len(clusters) > 1:
        yield DoctorFinding(
            severity="error",
            code="two-clusters",
            where="configuration",
            problem="The bootstrap list leads to more than one cluster; a client connects to any of them.",
            evidence="; ".join(f"{', '.join(addresses)}: cluster {cluster}" for cluster, addresses in clusters.items()),
            advice="list the brokers of one cluster only",
        )


def _differing(probes: Sequence[BootstrapProbe]) -> Iterator[DoctorFinding]:
    differing: dict[str, list[str]] = {}
    for probe in probes:
        if probe.broker_list is not None and probe.broker_list.differs:
            differing.setdefault(probe.broker_list.differs, []).append(str(probe.address))
    for differs, addresses in differing.items():
        yield DoctorFinding(
            severity="note",
            code="addresses-differ",
            where=", ".join(addresses),
            problem="DescribeCluster and Metadata give other addresses: a proxy rewrites one of them.",
            evidence=differs,
            advice="let the proxy rewrite both; featuregate uses what Metadata gives, as all clients do",
        )


async def _probe(address: Address, settings: Settings, versions: AskedVersions) -> BootstrapProbe:
    try:
        only = replace(settings, bootstrap=(address,))
        return BootstrapProbe(address=address, broker_list=await _broker_list(only, versions))
    except DiscoveryError as error:
        own = next((cause for at, cause in error.causes if at == str(address)), error)
        failure = own if isinstance(own, FeatureGateError) else error
    except FeatureGateError as error:
        failure = error
    return BootstrapProbe(address=address, failure=failure, listener=await _probe_listener(address, settings, failure))


async def _broker_list(settings: Settings, versions: AskedVersions) -> BrokerList:
    connect = partial(new_connection, versions=versions)
    if settings.broker_list == "bootstrap":
        return (await probe_all(settings, None, connect)).broker_list
    deadline = asyncio.get_running_loop().time() + settings.total_timeout
    return (await fetch_broker_list(settings, None, deadline, connect)).broker_list


async def _probe_listener(address: Address, settings: Settings, failure: FeatureGateError) -> ProbedListener:
    """Try other protocols, where the listener was reached and the failure does not name the cause."""
    if not isinstance(failure, ConnectionLost | RemoteWireError | TimedOut | TlsFailed):
        return ProbedListener()
    plain = replace(settings, protocol="PLAINTEXT", tls=None, sasl=None)
    if settings.tls is not None:
        if settings.sasl is None and (mechanisms := await _mechanisms(address, settings)):
            return ProbedListener(mechanisms=mechanisms)
        return ProbedListener(speaks_plaintext=await _answers(address, plain))
    if await _answers(address, plain):
        return ProbedListener(speaks_plaintext=True, mechanisms=await _mechanisms(address, plain))
    unverified = Tls(verify=False, check_hostname=False)
    return await _tls_listener(address, replace(plain, protocol="SSL", tls=unverified))


async def _tls_listener(address: Address, settings: Settings) -> ProbedListener:
    try:
        connection = await Connection.open(address, settings)
    except FeatureGateError:
        return ProbedListener()
    with connection:
        try:
            await connection.negotiate()
        except RemoteWireError:
            return ProbedListener(other_over_tls=True)
        except FeatureGateError:
            pass  # a listener that wants a certificate says no more than this
    return ProbedListener(speaks_tls=True)


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


class _Diagnosis(NamedTuple):
    """The part of a finding that does not depend on the address and the evidence."""

    code: str
    problem: str
    advice: str
    """Empty for the advice of the failure itself."""


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


def _failure_finding(
    probe: BootstrapProbe, failure: FeatureGateError, settings: Settings, severity: Severity
) -> DoctorFinding:
    diagnosis = _protocol_mismatch(probe.listener, settings) or _diagnosis(failure)
    return DoctorFinding(
        severity=severity,
        code=diagnosis.code,
        where=str(probe.address),
        problem=diagnosis.problem,
        evidence=str(failure),
        advice=diagnosis.advice,
    )


def _protocol_mismatch(listener: ProbedListener, settings: Settings) -> _Diagnosis | None:
    """Return the diagnosis if the listener was proved to speak another protocol."""
    protocol = settings.protocol
    if listener.speaks_tls:
        right = "SASL_SSL" if settings.sasl else "SSL, or to SASL_SSL if it requires authentication"
        return _Diagnosis(
            "listener-speaks-tls",
            f"The listener speaks TLS, but security.protocol is {protocol}.",
            f"set security.protocol to {right}",
        )
    if listener.other_over_tls:
        return _Diagnosis(
            "not-kafka", "The listener speaks TLS, and another protocol than Kafka's inside.", "check the port"
        )
    if listener.speaks_plaintext and settings.tls is not None:
        return _Diagnosis(
            "listener-speaks-plaintext",
            f"The listener does not speak TLS, but security.protocol is {protocol}.",
            f"set security.protocol to {protocol.replace('SSL', 'PLAINTEXT')}, or use the port of the TLS listener",
        )
    if listener.mechanisms and settings.sasl is None:
        return _Diagnosis(
            "listener-requires-sasl",
            f"The listener requires authentication, but security.protocol is {protocol}.",
            f"set security.protocol to SASL_{protocol}, and sasl.mechanism to one of {', '.join(listener.mechanisms)}",
        )
    return None


def _diagnosis(failure: FeatureGateError) -> _Diagnosis:
    where = f"{getattr(failure, 'stage', '')} {getattr(failure, 'key', '')} {getattr(failure, 'problem', '')}"
    found = (_Diagnosis(*said) for kind, part, *said in _DIAGNOSES if isinstance(failure, kind) and part in where)
    diagnosis = next(found)
    if diagnosis.advice:
        return diagnosis
    # The errors of net and config read "what is wrong: what to do".
    _, colon, advice = getattr(failure, "problem", "").rpartition(": ")
    return diagnosis._replace(advice=advice if colon else _CONFIGURATION)
