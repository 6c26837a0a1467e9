"""``featuregate readiness``: say from the metrics of brokers whether a move is safe, without Spark."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.plugin import (
    FAILED,
    OK,
    CommandHelp,
    add_cluster_options,
    add_output,
    aligned,
    printable,
)
from featuregate_fleet.commands.options.metrics import (
    add_listener_options,
    add_metrics_options,
    cluster_of,
    read_evidence,
)
from featuregate_fleet.readiness.move_texts import to
from featuregate_fleet.readiness.rows import Verdict

if TYPE_CHECKING:
    from featuregate_fleet.metrics.evidence import MetricsEvidence
    from featuregate_fleet.metrics.verdicts import MetricsReport
    from featuregate_fleet.readiness.moves import ToRelease

HELP: Final = CommandHelp(
    "say from the metrics of brokers whether they can move to another release",
    """\
Say which clients a move to another release breaks, by what brokers publish to Prometheus: requests by API and version,
the software that is connected to each listener, and when the broker started. Needs the extra 'readiness', and neither
request logs nor Spark.

A block is what was counted. An ok says that nothing was seen: it needs all hours of --since for each broker, a measured
release of each software, and the SASL mechanisms of each listener. What no metric can show is listed, too.""",
    (
        "readiness --metrics http://broker-1:9404/metrics --to 4.2",
        "readiness --metrics 1=http://broker-1:9404/metrics --metrics 2=page.txt --to 4.2 --bootstrap-server b:9092",
        "readiness --prometheus http://prometheus:9090 --since 90d --to 4.2 --bootstrap-server b:9092",
        "readiness --metrics page.txt --to 4.2 --brokers 1 --listener CLIENT=SCRAM-SHA-256 --since 24h",
    ),
    "0 nothing was seen that breaks, in all hours of all brokers; 1 a client blocks the move; 3 unknown; 2 no metrics "
    "can be read, or no broker answers; 64 wrong usage",
)
_EXIT_CODES: Final = {Verdict.OK: OK, Verdict.BLOCK: FAILED}
_NO_VERDICT: Final = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``readiness``."""
    parser.add_argument(
        "--to",
        metavar="RELEASE",
        type=_move,
        dest="move",
        required=True,
        help="all brokers run this release, such as 4.2",
    )
    add_metrics_options(parser)
    add_listener_options(parser)
    add_output(parser, "a table, or one JSON object")
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _move(text: str) -> ToRelease:
    try:
        return to(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Print the report; return the exit code of its verdict."""
    from featuregate_fleet.metrics.verdicts import decides, judge  # noqa: PLC0415 - --help is cheap
    from featuregate_fleet.readiness.api_ranges import ReleaseApis  # noqa: PLC0415 - likewise

    apis = ReleaseApis(args.move.release)
    evidence = read_evidence(args, decides(apis))
    brokers, listeners = cluster_of(args, evidence.listeners)
    report = judge(evidence, apis, listeners, brokers)
    print(
        json.dumps(_to_json(args, evidence, report), indent=2, default=datetime.isoformat)
        if args.output == "json"
        else _to_text(args, evidence, report)
    )
    return _EXIT_CODES.get(report.verdict, _NO_VERDICT)


def _to_text(args: argparse.Namespace, evidence: MetricsEvidence, report: MetricsReport) -> str:
    head = f"{args.move.title}, by metrics since {evidence.since:%Y-%m-%d %H:%M} UTC: {report.verdict}"
    table = [("VERDICT", "CHECK", "WHO", "WHY")]
    table += [(row.verdict, row.check, printable(row.subject), printable(row.why)) for row in report.rows]
    todo = [line for do in dict.fromkeys(row.do for row in report.rows if row.do) for line in do.split("\n")]
    blind = ["", "No metric shows:", *(f"- {each}" for each in report.blind_spots)]
    return "\n".join([head, "", *aligned(table), *([""] if todo else []), *map(printable, todo), *blind])


def _to_json(args: argparse.Namespace, evidence: MetricsEvidence, report: MetricsReport) -> dict[str, Any]:
    return {
        "verdict": report.verdict,
        "move": {"kind": args.move.KIND, "target": args.move.target},
        "rows": [asdict(row) for row in report.rows],
        "coverage": [asdict(broker) for broker in evidence.brokers],
        "since": evidence.since,
        "until": evidence.until,
        "no_metric_shows": list(report.blind_spots),
    }
