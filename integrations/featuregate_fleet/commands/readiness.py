"""``featuregate readiness``: say whether a move is safe, by the metrics of brokers or by the table of a cluster."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.plugin import (
    FAILED,
    OK,
    UNKNOWN,
    CommandError,
    CommandHelp,
    add_cluster_options,
    add_output,
    aligned,
    discover_view,
    option,
    printable,
)
from featuregate.files import replace_file
from featuregate.jars.progress import shown_on_a_terminal
from featuregate_fleet.commands.options.metrics import (
    add_listener_options,
    add_metrics_options,
    add_since,
    begin,
    cluster_of,
    read_evidence,
)
from featuregate_fleet.commands.options.tables import (
    add_moves,
    add_tables_options,
    check_one_evidence,
    needs_extra,
    spark_session,
    tables_place,
)
from featuregate_fleet.readiness.hours import MIN_HOURS, STALE_AFTER, hour_of
from featuregate_fleet.readiness.moves import ToRelease
from featuregate_fleet.readiness.rows import Row, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from featuregate_fleet.metrics.verdicts import MetricsReport

HELP: Final = CommandHelp(
    "say which clients a move to another release would break",
    """\
Say which clients a move to another release breaks: by what brokers publish to Prometheus, or by the table of a cluster
that 'featuregate fleet run' has written.

By --metrics or --prometheus it takes seconds, and needs the extra 'readiness', and neither request logs nor Spark. A
block is what was counted. An ok says that nothing was seen: it needs all hours of --since for each broker, a measured
release of each software, and the SASL mechanisms of each listener. What no metric can show is listed, too.

