"""The report of one cluster, as the options of ``readiness`` ask for it, and what a verdict is for the shell."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import FAILED, OK, UNKNOWN, CommandError, discover_view
from featuregate.files import replace_file
from featuregate_fleet.commands.options.tables import named_as_options
from featuregate_fleet.readiness.rows import Verdict

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

    from featuregate.view.cluster_view import View
    from featuregate_fleet.api.report import FleetReport

NO_VERDICT: Final = 3
"""The evidence is missing or too old."""
_EXIT_CODES: Final = {Verdict.OK: OK, Verdict.WARN: OK, Verdict.BLOCK: FAILED}


def levels_of_now(args: argparse.Namespace) -> View | None:
    """Ask the brokers, if the options name some."""
    return discover_view(args) if args.bootstrap_server or args.command_config else None


def report_of(spark: SparkSession, args: argparse.Namespace, view: View | None) -> FleetReport:
    """Judge the move from the tables of a cluster."""
    from featuregate_fleet.api.fleet import Fleet  # noqa: PLC0415 - Spark

    with named_as_options():
        return Fleet(spark, args.tables, args.cluster).readiness(
            args.move,
            since=args.since,
            stale_after=timedelta(hours=args.stale_after),
            min_hours=args.min_hours,
            reports_expected=not args.without_usage_reports,
            view=view,
        )


def write_page(args: argparse.Namespace, page: Callable[[], str]) -> None:
    """Write the page, if ``--html`` names its file."""
    if args.html:
        try:
            replace_file(args.html, page())
        except OSError as error:
            raise CommandError(f"--html {args.html}: the page cannot be written: {error.strerror}", UNKNOWN) from error


def exit_code(verdict: Verdict) -> int:
    """Return the exit code that tells a verdict."""
    return _EXIT_CODES.get(verdict, NO_VERDICT)
