"""A Spark session for a test, with the test's settings and a JVM of its own."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager
from tempfile import TemporaryDirectory

from pyspark import SparkContext
from pyspark.sql import SparkSession
from waiting import BOUND

from featuregate_fleet.runs.session import settings as fleet_settings
from featuregate_spark.session_kind import is_stopped

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.python.authenticate.socketTimeout": "60s",
}


def class_path() -> str:
    """Return the jars of Spark's Kafka connector and of Delta Lake: all tests have one class path, and one archive."""
    return fleet_settings({})["spark.driver.extraClassPath"]


@contextmanager
def local_spark(master: str = "local[2]", **settings: str) -> Iterator[SparkSession]:
    """Start a Spark with its Kafka connector; at the end stop it, and its JVM.

    A setting may be spelled with underscores for dots: ``spark_python_worker_reuse="false"``.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the machine's own Python has none of what is tested
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] = "60"  # of Spark's own 15 s a busy machine may need more
    builder = SparkSession.builder.master(master).appName("featuregate tests")
    jars = dict.fromkeys(("spark.driver.extraClassPath", "spark.executor.extraClassPath"), class_path())
    for name, value in {
        **SETTINGS,
        **jars,
        **{key if "." in key else key.replace("_", "."): value for key, value in settings.items()},
    }.items():
        builder = builder.config(name, value)
    with own_jvm(builder.getOrCreate) as spark:
        spark.sparkContext.setLogLevel("OFF")  # tasks that fail are what is tested
        yield spark


@contextmanager
def own_jvm(begin: Callable[[], SparkSession]) -> Iterator[SparkSession]:
    """Start a session with a JVM of its own, and leave nothing of either behind."""
    assert SparkContext._gateway is None, "the JVM of another test still runs: its settings would count here"
    interrupted = signal.getsignal(signal.SIGINT)  # PySpark takes it, and never gives it back
    with TemporaryDirectory() as folder, ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGINT, interrupted)
        stack.callback(_end_jvm)
        with chdir(folder):  # the JVM leaves folders wherever it was begun
            spark = begin()
        try:
            yield spark
        finally:
            if not is_stopped(spark):
                spark.stop()


def _end_jvm() -> None:
    """End the JVM, which PySpark would keep for the next session, with its first settings."""
    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession.builder._options.clear()
    if gateway is None:
        return  # it never began, or another test has ended it
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(BOUND)  # a JVM that writes its classes needs a minute of processor time