By --tables it names the clients, groups and apps, and judges other moves, too. It needs the extra 'fleet', and Java 17
or newer. Without evidence the verdict is unknown, never ok.""",
    (
        "readiness --metrics http://broker-1:9404/metrics --to 4.2",
        "readiness --metrics 1=http://broker-1:9404/metrics --metrics 2=page.txt --to 4.2 --bootstrap-server b:9092",
        "readiness --prometheus http://prometheus:9090 --since 90d --to 4.2 --bootstrap-server b:9092",
        "readiness --metrics page.txt --to 4.2 --brokers 1 --listener CLIENT=SCRAM-SHA-256 --since 24h",
        "readiness --tables tables --cluster orders --to 4.2",
        "readiness --tables tables --cluster orders --to 4.2 --html report.html",
        "readiness --tables tables --cluster orders --downgrade-to 3.9.2",
        "readiness --tables tables --cluster orders --finalize transaction.version=2",
        "readiness --tables tables --cluster orders --drop-api 'Fetch<12'",
    ),
    "0 ok or warnings; 1 a client blocks the move; 3 unknown or stale; 2 the evidence or the brokers cannot be read, "
    "or the page cannot be written; 64 wrong usage",
)
_OF_TABLES: Final = ("cluster", "jars", "stale_after", "min_hours", "without_usage_reports", "html")
_OF_METRICS: Final = ("match", "token_file", "ca_file", "cert_file", "brokers")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``readiness``."""
    add_moves(parser)
    add_since(parser)
    add_metrics_options(parser)
    add_listener_options(parser)
    add_table_options(parser)
    add_output(parser, "a table, or one JSON object")
    add_cluster_options(parser, default=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Print the report; return the exit code of its verdict."""
    check_one_evidence(args)
    if not args.tables:
        _refuse(args, _OF_TABLES, "--tables")
        return _by_metrics(args)
    _refuse(args, _OF_METRICS, "--metrics or --prometheus")
    with needs_extra("readiness --tables", "fleet"):
        return _by_table(args)


def _refuse(args: argparse.Namespace, names: tuple[str, ...], needs: str) -> None:
    values = ((name, getattr(args, name)) for name in names)  # 0 is given: it is a number of hours
    if given := [name for name, value in values if value is not None and value is not False and value != []]:
        raise CommandError(f"--{given[0].replace('_', '-')} goes with {needs}")


@needs_extra("this", "readiness")
def _by_metrics(args: argparse.Namespace) -> int:
    from featuregate_fleet.metrics.verdicts import decides, judge  # noqa: PLC0415 - --help is cheap
    from featuregate_fleet.readiness.api_ranges import ReleaseApis  # noqa: PLC0415 - likewise

    if not isinstance(args.move, ToRelease):
        raise CommandError("metrics say which clients break with --to alone: give --tables for any other move")
    apis = ReleaseApis(args.move.release)
    evidence = read_evidence(args, lambda meaning: decides(meaning, apis))
    brokers, listeners = cluster_of(args, evidence.listeners)
    report = judge(evidence, apis, listeners, brokers)
    head = f"{args.move.title}, by metrics since {evidence.since:%Y-%m-%d %H:%M} UTC: {report.verdict}"
    print(
        json.dumps(_to_json(args, report), indent=2, default=datetime.isoformat)
        if args.output == "json"
        else _to_text(head, report.rows, report.blind_spots)
    )
    return exit_code(report.verdict)


def _to_text(head: str, rows: Sequence[Row], blind_spots: Iterable[str]) -> str:
    """Return the findings, and below them what to do, and what no metric shows."""
    table = [("VERDICT", "CHECK", "WHO", "WHY")]
    table += [(row.verdict, row.check, printable(row.subject), printable(row.said)) for row in rows]
    todo = [printable(line) for do in dict.fromkeys(row.do for row in rows if row.do) for line in do.split("\n")]
    blind = [f"- {each}" for each in blind_spots]
    below = [*(["", *todo] if todo else []), *(["", "No metric shows:", *blind] if blind else [])]
    return "\n".join([head, "", *aligned(table), *below])


def _to_json(args: argparse.Namespace, report: MetricsReport) -> dict[str, Any]:
    evidence = report.evidence
    return {
        "verdict": report.verdict,
        "move": {"kind": args.move.KIND, "target": args.move.target},
        "rows": [asdict(row) for row in report.rows],
        "coverage": [asdict(broker) for broker in evidence.brokers],
        "since": evidence.since,
        "until": evidence.until,
        "no_metric_shows": list(report.blind_spots),
    }


_MOST_HOURS: Final = 10_000_000
"""The most hours: 17 million would begin before the year 1."""
NO_VERDICT: Final = 3
"""The evidence is missing or too old."""
_EXIT_CODES: Final = {Verdict.OK: OK, Verdict.WARN: OK, Verdict.BLOCK: FAILED}


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the table is, and what of it counts."""
    group = parser.add_argument_group("the table that 'featuregate fleet run' writes")
    add_tables_options(group, required=False)
    stale = "evidence that is older than this is stale (default: 168, a week)"
    option(group, "--stale-after HOURS", stale, type=_hours)
    least = (
        "a broker that logged for less time is unknown; 0 for any time (default: 1, which shows the clients that "
        "always run; 24 shows those of each day, too)"
    )
    option(group, "--min-hours HOURS", least, type=lambda text: 0.0 if text == "0" else _hours(text))
    option(group, "--without-usage-reports", "miss no reports: no app of the cluster has gates")
    option(group, "--html FILE", "write the report as one HTML page, too")


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours <= _MOST_HOURS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours from above 0 to {_MOST_HOURS}")
    return hours


def _by_table(args: argparse.Namespace) -> int:
    if args.html and (args.html.is_dir() or not args.html.parent.is_dir()):
        raise CommandError(f"--html {args.html}: this is a folder, or is in a folder that does not exist")
    start = hour_of(begin(args.since, datetime.now(UTC))) if args.since else None
    view = discover_view(args) if args.bootstrap_server or args.command_config else None
    place = tables_place(args)
    from featuregate_fleet.api.fleet import Fleet  # noqa: PLC0415 - Spark

    with spark_session(args, place) as spark, shown_on_a_terminal("reading the table", lambda: args.cluster):
        report = Fleet(spark, args.tables, args.cluster).readiness(
            args.move,
            since=start,
            stale_after=timedelta(hours=args.stale_after) if args.stale_after else STALE_AFTER,
            min_hours=MIN_HOURS if args.min_hours is None else args.min_hours,
            reports_expected=not args.without_usage_reports,
            view=view,
            listeners=lambda names: cluster_of(args, names)[1],
        )
    since = f", since {start:%Y-%m-%d %H:%M} UTC" if start else ""
    head = f"{report.cluster} {args.move.title}{since}: {report.verdict}"
    said = _to_text(head, report.findings, report.blind_spots)
    print(json.dumps(report.to_json(), indent=2) if args.output == "json" else said)
    if args.html:
        try:
            replace_file(args.html, report.html())
        except OSError as error:
            raise CommandError(f"--html {args.html}: the page cannot be written: {error.strerror}", UNKNOWN) from error
    return exit_code(report.verdict)


def exit_code(verdict: Verdict) -> int:
    """Return the exit code that tells a verdict."""
    return _EXIT_CODES.get(verdict, NO_VERDICT)
