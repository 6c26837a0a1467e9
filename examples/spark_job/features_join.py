"""Which apps may switch now: the needs of apps in a topic, joined with the finalized levels of the cluster.

A record's key is the name of an app; its value is the need of the app, as ``{"feature": "group.version", "level": 1}``.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, from_json, lit

from featuregate_spark import KafkaFeatures


def ready(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Return each app, the level that it needs and has, and whether that is enough."""
    spark.dataSource.register(KafkaFeatures)
    levels = (
        spark.read.format("kafka_features")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kind", "feature")
        .load()
        .where("scope = 'cluster'")
        .select("feature", col("level").alias("found"))
    )
    needs = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
        .select(
            col("key").cast("string").alias("app"),
            from_json(col("value").cast("string"), "feature STRING, level INT").alias(
                "needs"
            ),
        )
        .select("app", "needs.*")
    )
    # A feature that no broker knows has no row, and one whose level is unknown has none
    # to show: neither is ready.
    enough = coalesce(col("found") >= col("level"), lit(col=False))
    return needs.join(levels, "feature", "left").select(
        "app", "feature", "level", "found", enough.alias("ready")
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--bootstrap", required=True, help="host:port, with commas between"
    )
    parser.add_argument("--topic", required=True, help="what apps need")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("features-join").getOrCreate()
    try:
        ready(spark, options.bootstrap, options.topic).orderBy("app", "feature").show(
            truncate=False
        )
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
