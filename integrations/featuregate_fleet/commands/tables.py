"""``featuregate fleet tables``: list the tables of clusters, by the names that Spark has for them."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import OK, aligned
from featuregate_fleet.commands.options.tables import add_tables_options, existing_tables, spark_session

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
List the table of each cluster: its version, how many batches were committed, how many rows it has of each kind, and its
name for Spark's SQL.\
"""
_HEAD: Final = ("CLUSTER", "VERSION", "BATCHES", "ROWS", "NAME")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``tables``."""
    add_tables_options(parser, of_all="; without it, all clusters are listed")


def run(args: argparse.Namespace) -> int:
    """List the tables."""
    place = existing_tables(args)
    from featuregate_fleet.tables.evidence_table import clusters, existing_table  # noqa: PLC0415 - Spark
    from featuregate_fleet.tables.failures import one_line_failures  # noqa: PLC0415 - likewise
    from featuregate_fleet.tables.tidying import contents  # noqa: PLC0415 - likewise

    found = [_HEAD]
    with spark_session(args, place) as spark, one_line_failures("the tables cannot be read"):
        for cluster in [args.cluster] if args.cluster else clusters(spark, place):
            table = existing_table(spark, place, cluster).pinned()
            batches, rows = contents(table)
            said = ", ".join(f"{count} {kind}" for kind, count in rows.items())
            found.append((cluster, str(table.version()), str(batches), said, table.name))
    print("\n".join(aligned(found)))
    return OK
