"""Read the request logs of a cluster, and end the job unless a move is safe, with the Spark that runs already."""

import sys

from pyspark.sql import SparkSession

from featuregate_fleet import Fleet


def check_move(spark: SparkSession, logs: str, tables: str, bootstrap: str) -> None:
    """Raise NotReady unless the cluster can move to Kafka 4.2."""
    fleet = Fleet(spark, tables=tables, cluster="orders")
    read = fleet.ingest(logs=logs, bootstrap=bootstrap)
    print(f"{read.rows} of {read.read} new lines are evidence")

    fetches = fleet.usage().where("api = 'Fetch'")
    fetches.groupBy("client_id", "version").sum("count").show()

    report = fleet.readiness(to="4.2")
    print(report)
    report.to_df().select("verdict", "subject", "why", "do").show(truncate=False)
    report.raise_for_verdict()


if __name__ == "__main__":
    check_move(SparkSession.builder.getOrCreate(), *sys.argv[1:])
