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

import pyarrow as pa
import pyspark
from fleet import bare, clocked, of_cores, processor_time
from local_spark import local_spark
from measuring import Row, Sample, Section, announce, at_most, beside, each, take_turns
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from request_logs import Mix, made_lines

from featuregate.jars.spark import delta_lake
from featuregate_fleet import Fleet
from featuregate_fleet.evidence.columns import BY_LOG, HOUR, KINDS, ROWS, USAGE, rows_from
from featuregate_fleet.runs.ingestion import Ingestion, Inputs
from featuregate_fleet.runs.session import SETTINGS
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_spark.arrow_tables import from_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

BROKERS, CLIENTS, APIS, DAYS = (int(size) for size in os.environ.get("FLEET_USAGE", "100,500,8,90").split(","))
"""What determines the number of rows a day."""
RUNS: Final = int(os.environ.get("FLEET_RUNS", "1000"))
"""Hourly runs, one file of each broker in each."""
FILES: Final = int(os.environ.get("FLEET_FILES", "2000"))
"""Small files, beside two with the same bytes."""
LARGE: Final = 2
LINES_A_FILE: Final = 20
CORES: Final = 2
READINESS_BAR, FILES_BAR, BARE_FILES_BAR, GROWTH_BAR, SECONDS_BAR = 2.5, 2.5, 1.5, 1.1, 60.0
NOTHING_BAR, ONE_FILE_BAR = 0.1, 2.0
NOW: Final = datetime(2026, 11, 27, 10, 30, tzinfo=UTC)


def run(rounds: int) -> Section:
    settings = {
        **SETTINGS,
        "spark.sql.codegen.aggregate.map.twolevel.enabled": "true",  # of the peer; the fleet has a session of its own
        "spark.driver.extraClassPath": f"{delta_lake(pyspark.__version__)}/*",
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
        f"The table has usage of {BROKERS} brokers, {CLIENTS} clients with {APIS} APIs each, and {DAYS} days: "
        "FLEET_USAGE has other numbers. The bare group-by adds up the same rows by client, API and version. Spark has "
        "the memory that the fleet gives it by default."
    ),
    (
        "A run reads one new file of each of three brokers. Its time is that of `fleet run --once` in a Spark that "
        "runs already; the peer is the same at the beginning. Files that were read stay where they are. A run with "
        "nothing new, and one with one small file, are those of `fleet run` without `--once`, by processor time."
    ),
    (
        f"A small file has {LINES_A_FILE} lines. Rows of all kinds are written; a bare from_json shows what small "
        "files cost Spark itself."
    ),
)


# ---------------------------------------------------------------- months of usage


def months(spark: SparkSession, folder: Path, rounds: int) -> list[Row]:
    """Judge a move from months of usage, beside a bare group-by of the same table."""
    table = EvidenceTable(spark, folder, "bench")
    announce(f"  writing {BROKERS * CLIENTS * APIS * DAYS:,} rows of days")
    midnight = NOW.replace(hour=0, minute=0)
    for number, back in enumerate(range(DAYS, 0, -1)):
        day = midnight - timedelta(days=back)
        run = from_arrow(spark, pa.Table.from_batches([rows_from("run", [{"folders": [*map(str, range(BROKERS))]}])]))
        rows = usage(spark, day).unionByName(hours(spark, day)).unionByName(run)
        table.append(rows, number)
    table.join_files()
    words = f"{table.rows('usage').count() / 1e6:,.1f} million rows, {of_cores(CORES)}"
    fleet = Fleet(spark, folder, "bench")
    took = take_turns(
        words,
        rounds,
        {
            "readiness": lambda: clocked(lambda: fleet.readiness(to="4.2")),
            "bare group-by": lambda: clocked(lambda: grouped(table)),
        },
        "s",
    )
    return [
        at_most(READINESS_BAR, f"readiness, {words}", took["readiness"], took["bare group-by"]),
        each(SECONDS_BAR, f"readiness, {words}", took["readiness"]),
    ]


def usage(spark: SparkSession, day: datetime) -> DataFrame:
    """Return the usage of one day: a row for each client, API and broker."""
    number = f.col("id")
    client = (number / (BROKERS * APIS)).cast("int")
    seen = f.timestamp_micros(f.lit(int(day.timestamp()) * 1_000_000)) + f.make_dt_interval(hours=client % 24)
    found: dict[str, Any] = {
        "broker": (1 + (number / APIS).cast("int") % BROKERS).cast("string"),
        "day": f.lit(day.date()),
        "outcome": f.lit("completed"),
        "listener": f.lit("CLIENT"),
        "forwarded": f.lit(False),  # noqa: FBT003
        "principal": f.concat(f.lit("User:team-"), (client % 40).cast("string")),
        "client_id": f.concat(f.lit("client-"), client.cast("string")),
        "client_host": f.concat(f.lit("10.0.0."), (client % 250).cast("string")),
        "software_name": f.lit("apache-kafka-java"),
        "software_version": f.concat(f.lit("3."), (client % 9).cast("string"), f.lit(".0")),
        "api_key": (number % APIS).cast("int"),
        "version": (4 + client % 8).cast("int"),
        "connection": f.lit(None).cast("string"),
        "count": f.lit(100).cast("long"),
        "first_seen": seen,
        "last_seen": seen + f.expr("interval 50 minutes"),
    }
    return of_kind("usage", spark.range(BROKERS * CLIENTS * APIS), [found[name].alias(name) for name in USAGE.names])


