"""``featuregate fleet run``: read log files into tables."""

from __future__ import annotations

import argparse
from typing import Final

from featuregate.cli.plugin import OK, UNKNOWN, add_cluster_options, positive_seconds, print_message
from featuregate.jars.progress import shown_on_a_terminal
from featuregate_fleet.commands.options.evidence import add_evidence_options, checked_names, cluster_view, inputs
from featuregate_fleet.commands.options.tables import add_tables_options, open_tables, tables_folder
from featuregate_fleet.commands.progress import Progress, add_progress_option
from featuregate_fleet.commands.stop_signals import stop_of_run
from featuregate_fleet.files.storage import on_s3
from featuregate_fleet.tables.kept_names import keep_names
from featuregate_fleet.tables.locks import one_writer

DESCRIPTION: Final = """\
Read each file below DIR once, and count the requests in it, until SIGTERM or Ctrl-C. On the brokers, set the logger
kafka.request.logger to DEBUG, and copy files here once they are rolled: a file is read once, and what is appended to it
later is not. Files may be gzipped. A run that was killed is finished by the next one. A file of which no line is
understood, or that cannot be read to its end, is named, and the exit code is 2.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``run``."""
    parser.add_argument("--once", action="store_true", help="read what is there, and end")
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=positive_seconds,
        default=60.0,
        help="wait SECONDS before looking for new files (default: 60)",
    )
    add_progress_option(parser)
    add_evidence_options(parser)
    add_tables_options(parser)
    # The list of brokers comes from the cluster: a broker without evidence is unknown.
    add_cluster_options(parser, default=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Read each file once, and those that come later."""
    names = checked_names(args)
    view = cluster_view(args)
    folder = tables_folder(args)
    from featuregate_fleet.stream.ingestion import Ingestion  # noqa: PLC0415 - Spark
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - likewise

    progress = Progress(args)
    with (
        one_writer(folder, args.cluster),
        local_session(args.jars, topics=view is not None, s3=on_s3(folder, args.logs)) as spark,
        stop_of_run(args) as stop,
    ):
        keep_names(folder, args.cluster, names)
        tables = open_tables(spark, args, names)
        ingestion = Ingestion(spark, tables, inputs(args, view), print_message)
        while True:
            with shown_on_a_terminal("reading", ingestion.state):
                found = ingestion.read(view, stop.is_set)
            progress.show(found)
            if args.once or stop.wait(args.interval):
                return UNKNOWN if ingestion.missing_files else OK
            view = cluster_view(args)
