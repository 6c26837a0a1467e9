"""Findings about credentials that a broker or the network can read, and about the hosts that get them. Pure."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final

from featuregate.cli.diagnosis.findings import DoctorFinding
from featuregate.config.allowed_hosts import one_spelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from featuregate.config import Address, Settings

_READABLE: Final = {"PLAIN": "the password", "OAUTHBEARER": "the token"}
"""What a client sends as it is with these mechanisms; the others prove that they know it."""
_SHOWN: Final = 5


def credential_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Yield a warning where each broker, and everybody on the way to it, can read the credentials."""
    if secret := _readable(settings):
        yield DoctorFinding(
            severity="warning",
            code="credentials-in-clear",
            where="configuration",
            problem=f"Everybody on the way to a broker can read {secret}.",
            evidence=f"security.protocol is SASL_PLAINTEXT, sasl.mechanism is {_mechanism(settings)}",
            advice="use a SASL_SSL listener, or SCRAM, which does not send the password",
        )


def named_host_findings(settings: Settings, hosts: Iterable[str]) -> Iterator[DoctorFinding]:
    """Yield a warning where the cluster names hosts elsewhere, which get readable credentials without a check."""
    secret = _readable(settings)
    found = outside(hosts, settings.bootstrap)
    if secret and found and settings.allowed_hosts is None and settings.broker_list == "cluster":
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        yield DoctorFinding(
            severity="warning",
            code="credentials-to-named-hosts",
            where="cluster",
            problem=f"The client sends {secret} to hosts outside the domains of the bootstrap list.",
            evidence=f"over SASL_PLAINTEXT, any host that answers in place of a broker names them: "
            f"{', '.join(found[:_SHOWN])}{more}",
            advice="use a SASL_SSL listener; or set featuregate.allowed.hosts to the hosts that may get it",
        )


def outside(hosts: Iterable[str], bootstrap: Iterable[Address]) -> list[str]:
    """Return the hosts that share neither a domain nor a network (/24, /64) with an address of the bootstrap list."""
    near = {domain for address in bootstrap for domain in (one_spelling(address.host), _domain(address.host))}
    return sorted({host for host in hosts if near.isdisjoint(_domains(host))})


def _domains(host: str) -> set[str]:
    labels = one_spelling(host).split(".")
    return {_domain(host), *(".".join(labels[at:]) for at in range(len(labels)))}


def _domain(host: str) -> str:
    """Return the network of an address, or the domain above a name; not a top-level domain, but the name itself."""
    name = one_spelling(host)
    try:
        address = ip_address("127.0.0.1" if name == "localhost" else name.partition("%")[0])
    except ValueError:
        parent = name.partition(".")[2]
        return parent if "." in parent or not parent else name
    return str(ip_network(f"{address}/{24 if address.version == 4 else 64}", strict=False))  # noqa: PLR2004


def _readable(settings: Settings) -> str | None:
    return _READABLE.get(_mechanism(settings)) if settings.protocol == "SASL_PLAINTEXT" else None


def _mechanism(settings: Settings) -> str:
    return settings.sasl.mechanism if settings.sasl else ""
