"""A Spark on this machine, with settings and a JVM of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql import SparkSession

SECONDS = 60.0


@contextmanager
def local_spark(cores: int, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Begin a Spark with so many cores, and 2 GB by default, and end it with its JVM."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(f"local[{cores}]").appName("featuregate benchmarks")
    for name, value in {"spark.driver.memory": "2g", **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
        gateway = SparkContext._gateway  # noqa: SLF001 - PySpark would keep the JVM, with its settings
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        SparkSession.builder._options.clear()  # noqa: SLF001
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(SECONDS)
