"""``featuregate fleet readiness``: say whether a move is safe."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import (
    CommandError,
    add_cluster_options,
    add_output,
    aligned,
    local_path_argument,
    printable,
)
from featuregate.jars.progress import shown_on_a_terminal
from featuregate_fleet.commands.options.moves import add_moves
from featuregate_fleet.commands.options.tables import add_tables_options, tables_place
from featuregate_fleet.commands.reports import exit_code, levels_of_now, report_of, write_page
from featuregate_fleet.files.storage import on_s3

if TYPE_CHECKING:
    from featuregate_fleet.readiness.report import Report

STALE_AFTER_HOURS: Final = 168.0
MIN_HOURS: Final = 1.0
_MOST_HOURS: Final = 10_000_000
"""The most hours: 17 million would begin before the year 1."""

DESCRIPTION: Final = """\
Say what a move breaks: compare the API versions that clients used with those that brokers serve then. Any row that
blocks blocks the move. A verdict says nothing of clients that did not connect while the brokers logged.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``readiness``."""
    add_moves(parser)
    parser.add_argument(
        "--stale-after",
        metavar="HOURS",
        type=_hours,
        default=STALE_AFTER_HOURS,
        help="evidence that is older than this is stale (default: 168, a week)",
    )
    parser.add_argument(
        "--min-hours",
        metavar="HOURS",
        type=_hours_or_none,
        default=MIN_HOURS,
        help="a broker that logged for less time is unknown; 0 for any time (default: 1, which shows the clients that "
        "always run; 24 shows those of each day, too)",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=_hour,
        help="count requests from this hour on, in UTC, such as 2026-11-22T14:00: those before a client was upgraded "
        "block no more",
    )
    parser.add_argument(
        "--without-usage-reports",
        action="store_true",
        help="miss no reports: no app of the cluster has gates",
    )
    add_output(parser, "a table, or one JSON object")
    parser.add_argument(
        "--html", metavar="FILE", type=local_path_argument, help="write the report as one HTML page, too"
    )
    add_tables_options(parser)
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _hours_or_none(text: str) -> float:
    return 0.0 if text == "0" else _hours(text)


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours <= _MOST_HOURS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours from above 0 to {_MOST_HOURS}")
    return hours


def _hour(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        at = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write one such as 2026-11-22T14:00") from None
    return at.replace(minute=0, second=0, microsecond=0)


def run(args: argparse.Namespace) -> int:
    """Print the report; return the exit code of its verdict."""
    if args.html and (args.html.is_dir() or not args.html.parent.is_dir()):
        raise CommandError(f"--html {args.html}: this is a folder, or is in a folder that does not exist")
    view = levels_of_now(args)
    place = tables_place(args)
    from featuregate_fleet.runs.session import local_session  # noqa: PLC0415 - Spark

    session = local_session(args.jars, topics=False, s3=on_s3(place))
    with session as spark, shown_on_a_terminal("reading the table", lambda: args.cluster):
        report = report_of(spark, args, view)
    print(json.dumps(report.to_json(), indent=2) if args.output == "json" else _to_text(args, report.report))
    write_page(args, report.html)
    return exit_code(report.verdict)


def _to_text(args: argparse.Namespace, report: Report) -> str:
    since = f", since {args.since:%Y-%m-%d %H:%M} UTC" if args.since else ""
    head = f"{args.cluster} {report.move.title}{since}: {report.verdict}"
    table = [("VERDICT", "CHECK", "WHO", "WHY")]
    table += [(row.verdict, row.check, printable(row.subject), printable(row.said)) for row in report.rows]
    todo = dict.fromkeys(row.do for row in report.rows if row.do)
    return "\n".join([head, "", *aligned(table), *([""] if todo else []), *map(printable, todo)])
