"""The way to each bootstrap address, tried by itself, and with other protocols where the configured one fails."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.cli.diagnosis.findings import Finding
from featuregate.config import Tls
from featuregate.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    DiscoveryError,
    FeatureGateError,
    RemoteWireError,
    TimedOut,
    TlsFailed,
)
from featuregate.net.cluster_metadata import find
from featuregate.net.connection import Connection
from featuregate.net.probe import probe_all
from featuregate.wire.sasl import SaslHandshakeRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from featuregate.cli.diagnosis.findings import Severity
    from featuregate.config import Address, Settings
    from featuregate.net.probe import BrokerList

__all__ = ["Clues", "Visit", "about_visits", "visit_all"]

_UNSUPPORTED_MECHANISM: Final = 33
_NO_MECHANISM: Final = "FEATUREGATE-DOCTOR"
"""Nobody enables this; a listener with SASL answers with what it does enable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clues:
    """What other protocols showed at an address where the configured one failed."""

    speaks_tls: bool = False
    speaks_plaintext: bool = False
    mechanisms: tuple[str, ...] = ()
    """The SASL mechanisms that it enables; empty where it wants none, or does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What came of one bootstrap address: either ``broker_list`` or ``failure`` is None."""

    address: Address
    broker_list: BrokerList | None = None
    failure: FeatureGateError | None = None
    clues: Clues = Clues()


async def visit_all(settings: Settings) -> tuple[Visit, ...]:
    """Ask each bootstrap address by itself, all at the same time."""
    return tuple(await asyncio.gather(*(_visit(address, settings) for address in settings.bootstrap)))


def about_visits(visits: Sequence[Visit], settings: Settings) -> Iterator[Finding]:
    """Say which addresses fail and why, and whether they lead to one cluster. Pure."""
    severity: Severity = "warning" if any(visit.broker_list for visit in visits) else "error"
    for visit in visits:
        if visit.failure is not None:
            yield _about_failure(visit, visit.failure, settings, severity)
    clusters: dict[str, list[str]] = {}
    for visit in visits:
        if visit.broker_list is not None and visit.broker_list.cluster_id is not None:
            clusters.setdefault(visit.broker_list.cluster_id, []).append(str(visit.address))
    if len(clusters) > 1:
        yield Finding(
            severity="error",
            code="two-clusters",
            where="configuration",
            problem="The bootstrap list leads to more than one cluster, so which one a client gets is chance.",
            evidence="; ".join(f"{', '.join(there)}: cluster {cluster}" for cluster, there in clusters.items()),
            advice="name the brokers of one cluster only",
        )


async def _visit(address: Address, settings: Settings) -> Visit:
    try:
        return Visit(address=address, broker_list=await _broker_list(replace(settings, bootstrap=(address,))))
    except DiscoveryError as error:
        own = next((cause for at, cause in error.causes if at == str(address)), error)
        failure = own if isinstance(own, FeatureGateError) else error
    except FeatureGateError as error:
        failure = error
    return Visit(address=address, failure=failure, clues=await _look_around(address, settings, failure))


async def _broker_list(settings: Settings) -> BrokerList:
    if settings.broker_list == "bootstrap":
        return (await probe_all(settings, None)).broker_list
    return (await find(settings, None, asyncio.get_running_loop().time() + settings.total_timeout)).broker_list


async def _look_around(address: Address, settings: Settings, failure: FeatureGateError) -> Clues:
    """Try what the listener might speak instead; only where it was reached, and did not say by itself what is wrong."""
    if not isinstance(failure, ConnectionLost | RemoteWireError | TimedOut | TlsFailed):
        return Clues()
    plain = replace(settings, protocol="PLAINTEXT", tls=None, sasl=None)
    if settings.tls is not None:
        if settings.sasl is None and (mechanisms := await _mechanisms(address, settings)):
            return Clues(mechanisms=mechanisms)
        return Clues(speaks_plaintext=await _answers(address, plain))
    if await _answers(address, plain):
        return Clues(speaks_plaintext=True, mechanisms=await _mechanisms(address, plain))
    unverified = Tls(verify=False, check_hostname=False)
    return Clues(speaks_tls=await _opens(address, replace(plain, protocol="SSL", tls=unverified)))


async def _opens(address: Address, settings: Settings) -> bool:
    try:
        (await Connection.open(address, settings)).close()
    except FeatureGateError:
        return False
    return True


async def _answers(address: Address, settings: Settings) -> bool:
    try:
        with await Connection.open(address, settings) as connection:
            await connection.negotiate()
    except FeatureGateError:
        return False
    return True


async def _mechanisms(address: Address, settings: Settings) -> tuple[str, ...]:
    try:
        with await Connection.open(address, settings) as connection:
            await connection.negotiate()
            response = await connection.request(SaslHandshakeRequest(mechanism=_NO_MECHANISM))
    except FeatureGateError:
        return ()
    return response.mechanisms if response.error_code == _UNSUPPORTED_MECHANISM else ()


