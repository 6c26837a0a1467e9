"""``featuregate fleet run``: read log files into tables."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import OK, UNKNOWN, CommandError, add_cluster_options, local_path_argument, positive_seconds
from featuregate_fleet.commands.options.cluster_evidence import (
    add_topic_options,
    check_same_cluster,
    cluster_view,
    read_cluster,
    read_log_topic,
)
from featuregate_fleet.commands.options.log_times import add_time_options, log_times
from featuregate_fleet.commands.options.principal_names import add_hash_option, keep_names, pseudonyms
from featuregate_fleet.commands.options.tables import add_tables_options, one_writer, tables_folder
from featuregate_fleet.commands.options.usage_reports import add_usage_topic, read_usage
from featuregate_fleet.commands.progress import Progress, add_progress_option
from featuregate_fleet.commands.stop_signals import Stop, stop_signals
from featuregate_fleet.commands.unread_files import MissingEvidence, UnreadFiles
from featuregate_fleet.evidence.paths import broker_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from featuregate.view.cluster_view import View
    from featuregate_fleet.evidence.lines.log_lines import KeptLines
    from featuregate_fleet.stream.read_files import ReadFiles
    from featuregate_fleet.tables.folder import Tables

DESCRIPTION: Final = """\
Read each file below DIR once, and count the requests in it, until SIGTERM or Ctrl-C. On the brokers, set the logger
kafka.request.logger to DEBUG, and copy files here once they are rolled: a file is read once, and what is appended to it
later is not. Files may be gzipped. A run that was killed is finished by the next one. A file of which no line is
understood, or that cannot be read to its end, is named, and the exit code is 2.\
"""

_BROKEN: Final = "the tables cannot be read or written, and the next run continues"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``run``."""
    parser.add_argument("--once", action="store_true", help="read what is there, and end")
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=positive_seconds,
        default=60.0,
        help="wait so long before looking for new files (default: 60)",
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
    from featuregate_fleet.stream.read_files import ReadFiles  # noqa: PLC0415 - Spark
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.delta import DeltaTables  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.failures import one_line_failures  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.line_counts import read_line_counts  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.record_reader import last_view  # noqa: PLC0415 - likewise

    progress, failures, missing_evidence = Progress(args), one_line_failures(_BROKEN), MissingEvidence()
    # SIGTERM kills a run with --once, so that its exit code does not say that all was read.
    stopping = nullcontext(Stop()) if args.once else stop_signals()
    with (
        one_writer(folder, args.cluster),
        local_session(args.jars, topics=view is not None) as spark,
        stopping as stop,
        failures,
    ):
        keep_names(args, names)
        tables = DeltaTables(spark, folder, args.cluster, names)
        files = ReadFiles.of(tables) if args.logs else None  # once: a trigger costs what is new, however old the run
        unread = UnreadFiles(args.logs, files, tables) if files else None
        before = last_view(tables) if view else None
        while True:
            check_same_cluster(args.cluster, before, view)
            _read(args, spark, view, tables, stop, files, missing_evidence)
            if unread:
                unread.look()
            progress.show(read_line_counts(tables))
            if args.once or stop.wait(args.interval):
                return UNKNOWN if missing_evidence.any else OK
            before, view = view or before, cluster_view(args)


def _read(
    args: argparse.Namespace,
    spark: SparkSession,
    view: View | None,
    tables: Tables,
    stop: Stop,
    files: ReadFiles | None,
    missing_evidence: MissingEvidence,
) -> None:
    """Read what was not read before."""
    from featuregate_fleet.stream.request_logs import drain  # noqa: PLC0415 - Spark

    times = log_times(args)
    folders = _folders(args.logs) if args.logs else ()
    tables.expect(folders, {str(broker.node_id) for broker in view.brokers} if view else None)
    if args.logs:
        drain(spark, args.logs, tables, times, stop.is_set, _kept(args), files, missing_evidence.report)
    if args.logs_topic and not stop.is_set():
        read_log_topic(args, spark, tables, times, stop.is_set, _kept(args), missing_evidence.report)
    if view and not stop.is_set():
        read_cluster(args, spark, view, tables)
        read_usage(args, spark, tables, view.cluster_id)


def _kept(args: argparse.Namespace) -> KeptLines:
    from featuregate_fleet.evidence.lines.log_lines import KeptLines  # noqa: PLC0415 - pyarrow

    if args.keep_raw:
        return KeptLines.WHOLE
    return KeptLines.TYPED if args.keep_lines else KeptLines.NONE


def _folders(logs: Path) -> set[str]:
    return {path.name for path in logs.iterdir() if path.is_dir() and broker_of(f"{path.name}/file")}
