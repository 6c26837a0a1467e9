"""What ``run`` takes from the topic of usage reports, and its option."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.cli.plugin import configuration, print_message
from featuregate_fleet.errors import ClusterUnread

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

    from featuregate_fleet.tables.folder import Tables

_TOPIC: Final = "featuregate-usage"


def add_usage_topic(parser: argparse.ArgumentParser) -> None:
    """Add ``--usage-topic``."""
    parser.add_argument(
        "--usage-topic",
        metavar="NAME",
        help=f"the topic in which apps report their gates (default: {_TOPIC}, where it exists and may be read)",
    )


def read_usage(args: argparse.Namespace, spark: SparkSession, tables: Tables, cluster_id: str | None) -> None:
    """Read the reports of apps that use this cluster. The default topic may be missing, if no run has read it yet."""
    from featuregate_fleet.stream.usage_topic import drain_usage, was_read  # noqa: PLC0415 - Spark

    named: str | None = args.usage_topic
    try:
        found = drain_usage(spark, configuration(args), named or _TOPIC, tables, cluster_id=cluster_id)
        said = None if found else f"there is no topic {named or _TOPIC}"
    except ClusterUnread as error:
        said = str(error)
    if said and (named or was_read(tables, _TOPIC)):
        print_message(f"{said}; so readiness cannot say which apps are latched")
