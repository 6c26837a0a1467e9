"""What ``run`` takes from the cluster itself: who its brokers are, their levels, and the records of coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.cli.plugin import CommandError, configuration, discover_view, print_message
from featuregate_fleet.errors import ClusterUnread

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

    from featuregate.view.cluster_view import View
    from featuregate_fleet.tables.delta import DeltaTables

__all__ = ["cluster_view", "read_cluster"]


def cluster_view(args: argparse.Namespace) -> View | None:
    """Ask all brokers, if the options name a cluster."""
    if args.bootstrap_controller or args.broker_list == "bootstrap":
        raise CommandError("fleet run needs the ids of the brokers: give --bootstrap-server and no --broker-list")
    if not args.bootstrap_server and not args.command_config:
        return None
    return discover_view(args)


def read_cluster(args: argparse.Namespace, spark: SparkSession, view: View, tables: DeltaTables) -> None:
    """Keep the levels of the cluster, and read the records of its coordinators where it allows that."""
    from featuregate.admin.log_levels import LogLevels  # noqa: PLC0415 - sockets
    from featuregate_fleet.stream.cluster_views import keep_view  # noqa: PLC0415 - Spark
    from featuregate_fleet.stream.coordinator_topics import drain_coordinators  # noqa: PLC0415 - likewise
    from featuregate_fleet.stream.log_levels import keep_log_levels  # noqa: PLC0415 - likewise

    keep_view(spark, view, tables)
    if silent := keep_log_levels(spark, LogLevels(configuration(args)).read(), tables):
        print_message(f"brokers that do not tell the level of their log: {', '.join(silent)}")
    try:
        drain_coordinators(spark, configuration(args), tables)
    except ClusterUnread as error:
        print_message(f"{error}; so readiness cannot say what their coordinators would lose")
