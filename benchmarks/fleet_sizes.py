"""The fleet pipeline of a large company: months of usage, a thousand runs, and very many small files.

Each stands beside what the same Spark does with the same data at the least.
"""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark
from fleet import bare, clocked, of_cores
from local_spark import local_spark
from measuring import Row, Sample, Section, announce, at_most, beside, each, take_turns
from pyspark.sql import functions as f
from request_logs import Mix, made_lines

from featuregate.jars.spark import delta_lake
from featuregate_fleet import Fleet
from featuregate_fleet.evidence.columns import API_USAGE
from featuregate_fleet.stream.ingestion import Ingestion, Inputs
from featuregate_fleet.stream.session import SETTINGS
from featuregate_fleet.stream.upkeep import compact
from featuregate_fleet.tables.folder import BatchId, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BROKERS, CLIENTS, APIS, DAYS = (int(size) for size in os.environ.get("FLEET_USAGE", "100,500,8,90").split(","))
"""What determines the number of rows a day; the last week is hourly, as ``fleet compact`` leaves it."""
RUNS: Final = int(os.environ.get("FLEET_RUNS", "1000"))
"""Hourly runs, one file of each broker in each."""
FILES: Final = int(os.environ.get("FLEET_FILES", "100000"))
"""Small files, beside a thousandth of them with the same bytes."""
LINES_A_FILE: Final = 20
CORES: Final = 2
MEMORY: Final = "3g"
READINESS_BAR, FILES_BAR, GROWTH_BAR, SECONDS_BAR = 2.5, 1.5, 1.1, 60.0
KEPT_HOURLY: Final = 7
NOW: Final = datetime(2026, 11, 27, 10, 30, tzinfo=UTC)


def run(rounds: int) -> Section:
    settings = {
        **SETTINGS,
        "spark.driver.extraClassPath": f"{delta_lake(pyspark.__version__)}/*",
        "spark.driver.memory": MEMORY,
    }
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="featuregate-fleet-sizes-") as folder,
        local_spark(CORES, settings) as spark,
    ):
        rows += months(spark, Path(folder, "months"), rounds)
        rows += hourly_runs(spark, Path(folder, "runs"))
        rows += small_files(spark, Path(folder, "files"))
    return Section(name="fleet-sizes", title="The fleet pipeline of a large company", rows=tuple(rows), notes=NOTES)


NOTES: Final = (
    (
        f"The table of usage has {BROKERS} brokers, {CLIENTS} clients with {APIS} APIs each, and {DAYS} days, of which "
        f"the last {KEPT_HOURLY} are hourly: FLEET_USAGE has other numbers. Spark makes the rows, and the writer and "
        "`fleet compact` of the pipeline write them; of days that become daily, a client is in one hour. The bare "
        "group-by adds up the same table by client, API and version."
    ),
    (
        "A run reads one new file of each of three brokers. Its time is that of `fleet run --once` in a Spark that "
        "runs already; the peer is the same at the beginning. Files that were read stay where they are."
    ),
    (
        f"A small file has {LINES_A_FILE} lines, and a large one a thousand times as many. Both are read into all "
        "tables; a bare from_json shows what small files cost Spark itself."
    ),
)


# ---------------------------------------------------------------- months of usage


def months(spark: SparkSession, folder: Path, rounds: int) -> list[Row]:
    """Judge a move from months of usage, beside a bare group-by of the same table."""
    tables = Tables(spark, folder, "bench")
    a_day = BROKERS * CLIENTS * APIS
    announce(f"  writing {a_day * DAYS:,} rows of days, {KEPT_HOURLY} of them as {a_day * KEPT_HOURLY * 24:,} of hours")
    midnight = NOW.replace(hour=0, minute=0)
    for number, back in enumerate(range(DAYS, 0, -1)):
        day = midnight - timedelta(days=back)
        tables.append("api_usage", usage(spark, day, 24 if back <= KEPT_HOURLY else 1), BatchId("bench", number))
    tables.expect((), {str(number) for number in range(1, BROKERS + 1)})
    compacting = clocked(lambda: compact(tables, NOW))
    count = tables.read("api_usage").count()
    words = f"{count / 1e6:,.1f} million rows, {of_cores(CORES)}"
    fleet = Fleet(spark, folder, "bench")
    took = take_turns(
        words,
        rounds,
        {
            "readiness": lambda: clocked(lambda: fleet.readiness(to="4.2")),
            "bare group-by": lambda: clocked(lambda: grouped(tables)),
        },
        "s",
    )
    return [
        at_most(READINESS_BAR, f"readiness, {words}", took["readiness"], took["bare group-by"]),
        each(SECONDS_BAR, f"readiness, {words}", took["readiness"]),
        each(None, f"compact, {words}", Sample("compact", "s", (compacting,))),
    ]


