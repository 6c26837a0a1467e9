"""``featuregate inventory``: list which software is connected to which listener, by the metrics of brokers."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.plugin import OK, CommandHelp, add_output, aligned, printable
from featuregate.printable import some
from featuregate_fleet.commands.options.metrics import add_metrics_options, read_evidence

if TYPE_CHECKING:
    import argparse

    from featuregate_fleet.metrics.evidence import MetricsEvidence
    from featuregate_fleet.metrics.inventory import SoftwareUse

HELP: Final = CommandHelp(
    "list from the metrics of brokers which software uses them",
    """\
List the software that is connected to the brokers, with its releases and the listeners that it uses, and which release
the brokers run at least. Of a Prometheus, a chart shows when which software was there. Needs the extra 'readiness', and
neither request logs nor Spark.""",
    (
        "inventory --metrics 1=http://broker-1:9404/metrics --metrics 2=page.txt",
        "inventory --prometheus http://prometheus:9090 --since 90d",
        "inventory --prometheus http://prometheus:9090 --since 30d --output json",
    ),
    "0 done; 2 no metrics can be read; 64 wrong usage",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``inventory``."""
    add_metrics_options(parser)
    add_output(parser, "tables, or one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print who uses what."""
    from featuregate_fleet.metrics.inventory import broker_releases, software_in_use  # noqa: PLC0415 - --help is cheap
    from featuregate_fleet.metrics.spellings import Connected  # noqa: PLC0415 - likewise

    evidence = read_evidence(args, lambda meaning: isinstance(meaning, Connected))
    found, releases = list(software_in_use(evidence)), broker_releases(evidence)
    if args.output == "json":
        print(json.dumps(_to_json(evidence, found, releases), indent=2))
    else:
        print(_to_text(evidence, found, releases, with_chart=bool(args.prometheus)))
    return OK


def _to_text(evidence: MetricsEvidence, found: list[SoftwareUse], releases: dict[str, str], *, with_chart: bool) -> str:
    head = ["SOFTWARE", "LISTENER", "CONNECTIONS", "BROKERS"]
    rows = [
        [printable(one.software), printable(one.listener), str(one.most), printable(some(one.brokers, 5))]
        for one in found
    ]
    if with_chart:
        head.append(f"{evidence.since:%Y-%m-%d %H:%M} TO {evidence.until:%Y-%m-%d %H:%M} UTC")
        rows = [[*row, one.bars(evidence.since, evidence.until)] for row, one in zip(rows, found, strict=True)]
    brokers = [["BROKER", "RELEASE", "STARTED"]]
    brokers += [
        [
            printable(one.broker),
            f"{releases[one.broker]} or newer" if one.has_requests else "not known",
            f"{one.started:%Y-%m-%d %H:%M} UTC" if one.started else printable(one.problem) or "not known",
        ]
        for one in evidence.brokers
    ]
    return "\n".join([*aligned([head, *rows]), "", *aligned(brokers)])


def _to_json(evidence: MetricsEvidence, found: list[SoftwareUse], releases: dict[str, str]) -> dict[str, Any]:
    return {
        "software": [
            {
                "software": one.software,
                "listener": one.listener,
                "brokers": list(one.brokers),
                "hours": [{"hour": hour.isoformat(), "connections": count} for hour, count in one.connections.items()],
            }
            for one in found
        ],
        "brokers": [
            {
                "broker": one.broker,
                "release_at_least": releases[one.broker] if one.has_requests else None,
                "started": one.started.isoformat() if one.started else None,
                "problem": one.problem,
            }
            for one in evidence.brokers
        ],
        "since": evidence.since.isoformat(),
        "until": evidence.until.isoformat(),
    }
