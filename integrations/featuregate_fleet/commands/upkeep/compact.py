"""``featuregate fleet compact``: join the small files of the tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import OK
from featuregate_fleet.commands.options.tables import add_tables_options, existing_tables, open_tables
from featuregate_fleet.files.storage import on_s3
from featuregate_fleet.tables.locks import no_other_writer

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
Join the files of each table, of which every micro-batch writes one, and delete the files of earlier versions. Usage of
more than a week before today becomes daily: verdicts stay the same, and there are up to 24 times fewer rows.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``compact``."""
    add_tables_options(parser)


def run(args: argparse.Namespace) -> int:
    """Join the files."""
    folder = existing_tables(args)
    from featuregate_fleet.stream.session import local_session  # noqa: PLC0415 - likewise
    from featuregate_fleet.stream.upkeep import compact  # noqa: PLC0415 - Spark

    with no_other_writer(folder, args.cluster), local_session(args.jars, topics=False, s3=on_s3(folder)) as spark:
        compact(open_tables(spark, args), datetime.now(UTC))
    return OK
