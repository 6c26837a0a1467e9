"""``featuregate fleet retain`` and ``forget``: remove rows, after a dry run that says which."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from featuregate.cli.plugin import OK, CommandError
from featuregate.errors import ConfigError
from featuregate_fleet.commands.options.tables import add_tables_options, existing_tables, open_tables
from featuregate_fleet.files.storage import on_s3
from featuregate_fleet.tables.locks import no_other_writer

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from featuregate_fleet.stream.upkeep import Removal
    from featuregate_fleet.tables.folder import Tables


def add_removal_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--checksum``, ``--tables`` and ``--cluster``."""
    parser.add_argument(
        "--checksum", metavar="TEXT", help="do it: what the same command printed without this option, and no row since"
    )
    add_tables_options(parser)


def run_removal(args: argparse.Namespace, made: Callable[[Tables], Removal], *reads: Path) -> int:
    """Print what would be removed and its checksum, or remove it if that is the checksum that was given.

    ``reads`` are folders that ``made`` looks at.
    """
    folder = existing_tables(args)
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - likewise
    from featuregate_fleet.stream.upkeep import removed  # noqa: PLC0415 - Spark

    s3 = on_s3(folder, *reads)
    with no_other_writer(folder, args.cluster), local_session(args.jars, topics=False, s3=s3) as spark:
        tables = open_tables(spark, args)
        removal = made(tables)
        try:
            found = removed(tables, removal, args.checksum)
        except ConfigError as error:
            raise CommandError(f"--checksum {args.checksum}: {error.problem}") from error
    for table, count in found.counts.items():
        print(f"{args.cluster}: {table}: {count} rows")
    if args.checksum is None:
        print(f"{args.cluster}: nothing was changed; to do it, add --checksum {found.checksum}")
    return OK
