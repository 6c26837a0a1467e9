"""Findings about the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.cli.diagnosis.findings import DoctorFinding
from featuregate.config.keys import misspelt
from featuregate.config.missing import in_words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from featuregate.config import Settings
    from featuregate.errors import ConfigError


def configuration_findings(properties: Mapping[str, str], settings: Settings) -> Iterator[DoctorFinding]:
    """Yield the properties without effect, and the checks that are turned off."""
    for name, meant in misspelt(name.removeprefix("kafka.") for name in properties).items():
        yield DoctorFinding(
            severity="warning",
            code="misspelt-property",
            where="configuration",
            problem=f"{name} has no effect.",
            evidence=f"no property has this name; {meant} has nearly the same",
            advice=f"write {meant}",
        )
    used = {"ssl.": settings.protocol.endswith("SSL"), "sasl.": settings.protocol.startswith("SASL_")}
    for prefix, has_effect in used.items():
        names = [name for name in properties if name.removeprefix("kafka.").startswith(prefix)]
        if names and not has_effect:
            yield DoctorFinding(
                severity="warning",
                code=f"{prefix.rstrip('.')}-ignored",
                where="configuration",
                problem=f"Settings of {prefix.rstrip('.').upper()} have no effect.",
                evidence=f"security.protocol is {settings.protocol}; set are {', '.join(sorted(names))}",
                advice="set security.protocol to the protocol of the listener, or remove these properties",
            )
    if settings.trust_shared_addresses:
        yield DoctorFinding(
            severity="note",
            code="shared-addresses-trusted",
            where="configuration",
            problem="An answer counts for every node that the cluster lists at its address.",
            evidence="featuregate.trust.shared.addresses is true",
            advice="keep it only where whatever listens there answers for all of them; a balancer does not",
        )
    if settings.tls is not None and not settings.tls.verify:
        yield _unsafe(
            "certificate-unchecked", "Certificates are not checked, so an attacker in between can read and answer."
        )
    elif settings.tls is not None and not settings.tls.check_hostname:
        yield _unsafe("host-unchecked", "Host names in certificates are not checked: any trusted certificate passes.")


def invalid_configuration(error: ConfigError) -> DoctorFinding:
    """Return the finding for a property that is not valid."""
    error = in_words_of(error, "--broker-list bootstrap")
    return DoctorFinding(
        severity="error",
        code="configuration",
        where="configuration",
        problem=f"{error.key} is not valid.",
        evidence=error.problem,
        advice="the page Configuration of the documentation lists the properties and their values",
    )


def _unsafe(code: str, problem: str) -> DoctorFinding:
    return DoctorFinding(
        severity="warning",
        code=code,
        where="configuration",
        problem=problem,
        evidence="enable.ssl.certificate.verification, ssl.endpoint.identification.algorithm",
        advice="set ssl.ca.location to the authority that signed the certificates, and connect by a name in them",
    )
