"""Options that several commands share. Nothing is asked here, and nothing heavy is imported."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_cluster_options", "add_output", "named_requirement", "positive_seconds"]


def add_cluster_options(parser: argparse.ArgumentParser, *, default: Any = None) -> None:
    """Add the options that say where the cluster is and how to reach it.

    They may stand before the command, as kafka-features wants them, or after it: there ``default`` is
    ``argparse.SUPPRESS``, so that what is not repeated does not wipe out what was said before.
    """
    group = parser.add_argument_group("where the cluster is")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--bootstrap-server", metavar="HOST:PORT", default=default, help="brokers to start from, with commas between"
    )
    which.add_argument(
        "--bootstrap-controller", metavar="HOST:PORT", default=default, help="KRaft controllers, to ask those instead"
    )
    group.add_argument(
        "--command-config",
        metavar="FILE",
        default=default,
        help="a .properties file, as Kafka's own tools take: security.protocol, ssl.*, sasl.*",
    )
    group.add_argument(
        "--broker-list",
        choices=("cluster", "bootstrap"),
        default="cluster" if default is None else default,
        help="ask: find the brokers by asking; listed: the list above names them all, which needs no password",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=positive_seconds,
        default=default,
        help="at the most, for asking all brokers once (default: 15; not for watch) or for a change (default: 60)",
    )
    group.add_argument(
        "--verbose",
        action="store_true",
        default=False if default is None else default,
        help="show the log on standard error",
    )


def positive_seconds(text: str) -> float:
    """Read a number of seconds above 0."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def named_requirement(text: str) -> tuple[str, str]:
    """Read ``NAME=REQUIREMENT``; what stands after the first equals sign is the requirement."""
    name, equals, requirement = text.partition("=")
    if not (equals and name.strip() and requirement.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=REQUIREMENT, such as eos=kip447")
    return name.strip(), requirement.strip()


def add_output(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add the choice between text and JSON."""
    parser.add_argument("--output", choices=("text", "json"), default="text", help=f"{meaning} (default: text)")
