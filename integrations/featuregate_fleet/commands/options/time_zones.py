"""The zones in which brokers log, because their logs do not say it."""

from __future__ import annotations

import argparse
from zoneinfo import ZoneInfo


def time_zone(text: str) -> str:
    """Parse the name of a time zone."""
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise argparse.ArgumentTypeError(f"{text!r} is no time zone: take one such as Europe/Berlin") from None
    return text
