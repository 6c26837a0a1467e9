"""What ``run`` takes from the cluster itself: brokers, levels, records of coordinators, and logs in a topic."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import CommandError, discover_view

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def add_topic_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--logs-topic`` and ``--broker-header``."""
    parser.add_argument(
        "--logs-topic", metavar="TOPIC", type=_topic, help="a topic to which a shipper writes the lines of request logs"
    )
    parser.add_argument(
        "--broker-header",
        metavar="NAME",
        default="broker",
        help="the header of its records with the node id of the broker; without it, that is the key (default: broker)",
    )


def _topic(text: str) -> str:
    if not _TOPIC.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a topic name")
    return text


def cluster_view(args: argparse.Namespace) -> View | None:
    """Ask all brokers, if the options name a cluster."""
    if args.bootstrap_controller or args.broker_list == "bootstrap":
        raise CommandError("fleet run needs the ids of the brokers: give --bootstrap-server and no --broker-list")
    if not args.bootstrap_server and not args.command_config:
        if args.logs_topic:
            raise CommandError("--logs-topic needs --bootstrap-server")
        return None
    return discover_view(args)