def hours(spark: SparkSession, day: datetime) -> DataFrame:
    """Return the hours of one day in which brokers logged: all of them."""
    number = f.col("id")
    begin = f.timestamp_micros(f.lit(int(day.timestamp()) * 1_000_000)) + f.make_dt_interval(hours=number % 24)
    found: dict[str, Any] = {
        "broker": (1 + number / 24).cast("int").cast("string"),
        "hour": begin,
        "by": f.lit(BY_LOG),
        "level": f.lit("DEBUG"),
        "asked": f.lit(False),  # noqa: FBT003
        "failure": f.lit(None).cast("string"),
        "count": f.lit(CLIENTS * APIS * 100).cast("long"),
        "first_seen": begin,
        "last_seen": begin + f.expr("interval 59 minutes"),
    }
    return of_kind("hour", spark.range(BROKERS * 24), [found[name].alias(name) for name in HOUR.names])


def of_kind(kind: str, rows: DataFrame, columns: list[Column]) -> DataFrame:
    """Return rows of one kind as those of all kinds."""
    types = from_arrow_schema(ROWS)
    others = {name: f.lit(None).cast(types[name].dataType) for name in KINDS}
    structs = others | {kind: f.struct(*columns).cast(types[kind].dataType)}
    return rows.select(f.lit(kind).alias("kind"), *(structs[name].alias(name) for name in KINDS))


def grouped(table: EvidenceTable) -> None:
    """Add up all usage by client, API and version."""
    who = ("principal", "client_id", "software_name", "software_version", "api_key", "version")
    table.rows("usage").groupBy(*who).agg(f.sum("count"), f.min("first_seen"), f.max("last_seen")).collect()


# ---------------------------------------------------------------- many runs


def hourly_runs(spark: SparkSession, folder: Path) -> list[Row]:
    """Run again and again, as cron does, and compare the last runs with the first ones."""
    announce(f"  {RUNS:,} runs")
    lines, took = made_lines(7, Mix()), []
    table, inputs = EvidenceTable(spark, folder / "tables", "bench"), Inputs(cluster="bench", logs=folder / "logs")
    for number in range(RUNS):
        for broker in ("1", "2", "3"):
            write_file(folder / "logs" / broker / f"kafka-request.log.{number:05}", lines)
        took.append(clocked(lambda: Ingestion(spark, table, inputs, announce).read(None)))
    loop, costs = Ingestion(spark, table, inputs, announce), dict[str, list[float]](nothing=[], one=[])
    loop.read(None)
    for number in range(10):
        costs["nothing"].append(cost_of(lambda: loop.read(None)))
        write_file(folder / "logs" / "1" / f"kafka-request.log.new-{number}", lines)
        costs["one"].append(cost_of(lambda: loop.read(None)))
    tenth = max(1, RUNS // 10)
    first, last = sorted(took[tenth : 2 * tenth]), sorted(took[-tenth:])  # the very first ones are the JIT compiler's
    words = f"the last {tenth} of {RUNS:,} hourly runs"
    return [
        at_most(
            GROWTH_BAR,
            words,
            Sample(words, "s", (last[tenth // 2],)),
            Sample(f"runs {tenth + 1} to {2 * tenth}", "s", (first[tenth // 2],)),
        ),
        each(NOTHING_BAR, "a run with nothing new", Sample("nothing new", "CPU s", tuple(costs["nothing"]))),
        each(ONE_FILE_BAR, "a run with one small file", Sample("one small file", "CPU s", tuple(costs["one"]))),
    ]


def write_file(file: Path, lines: Iterator[str]) -> None:
    """Write the next lines into a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(next(lines) for _ in range(LINES_A_FILE)))


def cost_of(work: Callable[[], object]) -> float:
    """Return the processor time of this process and of all that it started."""
    before = processor_time()
    work()
    return processor_time() - before


# ---------------------------------------------------------------- small files


def small_files(spark: SparkSession, folder: Path) -> list[Row]:
    """Read small files, and the same bytes in two files, beside a bare from_json over both."""
    announce(f"  making {FILES:,} files of {LINES_A_FILE} lines")
    for name, files in (("small", FILES), ("large", LARGE)):
        write_files(folder / name, files, FILES * LINES_A_FILE // files)
    works: dict[str, Callable[[], object]] = {
        "small": partial(ingest, spark, folder, "small"),
        "large": partial(ingest, spark, folder, "large"),
        "bare small": partial(bare, spark, folder / "small"),
        "bare large": partial(bare, spark, folder / "large"),
    }
    for work in works.values():
        work()  # the first run of a JVM is its compiler's
    took = {name: Sample(name, "CPU s", tuple(cost_of(work) for _ in range(3))) for name, work in works.items()}
    words = f"{FILES:,} files of {LINES_A_FILE} lines, {of_cores(CORES)}"
    return [
        at_most(BARE_FILES_BAR, f"beside bare from_json, {words}", took["small"], took["bare small"]),
        at_most(FILES_BAR, f"beside the same bytes in {LARGE} files, {words}", took["small"], took["large"]),
        beside(f"bare from_json, {words}", took["bare small"], took["bare large"]),
    ]


def write_files(folder: Path, files: int, lines: int) -> None:
    made = made_lines(7, Mix())
    for number in range(files):
        file = folder / str(1 + number % 3) / f"kafka-request.log.{number:06}"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w") as text:
            text.writelines(next(made) for _ in range(lines))


def ingest(spark: SparkSession, folder: Path, name: str) -> None:
    """Read all files into a table of their own, and check that all lines are there."""
    with tempfile.TemporaryDirectory(prefix="featuregate-fleet-table-") as tables:
        table = EvidenceTable(spark, Path(tables), "bench")
        found = Ingestion(spark, table, Inputs(cluster="bench", logs=folder / name), announce).read(None)
        assert found.read >= FILES * LINES_A_FILE, found
