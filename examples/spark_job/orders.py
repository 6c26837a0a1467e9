"""The job of ``make demo-spark``: it copies orders, in a new format once the whole cluster is new.

One gate decides the format, and each micro-batch has one decision. ``--sink featuregate`` writes exactly once, and
``--sink spark`` is the same job with Spark's own sink.
"""

import argparse
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, udf
from pyspark.sql.streaming import StreamingQuery

from featuregate_spark import FeatureSession, Snapshot

Sink = Callable[[DataFrame, int], None]


def old_format(value: bytes) -> bytes:
    """Return the order as consumers have always read it."""
    return b"old:" + value


def new_format(value: bytes) -> bytes:
    """Return the order in a format that has to wait for the whole cluster."""
    return b"new:" + value


def start(
    spark: SparkSession,
    features: FeatureSession,
    sink: Sink,
    options: argparse.Namespace,
) -> StreamingQuery:
    """Start the query; ``sink`` is ``features.kafka_sink(...)``."""

    def write(df: DataFrame, batch_id: int, pin: Snapshot) -> None:
        chosen = pin.guard("new-format", fallback=old_format)(new_format)
        name = "new" if pin["new-format"].open else "old"
        print(f"batch {batch_id}: {name} format", flush=True)
        formatted = udf(chosen, "binary")(col("value")).alias("value")
        sink(df.select("key", formatted), batch_id)

    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("subscribe", options.input)
        .option("startingOffsets", "earliest")
        .load()
    )
    return (
        orders.writeStream.queryName(options.query)
        .foreachBatch(features.foreach_batch(write, checkpoint=options.checkpoint))
        .option("checkpointLocation", options.checkpoint)
        .start()
    )


def sink_of(features: FeatureSession, options: argparse.Namespace) -> Sink:
    """Return the exactly-once sink, or Spark's own."""
    if options.sink == "featuregate":
        return features.kafka_sink(options.query, options.output)

    def write(df: DataFrame, _batch_id: int) -> None:
        to_kafka = {
            "kafka.bootstrap.servers": options.bootstrap,
            "topic": options.output,
        }
        df.write.format("kafka").options(**to_kafka).save()

    return write


def main() -> None:
    """Run the query until the driver is stopped or killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True, help="host:port of some brokers")
    parser.add_argument("--input", required=True, help="the topic to read")
    parser.add_argument("--output", required=True, help="the topic to write")
    parser.add_argument("--query", required=True, help="the name to keep over restarts")
    parser.add_argument("--checkpoint", required=True, help="the folder to keep")
    parser.add_argument("--sink", choices=("featuregate", "spark"), required=True)
    options = parser.parse_args()
    spark = SparkSession.builder.appName(options.query).getOrCreate()
    gates = {"new-format": "transaction.version>=2"}
    with FeatureSession(spark, options.bootstrap, gates=gates, interval=2) as features:
        start(spark, features, sink_of(features, options), options).awaitTermination()


if __name__ == "__main__":
    main()
