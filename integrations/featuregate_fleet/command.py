"""``featuregate fleet``: collect evidence, and say whether a move is safe. Light: Spark is imported when needed."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import argparse
import json
import re
import signal
import threading
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from featuregate.catalog import captured, release_of
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
    positive_seconds,
    print_message,
    printable,
)
from featuregate_fleet.evidence.paths import IN_UTC, OTHERS, broker_of
from featuregate_fleet.files.bodies import cut_bodies
from featuregate_fleet.files.segments import Segmenter
from featuregate_fleet.readiness.page import to_html
from featuregate_fleet.readiness.report import assess
from featuregate_fleet.readiness.rows import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from featuregate_fleet.readiness.evidence import Evidence
    from featuregate_fleet.readiness.report import Report

__all__ = ["HELP", "add_options", "run"]

NO_VERDICT: Final = 3
"""The evidence is missing or too old."""
_EXIT_CODES: Final = {Verdict.OK: OK, Verdict.WARN: OK, Verdict.BLOCK: FAILED}
_STALE_AFTER: Final = 168.0
_CLUSTER: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")

HELP: Final = CommandHelp(
    "say from request logs which clients a move to another release would break",
    """\
Collect evidence of which clients use which API versions from the request logs of brokers, and say whether the cluster
can move to another release. Needs the extra 'fleet', and Java 17 or newer.

