"""The fleet pipeline: request logs into tables, beside a bare `from_json` on the same Spark and a Python script."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from measuring import Row, Sample, Section, announce, as_fast_as, beside, each, take_turns
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from request_logs import Mix, write_logs

from featuregate.testing.local_kafka.jars import delta_lake
from featuregate_fleet.stream.request_logs import drain
from featuregate_fleet.stream.session import DELTA, SETTINGS
from featuregate_fleet.tables.delta import DeltaTables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["run"]

LINES = int(os.environ.get("FLEET_LINES", "1000000"))
CORES = (1, 2)
BAR = 1.25
SKEWED = 0.9
SKEW_BAR = 0.9
SECONDS = 60.0
SIX = (
    "requestHeader struct<requestApiKey:int,requestApiVersion:int,clientId:string>, principal string, "
    "listener string, clientInformation struct<softwareName:string>"
)


def run(rounds: int) -> Section:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="featuregate-fleet-bench-") as folder:
        logs, skewed = Path(folder, "logs"), Path(folder, "skewed")
        announce(f"  making {LINES:,} lines, twice")
        files = write_logs(logs, LINES)
        write_logs(skewed, LINES, mix=Mix(first=SKEWED))
        size = sum(file.stat().st_size for file in files)
        for cores in CORES:
            with local_spark(cores) as spark:
                rows += measured(spark, logs, skewed, rounds, cores)
    note = (
        f"{LINES:,} lines of {size / LINES:,.0f} bytes, of 200 clients and 3 brokers; FLEET_LINES has another number."
    )
    return Section(name="fleet", title="The fleet pipeline", rows=tuple(rows), notes=(note, *NOTES))


NOTES = (
    (
        "featuregate writes all tables, with quarantine and refused requests. The bare from_json reads the text, "
        "parses each line once and counts six fields; nothing is written. The Python script parses each line by json "
        "and counts by client, API and version, in one process."
    ),
)


def measured(spark: SparkSession, logs: Path, skewed: Path, rounds: int, cores: int) -> list[Row]:
    words = f"{cores} core{'s' if cores > 1 else ''}"
    peak = Sample("peak memory", "MB", ())

    def ours(folder: Path) -> Callable[[], float]:
        def once() -> float:
            nonlocal peak
            with tempfile.TemporaryDirectory(prefix="featuregate-fleet-tables-") as tables:
                with watched() as seen:
                    took = clocked(lambda: drain(spark, folder, DeltaTables(spark, Path(tables), "bench")))
                peak = Sample(peak.name, peak.unit, (*peak.values, seen[0] / 1e6))
            return LINES / took

        return once

    contestants = {
        "featuregate": ours(logs),
        "bare from_json": lambda: LINES / clocked(lambda: bare(spark, logs)),
        "Python": lambda: LINES / clocked(lambda: script(logs)),
        "one client with 90 %": ours(skewed),
    }
    contestants["featuregate"]()
    contestants["bare from_json"]()
    took = take_turns(f"request logs, {words}", rounds, contestants, "lines/s")
    mine = took["featuregate"]
    return [
        as_fast_as(BAR, f"all tables written, {words}", mine, took["bare from_json"]),
        beside(f"beside a Python script in one process, {words}", mine, took["Python"]),
        as_fast_as(SKEW_BAR, f"90 % of one client, {words}", took["one client with 90 %"], mine),
        each(None, f"memory of Spark and its workers, at most, {words}", peak),
    ]


def clocked(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def bare(spark: SparkSession, logs: Path) -> None:
    text = spark.read.option("recursiveFileLookup", "true").text(str(logs))
    body = f.from_json(f.substring_index("value", "Completed request:", -1), SIX).alias("r")
    fields = ("requestHeader.requestApiKey", "requestHeader.requestApiVersion", "requestHeader.clientId")
    six = [f.count(f"r.{name}") for name in (*fields, "principal", "listener", "clientInformation.softwareName")]
    counted = text.select(body).agg(*six).collect()[0]
    assert counted[0] == LINES


SCRIPT = """
import json, pathlib, sys
from collections import Counter
found = Counter()
for file in pathlib.Path(sys.argv[1]).rglob("kafka-request.log.*"):
    with file.open() as lines:
        for line in lines:
            made, _ = json.JSONDecoder().raw_decode(line, line.index("Completed request:") + 18)
            head = made["requestHeader"]
            found[made["principal"], head["clientId"], head["requestApiKey"], head["requestApiVersion"]] += 1
print(sum(found.values()))
"""


def script(logs: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(logs)], check=True, capture_output=True, text=True)
    assert int(done.stdout) == LINES


@contextmanager
def watched() -> Iterator[list[float]]:
    """Measure the memory of this process's children until the end: the JVM, and the workers of Spark."""
    most, over = [0.0], threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            sizes = 0
            for child in psutil.Process().children(recursive=True):
                try:
                    sizes += child.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            most[0] = max(most[0], sizes)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        over.set()
        looking.join()


@contextmanager
def local_spark(cores: int) -> Iterator[SparkSession]:
    """Begin a Spark with so many cores and the settings of the pipeline, and end it with its JVM."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    jars = f"{delta_lake(DELTA)}/*"
    builder = SparkSession.builder.master(f"local[{cores}]").appName("featuregate benchmarks")
    for name, value in {**SETTINGS, "spark.driver.extraClassPath": jars, "spark.driver.memory": "2g"}.items():
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