def usage(spark: SparkSession, day: datetime, hours: int) -> DataFrame:
    """Return the rows of one day: as many for each client, API and broker as it has hours that are written."""
    number = f.col("id")
    client = (number / (BROKERS * APIS * hours)).cast("int")
    of_day = (number % hours if hours > 1 else client % 24).cast("int")
    hour = f.timestamp_micros(f.lit(int(day.timestamp()) * 1_000_000)) + f.make_dt_interval(hours=of_day)
    found: dict[str, Any] = {
        "broker": (1 + (number / (APIS * hours)).cast("int") % BROKERS).cast("string"),
        "hour": hour,
        "outcome": f.lit("completed"),
        "level": f.lit("DEBUG"),
        "listener": f.lit("CLIENT"),
        "forwarded": f.lit(False),  # noqa: FBT003
        "principal": f.concat(f.lit("User:team-"), (client % 40).cast("string")),
        "client_id": f.concat(f.lit("client-"), client.cast("string")),
        "client_host": f.concat(f.lit("10.0.0."), (client % 250).cast("string")),
        "software_name": f.lit("apache-kafka-java"),
        "software_version": f.concat(f.lit("3."), (client % 9).cast("string"), f.lit(".0")),
        "api_key": ((number / hours).cast("int") % APIS).cast("int"),
        "version": (4 + client % 8).cast("int"),
        "count": f.lit(100),
        "first_seen": hour,
        "last_seen": hour + f.expr("interval 50 minutes"),
        "text_log": f.lit(False),  # noqa: FBT003
        "hours": f.lit(1),
    }
    return spark.range(BROKERS * CLIENTS * APIS * hours).select([found[name].alias(name) for name in API_USAGE.names])


def grouped(tables: Tables) -> None:
    """Add up all usage by client, API and version."""
    who = ("principal", "client_id", "software_name", "software_version", "api_key", "version")
    tables.read("api_usage").groupBy(*who).agg(f.sum("count"), f.min("first_seen"), f.max("last_seen")).collect()


# ---------------------------------------------------------------- many runs


def hourly_runs(spark: SparkSession, folder: Path) -> list[Row]:
    """Run again and again, as cron does, and compare the last runs with the first ones."""
    announce(f"  {RUNS:,} runs")
    lines, took = made_lines(7, Mix()), []
    tables, inputs = Tables(spark, folder / "tables", "bench"), Inputs(cluster="bench", logs=folder / "logs")
    for number in range(RUNS):
        for broker in ("1", "2", "3"):
            file = folder / "logs" / broker / f"kafka-request.log.{number:05}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(next(lines) for _ in range(LINES_A_FILE)))
        took.append(clocked(lambda: Ingestion(spark, tables, inputs, announce).read(None)))
    tenth = max(1, RUNS // 10)
    first, last = sorted(took[tenth : 2 * tenth]), sorted(took[-tenth:])  # the very first ones are the JIT compiler's
    words = f"the last {tenth} of {RUNS:,} hourly runs"
    return [
        at_most(
            GROWTH_BAR,
            words,
            Sample(words, "s", (last[tenth // 2],)),
            Sample(f"runs {tenth + 1} to {2 * tenth}", "s", (first[tenth // 2],)),
        )
    ]


# ---------------------------------------------------------------- small files


def small_files(spark: SparkSession, folder: Path) -> list[Row]:
    """Read very many small files, and the same bytes in a thousandth of the files."""
    announce(f"  making {FILES:,} files of {LINES_A_FILE} lines")
    large = max(1, FILES // 1000)
    for name, files in (("small", FILES), ("large", large)):
        write_files(folder / name, files, FILES * LINES_A_FILE // files)
    took = {name: (clocked(partial(ingest, spark, folder, name)),) for name in ("large", "small")}
    of_bare = {name: (clocked(partial(bare, spark, folder / name)),) for name in ("large", "small")}
    words = f"{FILES:,} files of {LINES_A_FILE} lines, {of_cores(CORES)}"
    return [
        at_most(
            FILES_BAR,
            words,
            Sample("small files", "s", took["small"]),
            Sample(f"the same bytes in {large} files", "s", took["large"]),
        ),
        beside(
            f"bare from_json, {words}",
            Sample("bare from_json of small files", "s", of_bare["small"]),
            Sample(f"of the same bytes in {large} files", "s", of_bare["large"]),
        ),
    ]


def write_files(folder: Path, files: int, lines: int) -> None:
    made = made_lines(7, Mix())
    for number in range(files):
        file = folder / str(1 + number % 3) / f"kafka-request.log.{number:06}"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w") as text:
            text.writelines(next(made) for _ in range(lines))


def ingest(spark: SparkSession, folder: Path, name: str) -> None:
    """Read all files into tables of their own, and check that all lines are there."""
    tables = Tables(spark, folder / f"{name} tables", "bench")
    counts = Ingestion(spark, tables, Inputs(cluster="bench", logs=folder / name), announce).read(None)
    assert counts.read >= FILES * LINES_A_FILE, counts
