"""What the actions over tables share: where the tables are, and whose they are."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import CommandError, local_path_argument
from featuregate.errors import ConfigError
from featuregate_fleet.files.storage import reached, storage_path, why_no_folder
from featuregate_fleet.tables.cluster_names import check_cluster_name
from featuregate_fleet.tables.table_names import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from featuregate_fleet.tables.evidence_table import EvidenceTable

_OPTIONS: Final = {
    "tables": "--tables",
    "cluster": "--cluster",
    "logs": "--logs",
    "older_than": "--older-than",
    "pseudonyms": "--hash-principals",
}
"""The options of the parameters of `featuregate_fleet.Fleet`."""


def add_tables_options(parser: argparse.ArgumentParser, *, of_all: str | None = None) -> None:
    """Add ``--tables``, ``--jars`` and ``--cluster``.

    ``of_all`` says what a command does without ``--cluster``, where it can do without.
    """
    parser.add_argument(
        "--tables",
        metavar="DIR",
        type=tables_argument,
        required=True,
        help="the folder with a table for each cluster, or its URI, such as s3://lake/kafka, or a schema of Spark's "
        f"catalog, such as {CATALOG}main.kafka",
    )
    parser.add_argument(
        "--jars",
        metavar="DIR",
        type=local_path_argument,
        help="the folder with the jars of Delta Lake and of Spark's Kafka connector, where they cannot be downloaded",
    )
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        type=cluster_name,
        required=of_all is None,
        help=f"your name of the cluster, and of its table{of_all or ''}",
    )


def storage_argument(text: str) -> Path:
    """Parse the path of a folder of this machine, or the URI of one of a storage."""
    try:
        return storage_path("", text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.problem) from None


def tables_argument(text: str) -> Path | str:
    """Parse the same, or the name of a schema behind ``catalog:``."""
    return text if text.startswith(CATALOG) else storage_argument(text)


def cluster_name(text: str) -> str:
    """Parse the name of a cluster."""
    try:
        return check_cluster_name(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.problem) from None


def tables_place(args: argparse.Namespace) -> Path | str:
    """Return the folder of ``--tables``, which need not exist yet, or the name of a schema behind ``catalog:``."""
    if isinstance(args.tables, str):
        return args.tables
    folder: Path = reached("--tables", args.tables)
    if folder.exists() and (problem := why_no_folder(folder)):
        raise CommandError(f"--tables {folder}: {problem}")
    return folder


def existing_tables(args: argparse.Namespace) -> Path | str:
    """Return the same, where a run has written.

    Raises
    ------
    CommandError
        There is no such folder: nothing is in it that could be kept small, listed, or removed.
    """
    place = tables_place(args)
    if not isinstance(place, str) and not place.exists():
        raise CommandError(f"--tables {place}: there is no such folder: name the one of 'featuregate fleet run'")
    return place


def open_table(spark: SparkSession, args: argparse.Namespace) -> EvidenceTable:
    """Return the table that the options name."""
    from featuregate_fleet.tables.evidence_table import EvidenceTable  # noqa: PLC0415 - Spark

    with named_as_options():
        return EvidenceTable(spark, args.tables, args.cluster)


@contextmanager
def named_as_options() -> Iterator[None]:
    """Name the option where an error names the parameter of Python."""
    try:
        yield
    except ConfigError as error:
        if error.key in _OPTIONS:
            raise CommandError(f"{_OPTIONS[error.key]}: {error.problem}") from error
        raise
