"""``featuregate fleet tables``: list the tables, by the names that Spark has for them."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import OK, add_output, aligned
from featuregate_fleet.commands.options.tables import add_tables_options, existing_tables, open_tables
from featuregate_fleet.files.storage import on_s3

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
List the tables that exist, each with its version, the number of its rows, and its name for Spark's SQL. With --cluster,
the rows are those of one cluster.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``tables``."""
    add_output(parser, "a table, or one JSON object for each table")
    add_tables_options(parser, of_all="; count the rows of all clusters without it")


def run(args: argparse.Namespace) -> int:
    """List the tables."""
    folder = existing_tables(args)
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - Spark
    from featuregate_fleet.tables.failures import one_line_failures  # noqa: PLC0415 - likewise

    with (
        local_session(args.jars, topics=False, s3=on_s3(folder)) as spark,
        one_line_failures("the tables cannot be read"),
    ):
        tables = open_tables(spark, args).pinned()
        found = [
            {
                "table": name,
                "version": tables.version(name),
                "rows": (tables.read(name) if args.cluster else tables.read_all(name)).count(),
                "name": tables.name_for_sql(name),
            }
            for name in tables.names()
        ]
    if args.output == "json":
        print("\n".join(map(json.dumps, found)), end="\n" if found else "")
    else:
        rows = [tuple(map(str, each.values())) for each in found]
        print("\n".join(aligned([("TABLE", "VERSION", "ROWS", "NAME"), *rows])))
    return OK
