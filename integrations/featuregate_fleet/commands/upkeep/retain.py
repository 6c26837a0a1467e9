"""``featuregate fleet retain``: delete evidence that is too old."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import CommandError
from featuregate.errors import ConfigError
from featuregate_fleet.commands.options.tables import storage_argument
from featuregate_fleet.commands.upkeep.dry_run import add_removal_options, run_removal
from featuregate_fleet.files.storage import reached

if TYPE_CHECKING:
    from featuregate_fleet.stream.upkeep import Removal
    from featuregate_fleet.tables.folder import Tables

DESCRIPTION: Final = """\
Delete what was seen more than DAYS before today, in UTC: lines, usage of APIs and gates, levels, coverage, kept
reports, lines in quarantine, and records of coordinators that newer ones have overwritten. Without --checksum, nothing
is changed, and the command prints how many rows there are. With --logs, files that were read before that time and are
not there any more leave the list of files; the counts of their lines stay.\
"""
_LONGEST: Final = 36_500


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``retain``."""
    parser.add_argument("--days", metavar="DAYS", type=_days, required=True, help="keep these days before today")
    parser.add_argument(
        "--logs", metavar="DIR", type=storage_argument, help="that of 'fleet run', to shorten the list of files"
    )
    add_removal_options(parser)


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= _LONGEST):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days: take 1 to {_LONGEST}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Delete what is too old."""
    logs = args.logs and reached("--logs", args.logs)
    return run_removal(args, lambda tables: _removal(tables, args.days, logs), *([logs] if logs else []))


def _removal(tables: Tables, days: int, logs: Path | None) -> Removal:
    from featuregate_fleet.stream.upkeep import retention  # noqa: PLC0415 - Spark

    try:
        return retention(tables, days, datetime.now(UTC), logs)
    except ConfigError as error:
        raise CommandError(f"--{error}") from error
