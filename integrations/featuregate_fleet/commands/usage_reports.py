"""What ``run`` takes from the topic of usage reports, and its option."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import configuration, print_message
from featuregate_fleet.errors import ClusterUnread

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

    from featuregate_fleet.tables.delta import DeltaTables

__all__ = ["add_usage_topic", "read_usage"]

_TOPIC: Final = "featuregate-usage"


def add_usage_topic(parser: argparse.ArgumentParser) -> None:
    """Add ``--usage-topic``."""
    parser.add_argument(
        "--usage-topic",
        metavar="NAME",
        default=_TOPIC,
        help=f"the topic in which apps report their gates, read where a cluster is named (default: {_TOPIC})",
    )


def read_usage(args: argparse.Namespace, spark: SparkSession, tables: DeltaTables, cluster_id: str | None) -> None:
    """Read the reports of apps that use this cluster."""
    from featuregate_fleet.stream.usage_topic import drain_usage  # noqa: PLC0415 - Spark

    try:
        if not drain_usage(spark, configuration(args), args.usage_topic, tables, cluster_id=cluster_id):
            print_message(f"there is no topic {args.usage_topic}: no app reports its gates")
    except ClusterUnread as error:
        print_message(f"{error}; so readiness cannot say which apps are latched")
