"""The options over tables and logs: where tables are, whose they are, the key of names, and how logs write times."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from featuregate.cli.plugin import CommandError, argument, option
from featuregate.errors import ConfigError
from featuregate.version import how_to_install
from featuregate_fleet.evidence.lines.times import check_layout
from featuregate_fleet.evidence.paths import LogTimes
from featuregate_fleet.evidence.pseudonyms import Pseudonyms
from featuregate_fleet.files.storage import on_s3, reached, storage_path, why_no_folder
from featuregate_fleet.readiness.moves import MOVES
from featuregate_fleet.tables.table_names import CATALOG, check_cluster_name

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

OF_BROKERS: Final = ("to", "downgrade-to", "drop-api")
"""The moves that change which API versions brokers serve: requests alone say what they break."""
_OPTIONS: Final = {
    "tables": "--tables",
    "cluster": "--cluster",
    "logs": "--logs",
    "older_than": "--older-than",
    "pseudonyms": "--hash-principals",
}
"""The options of the parameters of `featuregate_fleet.Fleet`."""
_OF_ENVIRONMENT: Final = "env:"
_EXAMPLE: Final = "%d-%m-%Y %H:%M:%S"


def add_moves(parser: argparse.ArgumentParser, names: Iterable[str] = MOVES) -> None:
    """Add the options of which exactly one is given. ``move`` holds its value."""
    moves = parser.add_argument_group("the move, one of").add_mutually_exclusive_group(required=True)
    for name in names:
        move = MOVES[name]
        option(moves, f"--{name} {move.form}", move.meaning, type=argument(move.read), dest="move")


def add_tables_options(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, *, of_all: str | None = None, required: bool = True
) -> None:
    """Add ``--tables``, ``--jars`` and ``--cluster``.

    ``of_all`` says what a command does without ``--cluster``, where it can do without.
    """
    tables = (
        "the folder with a table for each cluster, or its URI, such as s3://lake/kafka, or a schema of Spark's "
        f"catalog, such as {CATALOG}main.kafka"
    )
    option(parser, "--tables DIR", tables, type=tables_argument, required=required)
    jars = "the folder with the jars of Delta Lake and of Spark's Kafka connector, where they cannot be downloaded"
    option(parser, "--jars DIR", jars)
    name, is_needed = f"your name of the cluster, and of its table{of_all or ''}", required and of_all is None
    option(parser, "--cluster NAME", name, type=argument(check_cluster_name), required=is_needed)


def check_one_evidence(args: argparse.Namespace) -> None:
    """Refuse tables together with metrics that are not in them, and tables without the name of a cluster."""
    if args.tables and (args.metrics or args.prometheus):
        raise CommandError("give one of --metrics, --prometheus and --tables: 'featuregate fleet run' joins them")
    if args.tables and not args.cluster:
        raise CommandError("--tables has a table for each cluster: give --cluster, too")


storage_argument = argument(partial(storage_path, ""))
"""Parses the path of a folder of this machine, or the URI of one of a storage."""


def tables_argument(text: str) -> Path | str:
    """Parse the same, or the name of a schema behind ``catalog:``."""
    return text if text.startswith(CATALOG) else storage_argument(text)


def tables_place(args: argparse.Namespace) -> Path | str:
    """Return the folder of ``--tables``, which need not exist yet, or the name of a schema behind ``catalog:``."""
    if isinstance(args.tables, str):
        return args.tables
    folder: Path = reached("--tables", args.tables)
    if folder.exists() and (problem := why_no_folder(folder)):
        raise CommandError(f"--tables {folder}: {problem}")
    return folder


def existing_tables(args: argparse.Namespace) -> Path | str:
    """Return the same, where a run has written. Raises CommandError."""
    place = tables_place(args)
    if not isinstance(place, str) and not place.exists():
        raise CommandError(f"--tables {place}: there is no such folder: name the one of 'featuregate fleet run'")
    return place


@contextmanager
def spark_session(
    args: argparse.Namespace, place: Path | str, *others: Path | None, topics: bool = False
) -> Iterator[SparkSession]:
    """Start Spark for the tables and for other folders that a command reads.

    An error that names a parameter of Python names its option.
    """
    from featuregate_fleet.runs.session import local_session  # noqa: PLC0415 - Spark

    with local_session(args.jars, topics=topics, s3=on_s3(place, *others)) as spark:
        try:
            yield spark
        except ConfigError as error:
            if error.key in _OPTIONS:
                raise CommandError(f"{_OPTIONS[error.key]}: {error.problem}") from error
            raise


# ---------------------------------------------------------------- names


def add_hash_option(parser: argparse.ArgumentParser, summary: str) -> None:
    """Add ``--hash-principals``."""
    option(parser, "--hash-principals FILE|env:NAME", summary)


def pseudonyms(args: argparse.Namespace) -> Pseudonyms | None:
    """Return the hashes of the key that the option names; None without the option."""
    where: str | None = args.hash_principals
    if where is None:
        return None
    key = _key(where).strip()
    try:
        return Pseudonyms(key)
    except ConfigError as error:
        raise CommandError(f"--hash-principals {where}: {error.problem}") from None


def _key(where: str) -> bytes:
    if where.startswith(_OF_ENVIRONMENT):
        return os.environ.get(where.removeprefix(_OF_ENVIRONMENT), "").encode()
    try:
        return reached("--hash-principals", storage_path("--hash-principals", where)).read_bytes()
    except OSError as error:
        raise CommandError(f"--hash-principals {where}: the key cannot be read: {error.strerror}") from error


# ---------------------------------------------------------------- how brokers write times


def add_time_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--time-zone`` and ``--layout``."""
    zone = "the zone in which brokers log, such as Europe/Berlin (default: UTC)"
    option(parser, "--time-zone ZONE", zone, type=argument(_time_zone), default="UTC")
    layout = f"how brokers write a time that has no meaning otherwise, such as '{_EXAMPLE}'"
    option(parser, "--layout FORMAT", layout.replace("%", "%%"), type=argument(_layout))


def log_times(args: argparse.Namespace) -> LogTimes:
    """Return how brokers write times."""
    return LogTimes(args.time_zone, args.layout or "")


def _time_zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{text!r} is not a time zone: take one such as Europe/Berlin") from None
    return text


def _layout(text: str) -> str:
    try:
        check_layout(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a layout of a time: {error}. Write one such as {_EXAMPLE!r}") from None
    return text


@contextmanager
def needs_extra(action: str, extra: str) -> Iterator[None]:
    """Name the extra: commands import what it brings where they need it, by modules of any room."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in {"pyspark", "pyarrow", "py4j", "prometheus_client", "requests"}:
            raise CommandError(f"{action} needs {missing}: {how_to_install(extra)}") from error
        raise