'run' reads log files into tables: DIR/<broker id>/ holds the files of one broker. 'readiness' reads the tables. Without
evidence its verdict is unknown, never ok.""",
    (
        "fleet collect --log /var/log/kafka/kafka-request.log --broker 1 --logs logs",
        "fleet run --once --logs logs --tables tables --cluster orders",
        "fleet run --once --logs logs --tables tables --cluster orders --bootstrap-server localhost:9092",
        "fleet replay --tables tables --cluster orders",
        "fleet readiness --tables tables --cluster orders --to 4.2",
        "fleet readiness --tables tables --cluster orders --to 4.2 --output json",
        "fleet readiness --tables tables --cluster orders --to 4.2 --html report.html",
    ),
    "0 done, ok or warnings; 1 a client blocks the move; 3 unknown or stale; 2 the evidence or the brokers cannot be "
    "read, or the page cannot be written; 64 wrong usage",
)

_RUN: Final = """\
Read each file below DIR once, and count the requests in it. On the brokers, set the logger kafka.request.logger to
DEBUG, and copy files here once they are rolled: a file is read once, and what is appended to it later is not. Files may
be gzipped. A run that was killed is finished by the next one.\
"""
_COLLECT: Final = """\
Cut the live log of a broker on this host into files below DIR/ID, whole lines each, until SIGTERM or Ctrl-C. The log
must be rotated by renaming, which is what Kafka's own configuration does. A restart goes on where the last run ended.\
"""
_REPLAY: Final = """\
Parse lines again that an older parser put into quarantine, and read files again that could not be read: restore them
under their names before. What is understood now leaves the quarantine.\
"""
_READINESS: Final = """\
Compare the API versions that clients used with those that the target release serves. Any row that blocks blocks the
move. A verdict says nothing of clients that did not connect while the brokers logged.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add ``collect``, ``run``, ``replay`` and ``readiness``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    _add_collect_options(
        actions.add_parser("collect", help="cut a live log into files for 'run'", description=_COLLECT)
    )
    collecting = actions.add_parser("run", help="read log files into tables", description=_RUN)
    collecting.add_argument("--once", action="store_true", required=True, help="read what is there, and end")
    collecting.add_argument("--logs", metavar="DIR", type=Path, required=True, help="a folder for each broker")
    collecting.add_argument(
        "--time-zone",
        metavar="[BROKER=]ZONE",
        type=_time_zone,
        action="append",
        default=[],
        help="the zone in which brokers log, such as Europe/Berlin, or that of one broker (default: UTC)",
    )
    replaying = actions.add_parser("replay", help="parse again what is in quarantine", description=_REPLAY)
    readiness = actions.add_parser("readiness", help="say whether a move is safe", description=_READINESS)
    readiness.add_argument("--to", metavar="RELEASE", type=_release, required=True, help="the target, such as 4.2")
    readiness.add_argument(
        "--stale-after",
        metavar="HOURS",
        type=positive_seconds,
        default=_STALE_AFTER,
        help="evidence that is older than this is stale (default: 168, a week)",
    )
    add_output(readiness, "a table, or one JSON object")
    readiness.add_argument("--html", metavar="FILE", type=Path, help="write the report as one HTML page, too")
    for action in (collecting, replaying, readiness):
        action.add_argument("--tables", metavar="DIR", type=Path, required=True, help="the folder of the tables")
        action.add_argument(
            "--cluster", metavar="NAME", type=_cluster, required=True, help="your name of the cluster in the tables"
        )
    # The list of brokers comes from the cluster: a broker without evidence is unknown.
    add_cluster_options(collecting, default=argparse.SUPPRESS)


def _release(text: str) -> str:
    release = release_of(text)
    if release not in captured():
        raise argparse.ArgumentTypeError(f"{text!r} is none of the known releases: {', '.join(captured())}")
    return release


def _add_collect_options(collect: argparse.ArgumentParser) -> None:
    collect.add_argument("--log", metavar="FILE", type=Path, required=True, help="the file to which the broker appends")
    collect.add_argument("--broker", metavar="ID", type=_broker, required=True, help="the node id of the broker")
    collect.add_argument("--logs", metavar="DIR", type=Path, required=True, help="takes files below DIR/ID")
    collect.add_argument("--once", action="store_true", help="collect what is there, and end")
    collect.add_argument(
        "--interval",
        metavar="SECONDS",
        type=positive_seconds,
        default=60.0,
        help="write a file this often (default: 60)",
    )
    collect.add_argument("--cut-bodies", action="store_true", help="leave out the bodies of requests and responses")


def _broker(text: str) -> str:
    if broker_of(f"{text}/file") != text:
        raise argparse.ArgumentTypeError(f"{text!r} is no node id")
    return text


def _time_zone(text: str) -> tuple[str, str]:
    """Return the broker, or `OTHERS`, and the zone."""
    broker, _, zone = text.rpartition("=")
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise argparse.ArgumentTypeError(f"{zone!r} is no time zone: take one such as Europe/Berlin") from None
    return broker or OTHERS, zone


def _cluster(text: str) -> str:
    if not _CLUSTER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name: use letters, digits, '-', '_' and '.'")
    return text


def run(args: argparse.Namespace) -> int:
    """Run one action."""
    return {"collect": _collect, "run": _run, "replay": _replay, "readiness": _readiness}[args.action](args)


def _collect(args: argparse.Namespace) -> int:
    folder = args.logs / args.broker
    try:
        folder.mkdir(parents=True, exist_ok=True)
        segmenter = Segmenter(args.log, folder, cut_bodies if args.cut_bodies else bytes)
        with _alone(folder / ".lock", f"another process collects into {folder}: end it first"), closing(segmenter):
            if not args.log.is_file():
                print_message(f"{args.log}: there is no such file yet")
            with _stop_signals() as stop:
                while True:
                    for name in segmenter.collect():
                        print(folder / name, flush=True)
                    if args.once or stop.wait(args.interval):
                        return OK
    except OSError as error:
        raise CommandError(f"the log cannot be collected: {error}", UNKNOWN) from error


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Set an event by SIGTERM or Ctrl-C, in place of ending in the middle of a file."""
    stop = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _run(args: argparse.Namespace) -> int:
    if not args.logs.is_dir():
        raise CommandError(f"--logs {args.logs}: there is no such folder")
    folders, listed = _folders(args.logs), _listed_brokers(args)
    tables_folder = _folder(args)
    from featuregate_fleet.stream.request_logs import drain, grown_files  # noqa: PLC0415 - Spark
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.delta import DeltaTables  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.reader import read_evidence  # noqa: PLC0415 - likewise

    with _one_at_a_time(tables_folder, args.cluster), local_session() as spark:
        tables = DeltaTables(spark, tables_folder, args.cluster)
        tables.expect(folders, listed)
        drain(spark, args.logs, tables, IN_UTC | dict(args.time_zone))
        for path in grown_files(args.logs, tables):
            print_message(f"{path} has grown since it was read, and the rest is not read: hand in rolled files")
        evidence = read_evidence(tables)
    print(f"{args.cluster}: {_counts(evidence)}")
    return OK


