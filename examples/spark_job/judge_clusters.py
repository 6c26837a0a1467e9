"""Read the request logs of several clusters in one Spark, and say of each whether it can move to Kafka 4.2."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

import featuregate as fg
from featuregate_fleet import Fleet


def judge(spark: SparkSession, root: Path, cluster: str) -> str:
    """Return the verdict on one cluster, or why there is none."""
    try:
        fleet = Fleet(spark, tables=root / "tables", cluster=cluster)
        fleet.ingest(logs=root / "logs" / cluster)
        report = fleet.readiness(to="4.2")
    except (fg.FeatureGateError, OSError) as error:
        return f"failed: {error}"
    (root / f"{cluster}.html").write_text(report.html())
    return str(report.verdict)


def judge_clusters(
    spark: SparkSession, root: Path, clusters: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Yield each cluster and its verdict; four clusters at a time."""
    names = list(clusters)
    with ThreadPoolExecutor(4) as pool:
        yield from zip(
            names, pool.map(lambda name: judge(spark, root, name), names), strict=True
        )
