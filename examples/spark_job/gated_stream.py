"""A stream from Kafka to Kafka that follows its cluster, one micro-batch at a time.

Two things are gated. Records are compressed with zstd once every broker knows it; and they are written in a new format
once ``--new-format-when`` holds, here as an upper-case text. Each micro-batch uses its pin: when Spark replays it after
a crash, it is written as the first time, whatever the cluster has become, and no later batch goes back.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 --py-files featuregate.zip \
        gated_stream.py --bootstrap localhost:9092 --input orders --output orders-out --checkpoint /data/orders
"""

from __future__ import annotations

import argparse
import logging
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, udf

from featuregate import presets
from featuregate_spark import FeatureSession, Snapshot, with_kafka_options


def old_format(value: bytes | None) -> bytes | None:
    """Return the value in the old format."""
    return value


def new_format(value: bytes | None) -> bytes | None:
    """Return the value in a format that only new consumers read."""
    return None if value is None else value.decode().upper().encode()


class Writer:
    """Writes each micro-batch by its pin."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.to_kafka = {"kafka.bootstrap.servers": bootstrap, "topic": topic}

    def __call__(self, df: DataFrame, batch_id: int, pin: Snapshot) -> None:
        """Write a batch, with the same decisions in all of its tasks."""
        options = {
            **self.to_kafka,
            "kafka.compression.type": "zstd" if pin["zstd"].open else "none",
        }
        formatted = udf(
            pin.guard("new-format", fallback=old_format)(new_format), "binary"
        )
        rows = df.select(col("key"), formatted(col("value")).alias("value"))
        rows.write.format("kafka").options(**options).save()
        opened = f"{pin.opened}, by the latch: {pin.held}"
        print(f"batch {batch_id} by epoch {pin.epoch}: {opened}", flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0] if __doc__ else None
    )
    parser.add_argument("--bootstrap", required=True, help="host:port of some brokers")
    parser.add_argument("--input", required=True, help="the topic to read")
    parser.add_argument("--output", required=True, help="the topic to write")
    parser.add_argument(
        "--checkpoint",
        required=True,
        help="the folder of the query, which holds its pins, too",
    )
    parser.add_argument(
        "--new-format-when", default="transaction.version>=2", help="a requirement"
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="end when all that is there has been processed",
    )
    return parser.parse_args()


def main() -> None:
    """Run the stream until it is stopped."""
    logging.basicConfig(level=logging.WARNING)
    args = arguments()
    spark = SparkSession.builder.appName("gated stream").getOrCreate()
    gates = {"zstd": presets.zstd, "new-format": args.new_format_when}
    with FeatureSession(spark, args.bootstrap, gates=gates) as features:
        spark.streams.addListener(features.listener())
        from_kafka: dict[str, Any] = {
            "kafka.bootstrap.servers": args.bootstrap,
            "subscribe": args.input,
            "startingOffsets": "earliest",
        }
        options = with_kafka_options(
            from_kafka, role="reader", features=features
        )  # reads what is committed, if it can
        batch = features.foreach_batch(
            Writer(args.bootstrap, args.output), checkpoint=args.checkpoint
        )
        writing = (
            spark.readStream.format("kafka")
            .options(**options)
            .load()
            .writeStream.queryName("gated")
        )
        writing = writing.foreachBatch(batch).option(
            "checkpointLocation", args.checkpoint
        )
        query = (writing.trigger(availableNow=True) if args.once else writing).start()
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
