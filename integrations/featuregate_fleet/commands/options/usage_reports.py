"""What ``run`` takes from the topic of usage reports, and its option."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse


_TOPIC: Final = "featuregate-usage"


def add_usage_topic(parser: argparse.ArgumentParser) -> None:
    """Add ``--usage-topic``."""
    parser.add_argument(
        "--usage-topic",
        metavar="NAME",
        help=f"the topic in which apps report their gates (default: {_TOPIC}, where it exists and may be read)",
    )
