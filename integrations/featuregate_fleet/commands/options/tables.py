"""What the actions over tables share: where the tables are, whose they are, and one writer at a time."""

from __future__ import annotations

import argparse
import re
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import UNKNOWN, CommandError, local_path_argument

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from featuregate_fleet.evidence.line_counts import LineCounts

_REPORTS: Final = "all reports"
"""In place of a cluster, whose name has no spaces."""
_REPORT_SECONDS: Final = 60.0

_CLUSTER: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def add_tables_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--tables`` and ``--cluster``."""
    parser.add_argument(
        "--tables", metavar="DIR", type=local_path_argument, required=True, help="the folder of the tables"
    )
    parser.add_argument(
        "--jars",
        metavar="DIR",
        type=local_path_argument,
        help="the folder with the jars of Delta Lake and of Spark's Kafka connector, where they cannot be downloaded",
    )
    parser.add_argument(
        "--cluster", metavar="NAME", type=_cluster, required=True, help="your name of the cluster in the tables"
    )


def _cluster(text: str) -> str:
    if not _CLUSTER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name: use letters, digits, '-', '_' and '.'")
    return text


def tables_folder(args: argparse.Namespace) -> Path:
    """Return ``--tables``, which need not exist yet."""
    folder: Path = args.tables
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"--tables {folder}: this is not a folder")
    return folder


def counts(found: LineCounts) -> str:
    """Say how many lines were read, and what became of them."""
    return f"{found.read} lines read: {found.rows} rows, {found.quarantined} in quarantine"


def one_writer(tables: Path, cluster: str) -> AbstractContextManager[None]:
    """Refuse a second run over the same tables, which would share the checkpoint of the first one."""
    tables.mkdir(parents=True, exist_ok=True)
    return alone(tables / f".{cluster}.lock", f"another run writes the tables of {cluster}: wait for its end")


def adding_report(tables: Path) -> AbstractContextManager[None]:
    """Let one process at a time add a report; a run may go on meanwhile, and retain, forget and compact may not."""
    busy = f"the report was not kept: another process has been writing the table readiness for {_REPORT_SECONDS:g} s"
    return alone(tables / f".{_REPORTS}.lock", busy, _REPORT_SECONDS)


@contextmanager
def no_other_writer(tables: Path, cluster: str) -> Iterator[None]:
    """Refuse all runs over these tables, also those of other clusters: files that they are writing would vanish."""
    with ExitStack() as locks:
        locks.enter_context(one_writer(tables, cluster))
        others = {lock.name[1 : -len(".lock")] for lock in tables.glob(".*.lock")} | {_REPORTS}
        for other in sorted(others - {cluster}):
            locks.enter_context(one_writer(tables, other))
        yield


@contextmanager
def alone(lock: Path, otherwise: str, seconds: float = 0) -> Iterator[None]:
    """Hold a lock, or fail after some seconds with what the caller says."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 - --help needs none

    held = FileLock(lock, timeout=seconds)
    try:
        held.acquire()
    except Timeout:
        raise CommandError(otherwise, UNKNOWN) from None
    except OSError as error:  # a disk that is full, or one that may not be written
        raise CommandError(f"{lock} cannot be written: {error.strerror}", UNKNOWN) from error
    try:
        yield
    finally:
        held.release()
