"""``featuregate fleet run``: read request logs into the table of a cluster."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import OK, UNKNOWN, add_cluster_options, positive_seconds, print_message
from featuregate.jars.progress import shown_on_a_terminal
from featuregate_fleet.commands.options.evidence import add_evidence_options, check_logs, cluster_view, inputs
from featuregate_fleet.commands.options.principal_names import pseudonyms
from featuregate_fleet.commands.options.tables import add_tables_options, named_as_options, open_table, tables_place
from featuregate_fleet.commands.stop_signals import stop_of_run
from featuregate_fleet.files.storage import on_s3

if TYPE_CHECKING:
    from featuregate_fleet.runs.ingestion import Ingested

DESCRIPTION: Final = """\
Read what is new in the files below DIR, and count the requests in it, until SIGTERM or Ctrl-C. On the brokers, set the
logger kafka.request.logger to DEBUG. Files may grow, be renamed, and be gzipped: each line is read once. A run that was
killed is finished by the next one. A file of which no line is understood, or that cannot be read to its end, is named,
and the exit code is 2.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``run``."""
    parser.add_argument("--once", action="store_true", help="read what is there, and end")
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=positive_seconds,
        default=60.0,
        help="wait SECONDS before looking for what is new (default: 60)",
    )
    add_evidence_options(parser)
    add_tables_options(parser)
    # The list of brokers comes from the cluster: a broker without evidence is unknown.
    add_cluster_options(parser, default=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Read what is there, and what comes later."""
    check_logs(args)
    names = pseudonyms(args)
    view = cluster_view(args)
    place = tables_place(args)
    from featuregate_fleet.runs.ingestion import Ingestion  # noqa: PLC0415 - Spark
    from featuregate_fleet.runs.session import local_session  # noqa: PLC0415 - likewise

    session = local_session(args.jars, topics=view is not None, s3=on_s3(place, args.logs))
    with session as spark, named_as_options(), stop_of_run(args) as stop:
        ingestion = Ingestion(spark, open_table(spark, args), inputs(args, view, names), print_message)
        before: Ingested | None = None
        while True:
            with shown_on_a_terminal("reading", ingestion.state):
                found = ingestion.read(view, stop.is_set)
            if before is None or found.read:
                print(f"{args.cluster}: {counts(found)}", flush=True)
            if args.once or stop.wait(args.interval):
                return UNKNOWN if ingestion.missing_files else OK
            before, view = found, cluster_view(args)


def counts(found: Ingested) -> str:
    """Say how many lines were read, and what became of them."""
    said = f"{found.read} lines read: {found.rows} rows, {found.quarantined} in quarantine"
    read, rows, quarantined = found.totals
    if read == found.read:
        return said
    return f"{said}; in all runs {read} lines: {rows} rows, {quarantined} in quarantine"
