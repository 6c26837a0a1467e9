"""``doctor``: what is wrong with this configuration, with the way to the cluster, and with the cluster."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.cluster import configuration, silence_log
from featuregate.cli.diagnosis.connections import about_visits, visit_all
from featuregate.cli.diagnosis.findings import Finding, about_broker_list, about_cluster, worst_first
from featuregate.cli.exit_codes import FAILED, OK, UNKNOWN
from featuregate.cli.output import printable
from featuregate.config import Settings
from featuregate.errors import ConfigError, DiscoveryError
from featuregate.polling.discovery import DISCOVER_SECONDS
from featuregate.sources.brokers import BrokerSource

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence


__all__ = ["about_configuration", "exit_code", "run", "to_json", "to_text"]

APART: Final = 2.0
"""Seconds between two looks: an epoch of KRaft rises twice a second."""


def run(args: argparse.Namespace) -> int:
    """Examine everything, and print what was found."""
    silence_log()
    findings = worst_first(examine(args))
    print(json.dumps(to_json(findings), indent=2) if args.output == "json" else to_text(findings))
    return exit_code(findings)


def examine(args: argparse.Namespace) -> list[Finding]:
    """Go from the configuration to the cluster, as far as one gets."""
    try:
        properties = configuration(args)
        settings = Settings.parse(
            properties, broker_list=args.broker_list, total_timeout=args.timeout or DISCOVER_SECONDS
        )
    except ConfigError as error:
        return [_misconfigured(error)]
    return [*about_configuration(properties, settings), *asyncio.run(_examine(settings))]


async def _examine(settings: Settings) -> list[Finding]:
    visits = await visit_all(settings)
    findings = list(about_visits(visits, settings))
    if not any(visit.broker_list for visit in visits):
        return findings
    try:
        source = BrokerSource(settings)
        first = await source.fetch()
        await asyncio.sleep(APART)
        second = await source.fetch()
    except DiscoveryError as error:
        return [*findings, _gone(error)]
    views = first.merge(), second.merge()
    # What is said of a broker need not be said of its address too.
    silent = {broker.address for broker in views[1].missing}
    findings = [finding for finding in findings if finding.where not in silent]
    findings += about_broker_list(registered=second.registered, role=settings.role)
    return [*findings, *about_cluster(*views)]


def about_configuration(properties: Mapping[str, str], settings: Settings) -> Iterator[Finding]:
    """Say what is set and cannot have an effect, and what makes a connection less safe than it looks."""
    used = {"ssl.": settings.protocol.endswith("SSL"), "sasl.": settings.protocol.startswith("SASL_")}
    for what, has_effect in used.items():
        names = [name for name in properties if name.removeprefix("kafka.").startswith(what)]
        if names and not has_effect:
            yield Finding(
                severity="warning",
                code=f"{what.rstrip('.')}-ignored",
                where="configuration",
                problem=f"Settings of {what.rstrip('.').upper()} have no effect.",
                evidence=f"security.protocol is {settings.protocol}; set are {', '.join(sorted(names))}",
                advice="set security.protocol to what the listener speaks, or take them out",
            )
    if settings.tls is not None and not settings.tls.verify:
        yield _unsafe(
            "certificate-unchecked", "Certificates are not checked, so anybody in between can read and answer."
        )
    elif settings.tls is not None and not settings.tls.check_hostname:
        yield _unsafe("host-unchecked", "Host names in certificates are not checked: any trusted certificate will do.")


def to_text(findings: Sequence[Finding]) -> str:
    """Return each finding in a few lines, and how many there are of each severity."""
    lines = []
    for finding in findings:
        lines += [
            f"{finding.severity}: {finding.where}: {finding.problem}",
            f"  seen  {finding.evidence}",
            f"  do    {finding.advice}",
            "",
        ]
    return "\n".join(map(printable, [*lines, _sum(findings)]))


def to_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings as plain values."""
    return {"findings": [asdict(finding) for finding in findings]}


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 1 where there is an error, 2 where there are warnings only, else 0: a note is nothing wrong."""
    severities = {finding.severity for finding in findings}
    if "error" in severities:
        return FAILED
    return UNKNOWN if "warning" in severities else OK


def _sum(findings: Sequence[Finding]) -> str:
    counts = {word: sum(finding.severity == word for finding in findings) for word in ("error", "warning", "note")}
    said = ", ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items() if count)
    return said or "nothing is wrong"


def _misconfigured(error: ConfigError) -> Finding:
    return Finding(
        severity="error",
        code="configuration",
        where="configuration",
        problem=f"{error.key} cannot be used.",
        evidence=error.problem,
        advice="docs/reference/configuration lists the properties and what they may say",
    )


def _unsafe(code: str, problem: str) -> Finding:
    return Finding(
        severity="warning",
        code=code,
        where="configuration",
        problem=problem,
        evidence="enable.ssl.certificate.verification, ssl.endpoint.identification.algorithm",
        advice="name the authority that signed them by ssl.ca.location, and connect by a name that is in them",
    )


def _gone(error: DiscoveryError) -> Finding:
    return Finding(
        severity="error",
        code="gone",
        where="cluster",
        problem="The cluster answered at first, and then no more.",
        evidence=str(error),
        advice="see whether it is being restarted, and look again",
    )
