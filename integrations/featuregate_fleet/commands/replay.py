"""``featuregate fleet replay``: parse again what is in quarantine."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import OK
from featuregate_fleet.commands.options.log_times import add_layout_option
from featuregate_fleet.commands.options.principal_names import add_hash_option, pseudonyms
from featuregate_fleet.commands.options.tables import add_tables_options, counts, existing_tables, open_tables
from featuregate_fleet.files.storage import on_s3
from featuregate_fleet.tables.kept_names import keep_names
from featuregate_fleet.tables.locks import one_writer

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
Parse lines again that an older parser put into quarantine, and read files again that could not be read: restore them
under their names before. What is understood now leaves the quarantine. With --layout, lines whose time was not
understood are parsed again, too.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``replay``."""
    add_layout_option(parser)
    add_hash_option(parser, "the key of 'fleet run', where it hashes principals")
    add_tables_options(parser)


def run(args: argparse.Namespace) -> int:
    """Try everything in quarantine once more."""
    names, folder = pseudonyms(args), existing_tables(args)
    from featuregate_fleet.stream.quarantine import replay  # noqa: PLC0415 - Spark
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.line_counts import read_line_counts  # noqa: PLC0415 - likewise

    with one_writer(folder, args.cluster), local_session(args.jars, topics=False, s3=on_s3(folder)) as spark:
        keep_names(folder, args.cluster, names)
        tables = open_tables(spark, args, names)
        tried = replay(spark, tables, dict(args.layout))
        found = read_line_counts(tables)
    print(f"{args.cluster}: {tried} lines and files tried again; {counts(found)}")
    return OK
