"""How brokers write the times of their logs, where the logs do not say it: their zone, and their layout."""

from __future__ import annotations

import argparse
from typing import Final
from zoneinfo import ZoneInfo

from featuregate_fleet.evidence.lines.layouts import check_layout
from featuregate_fleet.evidence.paths import IN_UTC, OTHERS, LogTimes, broker_of

_EXAMPLE: Final = "%d-%m-%Y %H:%M:%S"


def add_time_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--time-zone`` and ``--layout``, for all brokers or for one."""
    parser.add_argument(
        "--time-zone",
        metavar="[BROKER=]ZONE",
        type=_zone_of_broker,
        action="append",
        default=[],
        help="the zone in which brokers log, such as Europe/Berlin, or that of one broker (default: UTC)",
    )
    parser.add_argument(
        "--layout",
        metavar="[BROKER=]FORMAT",
        type=_layout_of_broker,
        action="append",
        default=[],
        help=f"how brokers, or one of them, write a time that has no meaning otherwise, such as '{_EXAMPLE}'".replace(
            "%", "%%"
        ),
    )


def add_time_options_of_one(parser: argparse.ArgumentParser) -> None:
    """Add the same for the one broker of a log."""
    parser.add_argument(
        "--time-zone",
        metavar="ZONE",
        type=_time_zone,
        default="UTC",
        help="the zone in which the broker logs, such as Europe/Berlin (default: UTC)",
    )
    parser.add_argument(
        "--layout",
        metavar="FORMAT",
        type=_layout,
        help=f"how the broker writes a time that has no meaning otherwise, such as '{_EXAMPLE}'".replace("%", "%%"),
    )


def log_times(args: argparse.Namespace) -> dict[str, LogTimes]:
    """Return how each broker writes times, by node id, and all others."""
    zones, layouts = dict(args.time_zone), dict(args.layout)
    others = LogTimes(zones.get(OTHERS, "UTC"), layouts.get(OTHERS, ""))
    found = {
        broker: LogTimes(zones.get(broker, others.time_zone), layouts.get(broker, others.layout))
        for broker in zones | layouts
    }
    return {**IN_UTC, **found, OTHERS: others}


def _zone_of_broker(text: str) -> tuple[str, str]:
    """Return the broker, or `OTHERS`, and the zone."""
    broker, named, zone = text.rpartition("=")
    if named and broker_of(f"{broker}/file") != broker:
        raise argparse.ArgumentTypeError(f"{broker!r} is not a node id: write one such as 3=Europe/Berlin")
    return broker or OTHERS, _time_zone(zone)


def _layout_of_broker(text: str) -> tuple[str, str]:
    """Return the broker, or `OTHERS`, and the layout, which may have a ``=`` of its own."""
    broker, named, layout = text.partition("=")
    if named and broker_of(f"{broker}/file") == broker:
        return broker, _layout(layout)
    return OTHERS, _layout(text)


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
