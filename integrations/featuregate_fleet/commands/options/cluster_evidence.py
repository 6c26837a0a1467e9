"""What ``run`` takes from the cluster itself: brokers, levels, records of coordinators, and logs in a topic."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import CommandError, configuration, discover_view, print_message
from featuregate_fleet.errors import ClusterUnread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from featuregate.view.cluster_view import View
    from featuregate_fleet.evidence.lines.log_lines import KeptLines
    from featuregate_fleet.evidence.paths import LogTimes
    from featuregate_fleet.evidence.unread import MissingRequests
    from featuregate_fleet.tables.folder import Tables

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
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a topic")
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


def check_same_cluster(name: str, before: View | None, now: View | None) -> None:
    """Refuse the answers of another cluster than the one that a run under this name has asked before.

    Raises
    ------
    CommandError
        The clusters have different ids.
    """
    ids = [view.cluster_id for view in (before, now) if view and view.cluster_id]
    if len(set(ids)) > 1:
        raise CommandError(
            f"--cluster {name}: its tables have the answers of the cluster with the id {ids[0]}, and these brokers "
            f"belong to {ids[1]}: give another --cluster, or the brokers of this one"
        )


def read_cluster(args: argparse.Namespace, spark: SparkSession, view: View, tables: Tables) -> None:
    """Keep the levels of the cluster, and read the records of its coordinators where it allows that."""
    from featuregate.admin.log_levels import LogLevels  # noqa: PLC0415 - sockets
    from featuregate_fleet.stream.cluster_views import keep_view  # noqa: PLC0415 - Spark
    from featuregate_fleet.stream.coordinator_topics import drain_coordinators  # noqa: PLC0415 - likewise
    from featuregate_fleet.stream.log_levels import keep_log_levels  # noqa: PLC0415 - likewise

    keep_view(spark, view, tables)
    if silent := keep_log_levels(spark, LogLevels(configuration(args)).read(), tables):
        print_message(f"brokers that do not report the level of their request log: {', '.join(silent)}")
    try:
        drain_coordinators(spark, configuration(args), tables)
    except ClusterUnread as error:
        print_message(f"{error}; so readiness cannot say what their coordinators would lose")


def read_log_topic(
    args: argparse.Namespace,
    spark: SparkSession,
    tables: Tables,
    times: Mapping[str, LogTimes],
    stop: Callable[[], bool],
    kept: KeptLines,
    report: Callable[[MissingRequests], None],
) -> None:
    """Read the logs in the topic."""
    from featuregate_fleet.stream.log_topic import drain_log_topic  # noqa: PLC0415 - Spark

    topic, header = args.logs_topic, args.broker_header
    config = configuration(args)
    drain_log_topic(spark, config, topic, tables, header=header, times=times, stop=stop, kept=kept, report=report)
