"""Options that several commands share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from featuregate.errors import ConfigError
from featuregate.files import local_path

if TYPE_CHECKING:
    from pathlib import Path


def add_cluster_options(parser: argparse.ArgumentParser, *, default: Any = None) -> None:
    """Add the options that say where the cluster is and how to reach it.

    They may stand before the command, as in kafka-features, or after it. After it ``default`` is ``argparse.SUPPRESS``,
    so that an option that is not repeated keeps the value that stands before the command.
    """
    group = parser.add_argument_group("where the cluster is")
    servers = group.add_mutually_exclusive_group()
    servers.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        default=default,
        help="brokers to start from, separated by commas (default: the environment's FEATUREGATE_BOOTSTRAP_SERVER)",
    )
    servers.add_argument(
        "--bootstrap-controller", metavar="HOST:PORT", default=default, help="KRaft controllers, instead of brokers"
    )
    group.add_argument(
        "--command-config",
        metavar="FILE",
        default=default,
        help="a .properties file, as for Kafka's own tools: security.protocol, ssl.*, sasl.*",
    )
    group.add_argument(
        "--broker-list",
        choices=("cluster", "bootstrap"),
        default="cluster" if default is None else default,
        help="where the list of brokers comes from: the cluster, or the bootstrap list, which needs no password "
        "(default: cluster)",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=positive_seconds,
        default=default,
        help="bound on asking all brokers once (default: 15; not for watch) or on a change (default: 60)",
    )
    group.add_argument(
        "--verbose",
        action="store_true",
        default=False if default is None else default,
        help="print the log to standard error",
    )


def add_output(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add the choice between text and JSON."""
    parser.add_argument("--output", choices=("text", "json"), default="text", help=f"{meaning} (default: text)")


def positive_seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def local_path_argument(text: str) -> Path:
    """Parse the path of a file or folder of this machine."""
    try:
        return local_path("", text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.problem) from None


def add_gates(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add ``--gate NAME=REQUIREMENT``, which can be repeated."""
    parser.add_argument(
        "--gate",
        metavar="NAME=REQUIREMENT",
        dest="gates",
        action="append",
        default=[],
        type=named_requirement,
        help=meaning,
    )


def named_requirement(text: str) -> tuple[str, str]:
    """Parse ``NAME=REQUIREMENT``; the requirement follows the first equals sign."""
    name, equals, requirement = text.partition("=")
    if not (equals and name.strip() and requirement.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=REQUIREMENT, such as eos=kip447")
    return name.strip(), requirement.strip()
