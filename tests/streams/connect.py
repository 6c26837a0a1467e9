"""A Spark Connect server for a test, in a JVM of this process; and its client."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from streams.sessions import SETTINGS, own_jvm

LEFT_BEHIND = ("SPARK_CONNECT_AUTHENTICATE_TOKEN", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_REMOTE")


@contextmanager
def connect_spark(master: str = "local[2]") -> Iterator[SparkSession]:
    """Start a server and a session of it; at the end stop both, and the JVM of the server."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the machine's own Python has none of what is tested
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.remote(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)

    def begin() -> SparkSession:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the client sets what the server was begun with again, in vain
            return builder.getOrCreate()

    try:
        with own_jvm(begin) as spark:
            yield spark
    finally:
        for name in LEFT_BEHIND:
            os.environ.pop(name, None)
