"""How brokers write the times of a log, where the log does not say it."""

from __future__ import annotations

import argparse
from typing import Final
from zoneinfo import ZoneInfo

from featuregate.cli.plugin import option
from featuregate_fleet.evidence.lines.times import check_layout
from featuregate_fleet.evidence.paths import LogTimes

_EXAMPLE: Final = "%d-%m-%Y %H:%M:%S"


def add_time_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--time-zone`` and ``--layout``."""
    zone = "the zone in which brokers log, such as Europe/Berlin (default: UTC)"
    option(parser, "--time-zone ZONE", zone, type=_time_zone, default="UTC")
    layout = f"how brokers write a time that has no meaning otherwise, such as '{_EXAMPLE}'"
    option(parser, "--layout FORMAT", layout.replace("%", "%%"), type=_layout)


def log_times(args: argparse.Namespace) -> LogTimes:
    """Return how brokers write times."""
    return LogTimes(args.time_zone, args.layout or "")


def _time_zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time zone: take one such as Europe/Berlin") from None
    return text


def _layout(text: str) -> str:
    try:
        check_layout(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a layout of a time: {error}. Write one such as {_EXAMPLE!r}"
        ) from None
    return text
