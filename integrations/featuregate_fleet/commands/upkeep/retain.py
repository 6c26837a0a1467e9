"""``featuregate fleet retain``: delete evidence that is too old."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from featuregate_fleet.commands.upkeep.dry_run import add_removal_options, run_removal

if TYPE_CHECKING:
    from featuregate_fleet.stream.upkeep import Removal

DESCRIPTION: Final = """\
Delete what was seen more than DAYS before today, in UTC: lines, usage of APIs and gates, levels, coverage, kept
reports, lines in quarantine, and records of coordinators that newer ones have overwritten. Without --checksum, nothing
is changed, and the command prints how many rows there are. The list of files stays, so that none is read again.\
"""
_LONGEST: Final = 36_500


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``retain``."""
    parser.add_argument("--days", metavar="DAYS", type=_days, required=True, help="keep these days before today")
    add_removal_options(parser)


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= _LONGEST):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days: take 1 to {_LONGEST}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Delete what is too old."""
    return run_removal(args, lambda: _removal(args.days))


def _removal(days: int) -> Removal:
    from featuregate_fleet.stream.upkeep import retention  # noqa: PLC0415 - Spark

    return retention(days, datetime.now(UTC))
