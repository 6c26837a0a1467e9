"""What reports the gates of a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from featuregate import UsageReporter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def usage_reporter(spark: SparkSession, config: Mapping[str, Any] | str, topic: str) -> UsageReporter:
    """Return what reports the gates of the driver: the app is that of Spark, the instance its application id."""
    from featuregate_librdkafka.usage_topic import UsageTopic  # noqa: PLC0415 - it loads the client, which pins do not need

    app = spark.conf.get("spark.app.name") or "spark"
    return UsageReporter(
        UsageTopic(config, topic),
        app=app,
        instance=spark.conf.get("spark.app.id", None),
        software=("spark", spark.version),
    )