def _replay(args: argparse.Namespace) -> int:
    tables_folder = _folder(args)
    from featuregate_fleet.stream.quarantine import replay  # noqa: PLC0415 - Spark
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.delta import DeltaTables  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.reader import read_evidence  # noqa: PLC0415 - likewise

    with _one_at_a_time(tables_folder, args.cluster), local_session() as spark:
        tables = DeltaTables(spark, tables_folder, args.cluster)
        tried = replay(spark, tables)
        evidence = read_evidence(tables)
    print(f"{args.cluster}: {tried} lines and files tried again; {_counts(evidence)}")
    return OK


def _counts(evidence: Evidence) -> str:
    quarantined = sum(evidence.quarantined.values())
    return f"{evidence.read} lines read: {evidence.rows} rows, {quarantined} in quarantine"


def _one_at_a_time(tables: Path, cluster: str) -> AbstractContextManager[None]:
    """Refuse a second run over the same tables, which would share the checkpoint of the first one."""
    tables.mkdir(parents=True, exist_ok=True)
    return _alone(tables / f".{cluster}.lock", f"another run writes the tables of {cluster}: wait for its end")


@contextmanager
def _alone(lock: Path, otherwise: str) -> Iterator[None]:
    from filelock import FileLock, Timeout  # noqa: PLC0415 - --help needs none

    try:
        with FileLock(lock, timeout=0):
            yield
    except Timeout:
        raise CommandError(otherwise, UNKNOWN) from None


def _folders(logs: Path) -> set[str]:
    return {path.name for path in logs.iterdir() if path.is_dir() and broker_of(f"{path.name}/file")}


def _listed_brokers(args: argparse.Namespace) -> set[str] | None:
    """Ask the cluster for its brokers, if the options name one."""
    if args.bootstrap_controller or args.broker_list == "bootstrap":
        raise CommandError("fleet run needs the ids of the brokers: give --bootstrap-server and no --broker-list")
    if not args.bootstrap_server and not args.command_config:
        return None
    return {str(broker.node_id) for broker in discover_view(args).brokers}


def _readiness(args: argparse.Namespace) -> int:
    tables_folder = _folder(args)
    if args.html and (args.html.is_dir() or not args.html.parent.is_dir()):
        raise CommandError(f"--html {args.html}: this is a folder, or is in a folder that does not exist")
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - Spark
    from featuregate_fleet.tables.delta import DeltaTables  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.reader import read_evidence  # noqa: PLC0415 - likewise

    with local_session() as spark:
        evidence = read_evidence(DeltaTables(spark, tables_folder, args.cluster))
    stale_after = timedelta(hours=args.stale_after)
    report = assess(evidence, captured()[args.to], datetime.now(UTC), stale_after)
    print(json.dumps(report.to_json(), indent=2) if args.output == "json" else _to_text(args, report))
    if args.html:
        _write_whole(args.html, to_html(report, args.cluster))
    return _EXIT_CODES.get(report.verdict, NO_VERDICT)


def _write_whole(file: Path, text: str) -> None:
    """Write a file in one step, so that nobody reads half of it. A file that was there stays if that fails."""
    try:
        with TemporaryDirectory(dir=file.parent, prefix=".fleet-") as folder:
            half = Path(folder, "page")
            half.write_text(text, encoding="utf-8")
            half.replace(file)
    except OSError as error:
        raise CommandError(f"--html {file}: the page cannot be written: {error.strerror}", UNKNOWN) from error


def _folder(args: argparse.Namespace) -> Path:
    folder: Path = args.tables
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"--tables {folder}: this is not a folder")
    return folder


def _to_text(args: argparse.Namespace, report: Report) -> str:
    head = f"{args.cluster} to Kafka {args.to}: {report.verdict}"
    table = [("VERDICT", "CHECK", "WHO", "WHY")]
    table += [(row.verdict, row.check, printable(row.subject), printable(row.why)) for row in report.rows]
    todo = dict.fromkeys(row.do for row in report.rows if row.do)
    return "\n".join([head, "", *aligned(table), *([""] if todo else []), *map(printable, todo)])
