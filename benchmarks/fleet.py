"""The fleet pipeline: request logs into tables, beside a bare `from_json` on the same Spark and a Python script.

Records of coordinators stand beside a bare read.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark
from coordinators import NOTE as OF_COORDINATORS
from coordinators import coordinators
from local_spark import local_spark
from measuring import Row, Sample, Section, announce, as_fast_as, beside, each, take_turns
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from request_logs import GARBAGE, LINES_A_SECOND, REFUSED, Mix, write_logs

from featuregate.jars.spark import delta_lake
from featuregate_fleet.runs.ingestion import Ingestion, Inputs
from featuregate_fleet.runs.session import SETTINGS
from featuregate_fleet.tables.evidence_table import EvidenceTable

SIZES = tuple(int(size) for size in os.environ.get("FLEET_LINES", "1000000,10000000").split(","))
"""Lines. All contestants read the first size on each number of cores; two of them read the others on all cores."""
DISTINCT = 10_000_000
"""Up to so many lines are made one by one; more are the same files, linked, so that they fit into memory."""
WARM = 100_000
CORES = (1, 2)
BAR = 1.25
LINEAR_BAR = 0.9
SKEWED = 0.9
SKEW_BAR = 0.9
SIX = (
    "requestHeader struct<requestApiKey:int,requestApiVersion:int,clientId:string>, principal string, "
    "listener string, clientInformation struct<softwareName:string>"
)


def run(rounds: int) -> Section:
    rows: list[Row] = []
    first, *larger = SIZES
    with tempfile.TemporaryDirectory(prefix="featuregate-fleet-bench-") as folder:
        logs, skewed = Path(folder, "logs"), Path(folder, "skewed")
        announce(f"  making {first:,} lines, twice")
        files = write_logs(logs, first)
        last = first, logs
        write_logs(skewed, first, mix=Mix(first=SKEWED))
        write_logs(warm := Path(folder, "warm"), WARM)
        bytes_a_line = sum(file.stat().st_size for file in files) / first
        settings = {**SETTINGS, "spark.driver.extraClassPath": f"{delta_lake(pyspark.__version__)}/*"}
        for cores in CORES:
            announce(f"  Spark with {of_cores(cores)}")
            with local_spark(cores, settings) as spark:
                for contestant in contestants(_Reading(spark, warm, WARM)).values():
                    contestant()  # the first run of a JVM is its compiler's
                found = measured(spark, logs, skewed, rounds, cores)
                rows += found
                if cores == max(CORES):
                    for size in larger:
                        last = size, larger_logs(Path(folder, str(size)), size, *last)
                        rows += grown(spark, last[1], size, found[0].ours)
    note = (
        f"Lines of {bytes_a_line:,.0f} bytes on average, of 200 clients and 3 brokers; FLEET_LINES has other numbers."
    )
    rows += coordinators(rounds)
    return Section(name="fleet", title="The fleet pipeline", rows=tuple(rows), notes=(note, *NOTES, OF_COORDINATORS))


NOTES = (
    (
        f"{100 * GARBAGE:g} % of the lines is garbage, and one request of {1 / REFUSED:,.0f} is refused, of which a "
        "broker logs four lines. All kinds of rows are written by Delta Lake: usage, with the refused requests, hours, "
        "quarantine and sources. The bare from_json reads "
        "the same text, parses each line once and counts six fields; nothing is written. The Python script parses each "
        "line that it can by json, and counts by client, API and version, in one process. All of them find the same "
        f"number of requests. {LINES_A_SECOND:,} lines are a second of a log, so that more lines are more hours, and "
        f"more rows of api_usage. Beyond {DISTINCT / 1e6:g} million lines, the same files are linked as often as "
        "needed, so that they fit into the memory of the system."
    ),
)


class _Reading:
    """Runs over one folder: how long each took, what it cost, and the most memory."""

    def __init__(self, spark: SparkSession, logs: Path, lines: int) -> None:
        self._spark, self._logs, self._lines = spark, logs, lines
        self._requests: int | None = None
        self._peaks: list[float] = []
        self._costs: dict[str, list[float]] = {"featuregate": [], "bare from_json": []}

    def ours(self) -> float:
        """Write all kinds of rows; lines a second."""
        with tempfile.TemporaryDirectory(prefix="featuregate-fleet-tables-") as folder:
            table = EvidenceTable(self._spark, Path(folder), "bench")
            inputs = Inputs(cluster="bench", logs=self._logs)
            with watched() as seen:
                rate = self._rate("featuregate", lambda: Ingestion(self._spark, table, inputs, announce).read(None))
            self.check(written(table, self._lines))
        self._peaks.append(seen[0] / 1e6)
        return rate

    def bare(self) -> float:
        """Parse all lines by Spark; lines a second."""
        return self._rate("bare from_json", lambda: self.check(bare(self._spark, self._logs)))

    def python(self) -> float:
        """Parse all lines by a script; lines a second."""
        return self._lines / clocked(lambda: self.check(script(self._logs)))

    def check(self, requests: int) -> None:
        """Check that all find the same number of requests."""
        assert requests
        assert self._requests in {None, requests}, (self._requests, requests)
        self._requests = requests

    def cost(self, name: str) -> Sample:
        """Return the lines for each second of processor time."""
        return Sample(name, "lines/CPU s", tuple(self._costs[name]))

    def peak(self) -> Sample:
        """Return the memory of ours."""
        return Sample("peak memory", "MB", tuple(self._peaks))

    def _rate(self, name: str, work: Callable[[], object]) -> float:
        before = processor_time()
        took = clocked(work)
        self._costs[name].append(self._lines / (processor_time() - before))
        return self._lines / took


def measured(spark: SparkSession, logs: Path, skewed: Path, rounds: int, cores: int) -> list[Row]:
    size = SIZES[0]
    ours, other = _Reading(spark, logs, size), _Reading(spark, skewed, size)
    all_of_them = {**contestants(ours), "one client with 90 %": other.ours}
    if cores == 1:
        all_of_them["Python"] = ours.python
    words = f"{size / 1e6:g} million lines, {of_cores(cores)}"
    took = take_turns(words, rounds, all_of_them, "lines/s")
    mine = took["featuregate"]
    rows = [*compared(words, mine, took["bare from_json"], ours)]
    if cores == 1:
        rows.append(beside(f"beside a Python script in one process, {words}", mine, took["Python"]))
    rows.append(as_fast_as(SKEW_BAR, f"90 % of one client, {words}", took["one client with 90 %"], mine))
    rows.append(each(None, f"memory of Spark and its workers, at most, {words}", ours.peak()))
    return rows


def grown(spark: SparkSession, logs: Path, size: int, small: Sample) -> list[Row]:
    """Read many lines, once."""
    reading = _Reading(spark, logs, size)
    words = f"{size / 1e6:g} million lines, {of_cores(max(CORES))}"
    took = take_turns(words, 1, contestants(reading), "lines/s")
    mine = took["featuregate"]
    before = Sample(f"{SIZES[0] / 1e6:g} million", small.unit, (small.median,))
    return [
        # Not by processor time: of processes that end during a long run some of it was missing, for a reason not found.
        as_fast_as(BAR, f"all kinds written, {words}", mine, took["bare from_json"]),
        as_fast_as(LINEAR_BAR, f"linear, {words}", mine, before),
        each(None, f"memory of Spark and its workers, at most, {words}", reading.peak()),
    ]


def contestants(reading: _Reading) -> dict[str, Callable[[], float]]:
    return {"featuregate": reading.ours, "bare from_json": reading.bare}


def compared(words: str, mine: Sample, peer: Sample, reading: _Reading) -> list[Row]:
    """Hold ours against the bare from_json, by the clock and by processor time."""
    return [
        as_fast_as(BAR, f"all kinds written, {words}", mine, peer),
        beside(f"the same by processor time, {words}", reading.cost("featuregate"), reading.cost("bare from_json")),
    ]


def larger_logs(folder: Path, size: int, made: int, logs: Path) -> Path:
    """Return a folder with so many lines: others, or too many of them, links to the files that were made last."""
    if size <= DISTINCT:
        announce(f"  making {size:,} lines")
        write_logs(folder, size)
        os.sync()  # so that nothing is written while something is measured
        return folder
    times, left = divmod(size, made)
    assert not left, f"{size:,} lines are no multiple of {made:,}"
    return linked(logs, folder, times)


def linked(logs: Path, folder: Path, times: int) -> Path:
    """Make a folder with so many copies of the logs, which take no room."""
    for file in logs.rglob("kafka-request.log.*"):
        for copy in range(times):
            link = folder / file.parent.name / f"{file.name}-{copy}"
            link.parent.mkdir(parents=True, exist_ok=True)
            os.link(file, link)
    return folder


def of_cores(cores: int) -> str:
    return f"{cores} core{'s' if cores > 1 else ''}"


def processor_time() -> float:
    """Return the seconds of processor time of this process and all that it started, also of those that ended."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # its parent has its time now
            total += sum(process.cpu_times()[:4])
    return total


