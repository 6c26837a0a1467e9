"""What the actions over tables share: where the tables are, and whose they are."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from featuregate.cli.plugin import CommandError, local_path_argument
from featuregate.errors import ConfigError
from featuregate_fleet.files.storage import reached, storage_path, why_no_folder
from featuregate_fleet.tables.cluster_names import check_cluster_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from featuregate_fleet.evidence.line_counts import LineCounts
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms
    from featuregate_fleet.tables.folder import Tables


def add_tables_options(parser: argparse.ArgumentParser, *, of_all: str | None = None) -> None:
    """Add ``--tables``, ``--jars`` and ``--cluster``.

    ``of_all`` says what a command does without ``--cluster``, where it can do without.
    """
    _add_tables_folder(parser)
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
        help=f"your name of the cluster in the tables{of_all or ''}",
    )


def _add_tables_folder(parser: argparse.ArgumentParser) -> None:
    """Add ``--tables``."""
    parser.add_argument(
        "--tables",
        metavar="DIR",
        type=storage_argument,
        required=True,
        help="the folder of the tables, or its URI, such as s3://lake/kafka; with --checkpoints, a schema of Spark's "
        "catalog, such as main.kafka",
    )
    parser.add_argument(
        "--checkpoints",
        metavar="DIR",
        type=storage_argument,
        help="keep the tables in a catalog by name, and checkpoints and locks in this folder",
    )


def storage_argument(text: str) -> Path:
    """Parse the path of a folder of this machine, or the URI of one of a storage."""
    try:
        return storage_path("", text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.problem) from None


def cluster_name(text: str) -> str:
    """Parse the name of a cluster."""
    try:
        return check_cluster_name(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.problem) from None


def tables_folder(args: argparse.Namespace) -> Path:
    """Return the folder of ``--tables`` or of ``--checkpoints``, which need not exist yet."""
    option = _option_of(args)
    folder: Path = reached(option, args.checkpoints or args.tables)
    if folder.exists() and (problem := why_no_folder(folder)):
        raise CommandError(f"{option} {folder}: {problem}")
    return folder


def _option_of(args: argparse.Namespace) -> str:
    return "--checkpoints" if args.checkpoints else "--tables"


def existing_tables(args: argparse.Namespace) -> Path:
    """Return the folder of ``--tables`` or of ``--checkpoints``, in which a run has written.

    Raises
    ------
    CommandError
        There is no such folder: nothing is in it that could be kept small, listed, or removed.
    """
    folder = tables_folder(args)
    if not folder.exists():
        raise CommandError(
            f"{_option_of(args)} {folder}: there is no such folder: name the one of 'featuregate fleet run'"
        )
    return folder


def open_tables(spark: SparkSession, args: argparse.Namespace, names: Pseudonyms | None = None) -> Tables:
    """Return the tables that the options name."""
    from featuregate_fleet.tables.folder import Tables  # noqa: PLC0415 - Spark

    schema = str(args.tables) if args.checkpoints else None
    return Tables(spark, args.checkpoints or args.tables, args.cluster or "", names, schema)


def counts(found: LineCounts) -> str:
    """Say how many lines were read, and what became of them."""
    return f"{found.read} lines read: {found.rows} rows, {found.quarantined} in quarantine"
