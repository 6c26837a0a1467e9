"""``doctor``: find what is wrong in the configuration, with the connections, and in the cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from featuregate.admin.quorum import fetch_quorum
from featuregate.cli.cluster import configuration, has_cluster, settings_of, silence_log
from featuregate.cli.diagnosis import DoctorFinding, error_finding, worst_first
from featuregate.cli.diagnosis.cluster import broker_list_findings, cluster_findings
from featuregate.cli.diagnosis.configuration import (
    CONFIGS,
    config_findings,
    configuration_findings,
    credential_findings,
    invalid_configuration,
    named_host_findings,
    not_run_finding,
)
from featuregate.cli.diagnosis.connections import closing_findings, connection_findings, probe_bootstrap
from featuregate.cli.exit_codes import FAILED, OK, UNKNOWN, CommandError
from featuregate.config.from_files import NotAllowed, inert, reaching
from featuregate.errors import ConfigError, DiscoveryError
from featuregate.net.connection import AskedVersions
from featuregate.printable import printable
from featuregate.sources.brokers import BrokerSource
from featuregate.version import how_to_install

if TYPE_CHECKING:
    import argparse

    from featuregate.config import Settings


PAUSE: Final = 2.0
"""Seconds between the two views: the epoch of an idle KRaft cluster rises twice a second."""


def run(args: argparse.Namespace) -> int:
    """Print the findings, worst first."""
    silence_log()
    facts, problems = _examine_spark() if args.spark else ((), ())
    cluster = examine(args) if has_cluster(args) or not args.spark else []
    findings = worst_first([*map(_spark_finding, problems), *cluster])
    if args.output == "json":
        print(json.dumps(to_json(findings) | ({"spark": list(facts)} if args.spark else {}), indent=2))
    else:
        print("\n".join([*map(printable, facts), *([""] if facts else []), to_text(findings)]))
    return exit_code(findings)


def _examine_spark() -> tuple[Sequence[str], Sequence[str]]:
    from featuregate.cli.plugin_loader import load_diagnosis  # noqa: PLC0415 - only --spark needs it

    if (diagnosis := load_diagnosis("spark")) is None:
        raise CommandError(f"--spark needs the PySpark side: {how_to_install('spark')}")
    return diagnosis.diagnose()


def _spark_finding(problem: str) -> DoctorFinding:
    what, _, advice = problem.partition(": ")
    return error_finding(
        code="spark",
        where="Spark",
        problem=what,
        evidence="the Spark that this Python starts",
        advice=advice or "see its log",
    )


def examine(args: argparse.Namespace) -> list[DoctorFinding]:
    """Examine the configuration, then the connections, then the cluster, as far as they can be reached."""
    properties = inert(configuration(args))
    reached = reaching(properties)
    not_run = [not_run_finding(reached)] if reached else []
    try:
        settings = settings_of(args, properties)
    except ConfigError as error:
        return not_run if error.key in reached and not isinstance(error, NotAllowed) else [invalid_configuration(error)]
    findings = [*not_run, *configuration_findings(properties, settings), *credential_findings(settings)]
    if any("ssl" in name for name in reached):
        return findings
    if reached:  # no placeholder is sent: only what brokers answer before authentication
        settings = replace(settings, sasl=None, broker_list="bootstrap")
    return [*findings, *asyncio.run(_examine(settings))]


async def _examine(settings: Settings) -> list[DoctorFinding]:
    versions = AskedVersions()
    probes = await probe_bootstrap(settings, versions)
    findings = list(connection_findings(probes))
    if not any(probe.broker_list for probe in probes):
        return findings
    try:
        source = BrokerSource(settings, keep_connections=False, versions=versions)
        source.configs = CONFIGS
        first = await source.fetch()
        await asyncio.sleep(PAUSE)
        second = await source.fetch()
    except DiscoveryError as error:
        return [*findings, _gone(error)]
    views = first.merge(), second.merge()
    # The finding about a broker replaces the one about its address.
    silent = {broker.address for broker in views[1].missing}
    findings = [finding for finding in findings if finding.where not in silent]
    findings += broker_list_findings(registered=second.registered, role=settings.role)
    findings += named_host_findings(settings, (answer.host for answer in second.answers))
    findings += closing_findings(versions.closed_on_newer)
    return [*findings, *cluster_findings(*views, await fetch_quorum(settings)), *config_findings(views[1])]


def to_text(findings: Sequence[DoctorFinding]) -> str:
    """Return a few lines for each finding, and the number of findings of each severity."""
    lines = []
    for finding in findings:
        lines += [
            f"{finding.severity}: {finding.where}: {finding.problem}",
            f"  seen  {finding.evidence}",
            f"  do    {finding.advice}",
            "",
        ]
    return "\n".join(map(printable, [*lines, _counts(findings)]))


def to_json(findings: Sequence[DoctorFinding]) -> dict[str, Any]:
    """Return the findings as plain values."""
    return {"findings": [asdict(finding) for finding in findings]}


def exit_code(findings: Sequence[DoctorFinding]) -> int:
    """Return 1 with an error, 2 with warnings only, else 0."""
    severities = {finding.severity for finding in findings}
    if "error" in severities:
        return FAILED
    return UNKNOWN if "warning" in severities else OK


def _counts(findings: Sequence[DoctorFinding]) -> str:
    counts = {word: sum(finding.severity == word for finding in findings) for word in ("error", "warning", "note")}
    return ", ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items() if count) or (
        "nothing is wrong"
    )


def _gone(error: DiscoveryError) -> DoctorFinding:
    if error.listed_by is not None:
        return error_finding(
            code="advertised-addresses",
            problem="No broker answers at the address that the cluster advertises for it.",
            evidence=str(error),
            advice="set advertised.listeners of each broker to a name that this machine resolves and reaches, and that "
            "is in its certificate; or check whether the cluster is being restarted",
        )
    return error_finding(
        code="gone",
        problem="The cluster answered at first, and then stopped answering.",
        evidence=str(error),
        advice="check whether the cluster is being restarted, and run this command again",
    )
