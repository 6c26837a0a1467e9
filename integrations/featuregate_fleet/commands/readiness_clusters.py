"""``featuregate fleet readiness --config``: the verdicts on one move of several clusters."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from featuregate.cli.plugin import UNKNOWN, aligned, print_message, printable
from featuregate_fleet.commands.options.fleet_file import clusters_of
from featuregate_fleet.commands.reports import exit_code, levels_of_now, report_of, write_page
from featuregate_fleet.commands.run_clusters import FAILURES
from featuregate_fleet.files.storage import on_s3
from featuregate_fleet.readiness.rows import Verdict
from featuregate_fleet.readiness.summary import FleetSummary, summarized

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

    from featuregate_fleet.readiness.report import Report


def readiness_of_clusters(args: argparse.Namespace) -> int:
    """Print a row for each cluster; return the exit code of the worst verdict, or that of a cluster that failed."""
    clusters = clusters_of(args)
    from featuregate_fleet.page.rendering import clusters_page  # noqa: PLC0415 - templates
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - Spark

    with local_session(
        args.jars, topics=False, s3=on_s3(*(each.checkpoints or each.tables for each in clusters.values()))
    ) as spark:
        found = _reports(spark, clusters, args.parallel)
    summary = summarized(found, args.move, datetime.now(UTC))
    print(json.dumps(summary.to_json(), indent=2) if args.output == "json" else _to_text(summary))
    write_page(args, lambda: clusters_page(summary))
    for name in summary.failed:
        print_message(f"{name}: {found[name]}")
    return UNKNOWN if summary.failed else exit_code(summary.verdict)


def _reports(
    spark: SparkSession, clusters: Mapping[str, argparse.Namespace], most: int
) -> dict[str, Report | Exception]:
    from featuregate_fleet.stream.parallel import in_parallel  # noqa: PLC0415 - Spark

    def judge(args: argparse.Namespace) -> Callable[[], Report]:
        return lambda: report_of(spark, args, levels_of_now(args)).report

    return dict(in_parallel(spark, {name: judge(each) for name, each in clusters.items()}, most, FAILURES))


def _to_text(summary: FleetSummary) -> str:
    count = len(summary.clusters)
    head = f"{count} cluster{'s' if count > 1 else ''} {summary.move.title}: {summary.verdict}"
    table = [("VERDICT", "CLUSTER", *(verdict.upper() for verdict in reversed(Verdict)), "WHY")]
    table += [
        (
            "failed" if each.failure else each.verdict,
            each.cluster,
            *(str(each.counts[verdict]) for verdict in reversed(Verdict)),
            printable(each.why),
        )
        for each in summary.clusters
    ]
    one = "'--config FILE --cluster NAME' has the whole report of one of them"
    return "\n".join([head, "", *aligned(table), "", one])
