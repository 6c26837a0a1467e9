"""``featuregate fleet run``: read log files into tables."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import (
    OK,
    UNKNOWN,
    CommandError,
    add_cluster_options,
    configuration,
    local_path_argument,
    positive_seconds,
    print_message,
)
from featuregate_fleet.commands.options.cluster_evidence import add_topic_options, cluster_view
from featuregate_fleet.commands.options.log_times import add_time_options, log_times
from featuregate_fleet.commands.options.principal_names import add_hash_option, pseudonyms
from featuregate_fleet.commands.options.tables import add_tables_options, tables_folder
from featuregate_fleet.commands.options.usage_reports import add_usage_topic
from featuregate_fleet.commands.progress import Progress, add_progress_option
from featuregate_fleet.commands.stop_signals import Stop, stop_signals
from featuregate_fleet.tables.kept_names import keep_names
from featuregate_fleet.tables.locks import one_writer

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View
    from featuregate_fleet.evidence.lines.log_lines import KeptLines
    from featuregate_fleet.stream.ingestion import Inputs

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
    parser.add_argument("--logs", metavar="DIR", type=local_path_argument, help="a folder for each broker")
    add_topic_options(parser)
    add_time_options(parser)
    add_usage_topic(parser)
    parser.add_argument("--keep-lines", action="store_true", help="keep a row for each line, too, without bodies")
    parser.add_argument("--keep-raw", action="store_true", help="the same with the text of each line, with bodies")
    add_hash_option(parser, "keep hashes of principals and addresses, by the key in a file or an environment variable")
    parser.add_argument("--format", type=_table_format, help=argparse.SUPPRESS)
    add_tables_options(parser)
    # The list of brokers comes from the cluster: a broker without evidence is unknown.
    add_cluster_options(parser, default=argparse.SUPPRESS)


def _table_format(text: str) -> str:
    """Refuse what an earlier version had: tables without transactions, which replay and retention could not change."""
    if text != "delta":
        raise argparse.ArgumentTypeError(
            f"tables are kept in Delta Lake, and not in {text!r}: leave out the option, and give other readers"
            " the output of readiness --output json"
        )
    return text


def run(args: argparse.Namespace) -> int:
    """Read each file once, and those that come later."""
    if not args.logs and not args.logs_topic:
        raise CommandError("fleet run reads logs: give --logs, --logs-topic or both")
    if args.logs and not args.logs.is_dir():
        raise CommandError(f"--logs {args.logs}: there is no such folder")
    if args.logs and args.tables.resolve().is_relative_to(args.logs.resolve()):
        raise CommandError(
            f"--tables {args.tables} is within --logs {args.logs}, and would be read as logs: move it out"
        )
    names = pseudonyms(args)
    if names and args.keep_raw:
        raise CommandError(
            "--keep-raw keeps principals in the clear: leave out --hash-principals, or take --keep-lines"
        )
    view = cluster_view(args)
    folder = tables_folder(args)
    from featuregate_fleet.stream.ingestion import Ingestion  # noqa: PLC0415 - Spark
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.delta import DeltaTables  # noqa: PLC0415 - likewise

    progress = Progress(args)
    # SIGTERM kills a run with --once, so that its exit code does not say that all was read.
    stopping = nullcontext(Stop()) if args.once else stop_signals()
    with (
        one_writer(folder, args.cluster),
        local_session(args.jars, topics=view is not None) as spark,
        stopping as stop,
    ):
        keep_names(folder, args.cluster, names)
        tables = DeltaTables(spark, folder, args.cluster, names)
        ingestion = Ingestion(spark, tables, _inputs(args, view), print_message)
        while True:
            progress.show(ingestion.read(view, stop.is_set))
            if args.once or stop.wait(args.interval):
                return UNKNOWN if ingestion.missing_evidence.paths else OK
            view = cluster_view(args)


def _inputs(args: argparse.Namespace, view: View | None) -> Inputs:
    from featuregate_fleet.stream.ingestion import Inputs  # noqa: PLC0415 - Spark

    return Inputs(
        cluster=args.cluster,
        logs=args.logs,
        config=configuration(args) if view else {},
        logs_topic=args.logs_topic,
        broker_header=args.broker_header,
        usage_topic=args.usage_topic,
        times=log_times(args),
        kept=_kept(args),
    )


def _kept(args: argparse.Namespace) -> KeptLines:
    from featuregate_fleet.evidence.lines.log_lines import KeptLines  # noqa: PLC0415 - pyarrow

    if args.keep_raw:
        return KeptLines.WHOLE
    return KeptLines.TYPED if args.keep_lines else KeptLines.NONE