_CONFIGURATION: Final = "docs/reference/configuration lists the properties and what they may say"


class _Diagnosis(NamedTuple):
    """The part of a finding that does not depend on what was seen."""

    code: str
    problem: str
    advice: str


class _Rule(NamedTuple):
    """What a failure means that speaks for itself: the first rule that fits counts."""

    kind: type[FeatureGateError]
    where: str
    """What the failure's stage or key holds; empty for anything."""
    diagnosis: _Diagnosis
    """Without advice, what the failure itself advises is taken."""


_RULES: Final = (
    _Rule(
        ConnectFailed,
        "resolving",
        _Diagnosis("unresolvable", "The name does not resolve on this machine.", "see its spelling, and DNS"),
    ),
    _Rule(
        ConnectFailed,
        "",
        _Diagnosis("refused", "Nobody can be reached there.", "see the port, and whether the broker runs"),
    ),
    _Rule(
        TimedOut,
        "waiting for",
        _Diagnosis(
            "silent",
            "Somebody accepts connections there, and says nothing.",
            "see whether the broker hangs, and whether the port is that of a Kafka listener",
        ),
    ),
    _Rule(
        TimedOut,
        "finding",  # which ends whatever was under way, so this may be either of the others
        _Diagnosis(
            "unreachable",
            "No answer came in time.",
            "give a longer --timeout, to learn more; look for a firewall between, and see whether the broker hangs",
        ),
    ),
    _Rule(
        TimedOut,
        "",
        _Diagnosis("unreachable", "No connection came about in time.", "look for a firewall between, and see the host"),
    ),
    _Rule(TlsFailed, "", _Diagnosis("tls", "The TLS handshake fails.", "")),
    _Rule(
        AuthenticationFailed,
        "",
        _Diagnosis(
            "authentication",
            "Authentication fails.",
            "see sasl.mechanism, the user name and the password or token",
        ),
    ),
    _Rule(ConfigError, "bootstrap.", _Diagnosis("wrong-endpoint", "It is another kind of node than asked for.", "")),
    _Rule(ConfigError, "", _Diagnosis("configuration", "A property cannot be used.", "")),
    _Rule(
        RemoteWireError,
        "",
        _Diagnosis("not-kafka", "What answers there does not speak Kafka's protocol.", "see host and port"),
    ),
    _Rule(
        ConnectionLost,
        "",
        _Diagnosis("cut", "The connection is closed before an answer comes.", "see the broker's log for the reason"),
    ),
    _Rule(
        FeatureGateError,
        "",
        _Diagnosis("refused-by-broker", "The broker refuses the question.", "see its log; it may be starting"),
    ),
)


def _about_failure(visit: Visit, failure: FeatureGateError, settings: Settings, severity: Severity) -> Finding:
    found = _mixup(visit.clues, settings) or _diagnosis(failure)
    return Finding(
        severity=severity,
        code=found.code,
        where=str(visit.address),
        problem=found.problem,
        evidence=str(failure),
        advice=found.advice,
    )


def _mixup(clues: Clues, settings: Settings) -> _Diagnosis | None:
    """Say which other protocol the listener speaks, where one was proved."""
    said = settings.protocol
    if clues.speaks_tls:
        wanted = "SASL_SSL" if settings.sasl else "SSL, or to SASL_SSL where it wants authentication"
        return _Diagnosis(
            "listener-speaks-tls",
            f"The listener speaks TLS, but security.protocol is {said}.",
            f"set security.protocol to {wanted}",
        )
    if clues.speaks_plaintext and settings.tls is not None:
        return _Diagnosis(
            "listener-speaks-plaintext",
            f"The listener speaks no TLS, but security.protocol is {said}.",
            f"set security.protocol to {said.replace('SSL', 'PLAINTEXT')}, or use the port of the TLS listener",
        )
    if clues.mechanisms and settings.sasl is None:
        return _Diagnosis(
            "listener-wants-sasl",
            f"The listener wants authentication, but security.protocol is {said}.",
            f"set security.protocol to SASL_{said}, and sasl.mechanism to one of {', '.join(clues.mechanisms)}",
        )
    return None


def _diagnosis(failure: FeatureGateError) -> _Diagnosis:
    where = str(getattr(failure, "stage", getattr(failure, "key", "")))
    found = next(rule.diagnosis for rule in _RULES if isinstance(failure, rule.kind) and rule.where in where)
    # What net and config say reads "what is wrong: what to do".
    said = getattr(failure, "problem", "")
    _, colon, advice = said.rpartition(": ")
    return found if found.advice else found._replace(advice=advice if colon else _CONFIGURATION)
