"""An exactly-once Spark job, small and complete: copies a topic, whatever happens to tasks, drivers and brokers.

Each record keeps its key and value, and gets headers that say where it came from. SIGTERM or SIGINT stops the job.
Restarted with the same checkpoint and query name, it continues where it was, and writes nothing twice.

.. code-block:: console

    $ spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 \
          examples/spark_job/exactly_once.py --bootstrap localhost:9092 --input orders --output copies \
          --checkpoint /var/lib/copies --query copies
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from featuregate import FeatureGateError
from featuregate.config.properties_file import read_properties
from featuregate_spark import FeatureSession, StopSignals, cause_of

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

HELP = """\
Copy a topic by a streaming query, exactly once: for readers of committed data each record is there once, though tasks
are retried, drivers die and brokers restart. SIGTERM and SIGINT stop it, sent to spark-submit or to the Python driver;
after a restart with the same --checkpoint and --query it completes the batch that it was writing.\
"""
EXAMPLE = """\
example:
  spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 examples/spark_job/exactly_once.py \\
      --bootstrap localhost:9092 --input orders --output copies --checkpoint /var/lib/copies --query copies

exit codes: 0 stopped by a signal, 1 failed (standard error says why), 2 wrong usage; a signal before Spark has
started, and SIGKILL, end it with 128 and the signal's number\
"""


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=HELP,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_argument_group("what to copy")
    what.add_argument(
        "--bootstrap", required=True, metavar="HOST:PORT", help="bootstrap brokers"
    )
    what.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="properties of Kafka's Java client, for a cluster that wants TLS or SASL",
    )
    what.add_argument(
        "--input", required=True, metavar="TOPIC", help="the topic to read"
    )
    what.add_argument(
        "--output", required=True, metavar="TOPIC", help="the topic to write"
    )
    who = parser.add_argument_group("the query: keep both over restarts")
    who.add_argument(
        "--checkpoint",
        required=True,
        metavar="DIR",
        help="the folder of Spark's checkpoint",
    )
    who.add_argument(
        "--query",
        required=True,
        metavar="NAME",
        help="the prefix of transactional ids, and the group",
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--trigger-ms",
        type=int,
        default=1000,
        metavar="N",
        help="milliseconds between two batches (default: 1000)",
    )
    how.add_argument(
        "--shards",
        type=int,
        metavar="N",
        help="transactions that write a batch (default: one for each core)",
    )
    how.add_argument(
        "--max-per-batch", type=int, metavar="N", help="maximum records of a batch"
    )
    how.add_argument(
        "--verbose", action="store_true", help="log events to standard error"
    )
    return parser.parse_args()


def connection(options: argparse.Namespace) -> dict[str, str]:
    """Return where the brokers are, and how to reach them, in Spark's spelling."""
    file = read_properties(options.command_config) if options.command_config else {}
    properties = file | {"bootstrap.servers": options.bootstrap}
    return {f"kafka.{name}": value for name, value in properties.items()}


def inputs(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """Read the input's committed records, with headers that say where each came from."""
    reading = spark.readStream.format("kafka").options(**connection(options))
    reading = reading.option("subscribe", options.input).option(
        "startingOffsets", "earliest"
    )
    reading = reading.option("kafka.isolation.level", "read_committed").option(
        "includeHeaders", "true"
    )
    if options.max_per_batch:
        reading = reading.option("maxOffsetsPerTrigger", str(options.max_per_batch))
    rows = reading.load()
    origin = [
        ("fg.topic", rows["topic"]),
        ("fg.partition", rows["partition"]),
        ("fg.offset", rows["offset"]),
    ]
    headers = f.array(
        *[
            f.struct(
                f.lit(name).alias("key"),
                column.cast("string").cast("binary").alias("value"),
            )
            for name, column in origin
        ]
    )
    headers_before = f.coalesce(
        rows["headers"], f.array().cast("array<struct<key:string,value:binary>>")
    )
    return rows.select(
        "key", "value", f.concat(headers_before, headers).alias("headers")
    )


def start(features: FeatureSession, options: argparse.Namespace) -> StreamingQuery:
    """Start the query."""
    sink = features.kafka_sink(options.query, options.output, shards=options.shards)
    writing = (
        inputs(features.spark, options)
        .writeStream.queryName(options.query)
        .foreachBatch(sink)
    )
    writing = writing.option("checkpointLocation", options.checkpoint)
    return writing.trigger(processingTime=f"{options.trigger_ms} milliseconds").start()


def run(spark: SparkSession, options: argparse.Namespace, stop: StopSignals) -> None:
    """Copy until a signal arrives."""
    with FeatureSession(spark, connection(options)) as features:
        query = start(features, options)
        try:
            # In short intervals: Python handles no signal while Java waits.
            while not stop.received and not query.awaitTermination(0.2):
                pass
        except StreamingQueryException:
            if (
                not stop.received
            ):  # a signal to every process of the job ends the query's workers, too
                raise
        query.stop()


def main() -> int:
    """Run until a signal arrives; print an error in one line."""
    options = parse_arguments()
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(message)s")
    if options.verbose:
        logging.getLogger("featuregate").setLevel(logging.INFO)
    with StopSignals() as stop:
        spark = SparkSession.builder.appName(options.query).getOrCreate()
        stop.attach(spark)
        try:
            run(spark, options, stop)
        except (FeatureGateError, StreamingQueryException) as error:
            print(f"exactly_once: {cause_of(error, spark) or error}", file=sys.stderr)
            return 1
        finally:
            spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