def clocked(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def written(table: EvidenceTable, lines: int) -> int:
    """Check that all lines are in the table, and some rows of each kind; return the number of requests."""
    sources = table.rows("source").agg(f.sum("read"), f.sum("quarantined")).collect()[0]
    by_outcome = table.rows("usage").groupBy("outcome").agg(f.sum("count").alias("requests"))
    usage = {row.outcome: row.requests for row in by_outcome.collect()}
    hours = table.rows("hour").agg(f.sum("count")).collect()[0]
    assert sources[0] == lines
    assert sources[1] == table.rows("quarantine").count() > 0
    assert usage["refused"] > 0
    assert hours[0] == usage["completed"]
    return int(usage["completed"])


def bare(spark: SparkSession, logs: Path) -> int:
    text = spark.read.option("recursiveFileLookup", "true").text(str(logs))
    body = f.from_json(f.substring_index("value", "Completed request:", -1), SIX).alias("r")
    fields = ("requestHeader.requestApiKey", "requestHeader.requestApiVersion", "requestHeader.clientId")
    six = [f.count(f"r.{name}") for name in (*fields, "principal", "listener", "clientInformation.softwareName")]
    return int(text.select(body).agg(*six).collect()[0][0])


SCRIPT = """
import json, pathlib, sys
from collections import Counter
found = Counter()
for file in pathlib.Path(sys.argv[1]).rglob("kafka-request.log.*"):
    with file.open() as lines:
        for line in lines:
            try:
                made, _ = json.JSONDecoder().raw_decode(line, line.index("Completed request:") + 18)
            except ValueError:
                continue
            head = made["requestHeader"]
            found[made["principal"], head["clientId"], head["requestApiKey"], head["requestApiVersion"]] += 1
print(sum(found.values()))
"""


def script(logs: Path) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(logs)], check=True, capture_output=True, text=True)
    return int(done.stdout)


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
