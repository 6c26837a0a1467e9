"""An audit trail: at each change of the cluster, the levels of its features are written to a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from featuregate_spark import KafkaFeatures

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


def trail(
    spark: SparkSession, bootstrap: str, table: str, checkpoint: str
) -> StreamingQuery:
    """Write each change. ``level`` never falls, ``reported_level`` may."""
    spark.dataSource.register(KafkaFeatures)
    changes = (
        spark.readStream.format("kafka_features")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kind", "feature")
        .option("interval", "10")
        .load()
        .where("scope = 'cluster'")
        .select("seen_at", "cluster_id", "feature", "level", "reported_level", "epoch")
    )
    return (
        changes.writeStream.option("checkpointLocation", checkpoint)
        .format("parquet")
        .start(table)
    )


def main() -> None:
    """Write until the query is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--bootstrap", required=True, help="host:port, with commas between"
    )
    parser.add_argument("--table", required=True, help="folder of Parquet files")
    parser.add_argument(
        "--checkpoint", required=True, help="folder of the query's checkpoint"
    )
    options = parser.parse_args()
    spark = SparkSession.builder.appName("features-stream").getOrCreate()
    try:
        trail(
            spark, options.bootstrap, options.table, options.checkpoint
        ).awaitTermination()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
