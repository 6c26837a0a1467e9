"""What ``run`` reads of one cluster."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import CommandError, configuration, discover_view
from featuregate.errors import ConfigError
from featuregate_fleet.commands.options.log_times import add_time_options, log_times
from featuregate_fleet.commands.options.principal_names import add_hash_option
from featuregate_fleet.commands.options.tables import storage_argument
from featuregate_fleet.evidence.reasons import known_reasons
from featuregate_fleet.files.storage import is_below, reached, why_no_folder

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms
    from featuregate_fleet.runs.ingestion import Inputs

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_USAGE_TOPIC: Final = "featuregate-usage"


def add_evidence_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name logs and topics, and say how they are read."""
    parser.add_argument(
        "--logs", metavar="DIR", type=storage_argument, help="a folder for each broker, or the URI of it"
    )
    _add_topic_options(parser)
    add_time_options(parser)
    parser.add_argument(
        "--usage-topic",
        metavar="NAME",
        help=f"the topic in which apps report their gates (default: {_USAGE_TOPIC}, where it exists and may be read)",
    )
    parser.add_argument(
        "--again",
        metavar="REASON",
        type=_reasons,
        action="extend",
        default=[],
        help="read again, from the beginning, what was left unread or has lines in quarantine for this reason, such as "
        "unknown-layout; several with commas",
    )
    add_hash_option(parser, "keep hashes of principals and addresses, by the key in a file or an environment variable")


def _add_topic_options(parser: argparse.ArgumentParser) -> None:
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


def _reasons(text: str) -> list[str]:
    """Parse reasons with commas between them."""
    try:
        return sorted(known_reasons(text.split(",")))
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.problem) from None


def check_logs(args: argparse.Namespace) -> None:
    """Refuse options that cannot be used together."""
    if not args.logs and not args.logs_topic:
        raise CommandError("fleet run reads logs: give --logs, --logs-topic or both")
    if args.logs and (problem := why_no_folder(reached("--logs", args.logs))):
        raise CommandError(f"--logs {args.logs}: {problem}")
    if args.logs and not isinstance(args.tables, str) and is_below(args.tables, args.logs):
        raise CommandError(
            f"--tables {args.tables} is within --logs {args.logs}, and would be read as logs: move it out"
        )


def inputs(args: argparse.Namespace, view: View | None, names: Pseudonyms | None) -> Inputs:
    """Return what the options name."""
    from featuregate_fleet.runs.ingestion import Inputs  # noqa: PLC0415 - Spark

    return Inputs(
        cluster=args.cluster,
        logs=args.logs,
        config=configuration(args) if view else {},
        logs_topic=args.logs_topic,
        broker_header=args.broker_header,
        usage_topic=args.usage_topic,
        times=log_times(args),
        again=frozenset(args.again),
        names=names,
    )


def cluster_view(args: argparse.Namespace) -> View | None:
    """Ask all brokers, if the options name a cluster."""
    if args.bootstrap_controller or args.broker_list == "bootstrap":
        raise CommandError("fleet run needs the ids of the brokers: give --bootstrap-server and no --broker-list")
    if not args.bootstrap_server and not args.command_config:
        if args.logs_topic:
            raise CommandError("--logs-topic needs --bootstrap-server")
        return None
    return discover_view(args)
