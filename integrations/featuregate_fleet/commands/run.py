"""``featuregate fleet run``: read log files into tables."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from featuregate.cli.plugin import OK, CommandError, add_cluster_options, print_message
from featuregate_fleet.commands.cluster_evidence import cluster_view, read_cluster
from featuregate_fleet.commands.tables_options import add_tables_options, counts, one_writer, tables_folder
from featuregate_fleet.commands.usage_reports import add_usage_topic, read_usage
from featuregate_fleet.evidence.paths import IN_UTC, OTHERS, broker_of

__all__ = ["DESCRIPTION", "add_options", "run"]

DESCRIPTION: Final = """\
Read each file below DIR once, and count the requests in it. On the brokers, set the logger kafka.request.logger to
DEBUG, and copy files here once they are rolled: a file is read once, and what is appended to it later is not. Files may
be gzipped. A run that was killed is finished by the next one.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``run``."""
    parser.add_argument("--once", action="store_true", required=True, help="read what is there, and end")
    parser.add_argument("--logs", metavar="DIR", type=Path, required=True, help="a folder for each broker")
    parser.add_argument(
        "--time-zone",
        metavar="[BROKER=]ZONE",
        type=_time_zone,
        action="append",
        default=[],
        help="the zone in which brokers log, such as Europe/Berlin, or that of one broker (default: UTC)",
    )
    add_usage_topic(parser)
    add_tables_options(parser)
    # The list of brokers comes from the cluster: a broker without evidence is unknown.
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _time_zone(text: str) -> tuple[str, str]:
    """Return the broker, or `OTHERS`, and the zone."""
    broker, _, zone = text.rpartition("=")
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise argparse.ArgumentTypeError(f"{zone!r} is no time zone: take one such as Europe/Berlin") from None
    return broker or OTHERS, zone


def run(args: argparse.Namespace) -> int:
    """Read each file once."""
    if not args.logs.is_dir():
        raise CommandError(f"--logs {args.logs}: there is no such folder")
    folders, view = _folders(args.logs), cluster_view(args)
    folder = tables_folder(args)
    from featuregate_fleet.stream.request_logs import drain, grown_files  # noqa: PLC0415 - Spark
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.delta import DeltaTables  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.reader import read_evidence  # noqa: PLC0415 - likewise

    with one_writer(folder, args.cluster), local_session() as spark:
        tables = DeltaTables(spark, folder, args.cluster)
        tables.expect(folders, {str(broker.node_id) for broker in view.brokers} if view else None)
        drain(spark, args.logs, tables, IN_UTC | dict(args.time_zone))
        for path in grown_files(args.logs, tables):
            print_message(f"{path} has grown since it was read, and the rest is not read: hand in rolled files")
        if view:
            read_cluster(args, spark, view, tables)
            read_usage(args, spark, tables, view.cluster_id)
        evidence = read_evidence(tables)
    print(f"{args.cluster}: {counts(evidence)}")
    return OK


def _folders(logs: Path) -> set[str]:
    return {path.name for path in logs.iterdir() if path.is_dir() and broker_of(f"{path.name}/file")}
