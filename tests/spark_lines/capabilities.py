"""Runs the capabilities of the project with the PySpark that this Python has, and says which of them work.

``python capabilities.py BOOTSTRAP FOLDER`` prints a JSON object: for each capability "yes", or why not. All of them run
in one JVM. The process that starts it sets ``PYTHONPATH``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from confluent_kafka import Producer
from fleet_batches import two_commit_a_number
from fleet_lines import document, line_of
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from topics import committed_values, create_topics

from featuregate.cli import main as featuregate
from featuregate.jars.spark_lines import line_of as spark_line_of
from featuregate_fleet.runs.session import session_beside, settings
from featuregate_spark import FeatureSession, Snapshot, SparkFailed, cause_of
from featuregate_spark.events import StreamProgressed

if TYPE_CHECKING:
    from collections.abc import Callable

    from featuregate_fleet import Fleet

ROWS = 3000
TV2 = "transaction.version>=2"


class Crash(Exception):
    """The function of an app raises it after its side effects."""


class Trial:
    """A Spark, a broker and a folder."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.client = {"bootstrap.servers": bootstrap}
        self.folder = folder
        self.topic = f"line-{pyspark.__version__}"
        self.logs = folder / "logs"

    def session(self) -> None:
        """A gate is decided on the driver, and a Python function of the executors has the decision."""
        with FeatureSession(self.spark, self.bootstrap, gates={"tv2": TV2}) as features:
            assert features.environment().problems == (), features.environment().problems
            snapshot = features.snapshot()
            asked = f.udf(lambda _: bool(snapshot["tv2"].open), "boolean")
            rows = self.spark.range(2).select(asked("id").alias("open")).collect()
        assert [row["open"] for row in rows] == [True, True]

    def pins(self) -> None:
        """A batch that is run again has the pin of before."""
        inputs, checkpoint, seen = self.folder / "inputs", self.folder / "pins", []
        inputs.mkdir()
        (inputs / "0.txt").write_text("a\n")
        crashes = [Crash()]

        def function(rows: DataFrame, batch: int, pin: Snapshot) -> None:
            seen.append((rows.count(), batch, pin["tv2"].open))
            if crashes:
                raise crashes.pop()

        for _ in range(2):
            with FeatureSession(self.spark, self.bootstrap, gates={"tv2": TV2}) as features:
                write = features.foreach_batch(function, checkpoint=str(checkpoint))
                self._drain(self.spark.readStream.text(str(inputs)), write, checkpoint)
        assert seen == [(1, 0, True), (1, 0, True)], seen

    def sink(self) -> None:
        """The Kafka sink copies a topic once, though a batch fails in the middle and another one is replayed."""
        source, target, checkpoint = f"{self.topic}-in", f"{self.topic}-out", self.folder / "sink"
        create_topics(self.client, source, target, partitions=2)
        producer = Producer(self.client)
        for number in range(ROWS):
            producer.produce(source, f"{number:05}", partition=number % 2)
        producer.flush()
        crashes = [1]
        with FeatureSession(self.spark, self.bootstrap) as features:
            copy = features.kafka_sink("copies", target, shards=2, driver_rows=0)

            def write(rows: DataFrame, batch: int) -> None:
                copy(rows, batch)
                if batch in crashes:
                    crashes.remove(batch)
                    raise Crash

            rows = self._topic(source).option("maxOffsetsPerTrigger", ROWS // 3).load().select("key", "value")
            for _ in range(3):
                self._drain(rows, write, checkpoint)
        assert committed_values(self.client, target, partitions=2) == [f"{n:05}".encode() for n in range(ROWS)]

    def listener(self) -> None:
        """The listener reports each micro-batch."""
        told: list[object] = []
        inputs = self.folder / "heard"
        inputs.mkdir()
        (inputs / "0.txt").write_text("a\nb\n")
        with FeatureSession(self.spark, self.bootstrap, gates={"tv2": TV2}, metrics=told.append) as features:
            heard = features.listener()
            self.spark.streams.addListener(heard)
            write = features.foreach_batch(lambda rows, *_: rows.count(), checkpoint=str(self.folder / "told"))
            self._drain(self.spark.readStream.text(str(inputs)), write, self.folder / "told")
            self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
            self.spark.streams.removeListener(heard)
        progress = [event for event in told if isinstance(event, StreamProgressed)]
        assert [(event.rows, dict(event.gates)) for event in progress] == [(2, {"tv2": True})], told

    def kafka_features(self) -> None:
        """The data source lists the API ranges of each broker."""
        from featuregate_spark import KafkaFeatures  # noqa: PLC0415 - PySpark 3.5 has none

        self.spark.dataSource.register(KafkaFeatures)
        table = self.spark.read.format("kafka_features").option("kafka.bootstrap.servers", self.bootstrap).load()
        assert table.where("scope = 'cluster' and feature = 'TxnOffsetCommit' and max >= 3").count() == 1

    def fleet_run(self) -> None:
        """Logs and the answers of the cluster become rows: with a Spark of the command, and then with this one."""
        log = self.logs / "1" / "kafka-request.log.1"
        log.parent.mkdir(parents=True)
        log.write_text("\n".join([*self._lines("app", 300), "garbage", ""]))
        arguments = ["run", "--once", "--logs", str(self.logs), "--bootstrap-server", self.bootstrap]
        command = [sys.executable, "-m", "featuregate", *self._arguments(*arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert (done.returncode, done.stderr) == (0, ""), (done.returncode, done.stdout, done.stderr)
        assert "c: 301 lines read: 300 rows, 1 in quarantine" in done.stdout, done.stdout
        with log.open("a") as more:
            more.write("\n".join([*self._lines("later", 10), ""]))
        for lines in (10, 0):
            code, text = self._fleet(*arguments)
            assert (code, f"c: {lines} lines read: {lines} rows" in text) == (0, True), text

    def fleet_readiness(self) -> None:
        """The rows become a verdict."""
        code, text = self._fleet("readiness", "--to", "4.2", "--output", "json")
        report = json.loads(text)
        assert (code, report["lines"]["read"], report["lines"]["quarantined"]) == (3, 311, 1), (code, report)
        assert {row["client_id"] for row in report["rows"] if row["check"] == "api-versions"} >= {"app-0", "later-1"}

    def fleet_from_python(self) -> None:
        """A notebook has the same of its own session: counts, tables and a page."""
        fleet = self._of_python()
        (self.logs / "1" / "kafka-request.log.2").write_text("\n".join([*self._lines("python", 20), ""]))
        read = fleet.ingest(self.logs, self.bootstrap)
        assert (read.rows, read.totals.read, read.missing) == (20, 331, ()), read
        report = fleet.readiness(drop_api="Fetch<17", min_hours=0, stale_after=timedelta(days=9999))
        assert report.verdict == "block", report
        assert "python-0" in report.html()
        assert report.to_df().where("verdict = 'block'").count() > 0
        used = fleet.usage().groupBy("api").agg(f.sum("count").alias("count")).collect()
        assert {row["api"]: row["count"] for row in used} == {"Fetch": 330}, used
        assert fleet.table("source").where("reason is not null").count() == 0

    def fleet_two_runs(self) -> None:
        """One of two that commit a batch notices it: by an exception of Delta Lake, or where it leaves one out."""
        two_commit_a_number(session_beside(self.spark), self.folder)

    def fleet_tidy(self) -> None:
        """Old rows go, files are joined, and how far files are read stays."""
        assert self._fleet("tidy", "--older-than", "1")[0] == 0
        code, text = self._fleet("tidy", "--older-than", "1", "--forget", "User:audit", "--yes")
        assert (code, "usage: " in text) == (0, True), text
        fleet = self._of_python()
        assert fleet.usage().where("first_seen < '2026-11-23'").count() == 0
        assert fleet.ingest(self.logs).read == 0

    def _of_python(self) -> Fleet:
        from featuregate_fleet import Fleet  # noqa: PLC0415 - an extra, which a Spark without its jars lacks

        return Fleet(self.spark, self.folder / "tables", "c")

    def _lines(self, client: str, count: int) -> list[str]:
        return [line_of(document(clientId=f"{client}-{number % 3}")) for number in range(count)]

    def _arguments(self, action: str, *arguments: str) -> list[str]:
        command = [action] if action == "readiness" else ["fleet", action]
        return [*command, "--tables", str(self.folder / "tables"), "--cluster", "c", *arguments]

    def _fleet(self, action: str, *arguments: str) -> tuple[int, str]:
        printed = StringIO()
        with redirect_stdout(printed):
            code = featuregate(self._arguments(action, *arguments))
        return code, printed.getvalue()

    def _topic(self, name: str) -> Any:
        reading = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        return reading.option("subscribe", name).option("startingOffsets", "earliest")

    def _drain(self, rows: DataFrame, write: Callable[[DataFrame, int], object], checkpoint: Path) -> None:
        writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            # The failure that was ordered, or the one of Spark 4.1 after a replay, which has a name.
            if "Crash" not in str(error) and not isinstance(cause_of(error, self.spark), SparkFailed):
                raise
        finally:
            query.stop()


CAPABILITIES = (
    "session",
    "pins",
    "sink",
    "listener",
    "kafka_features",
    "fleet_run",
    "fleet_readiness",
    "fleet_from_python",
    "fleet_two_runs",
    "fleet_tidy",
)


def main(bootstrap: str, folder: Path) -> dict[str, str]:
    """Run all, one after the other."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    line = spark_line_of(pyspark.__version__)
    with_jars = settings({}) if line and line.connector else {}
    builder = SparkSession.builder
    for name, value in (with_jars | {"spark.master": "local[2]"}).items():
        builder = builder.config(name, value)
    os.chdir(folder)
    trial = Trial(builder.getOrCreate(), bootstrap, folder)
    found = {name: _outcome(getattr(trial, name)) for name in CAPABILITIES}
    trial.spark.stop()
    return found


def _outcome(run: Callable[[], None]) -> str:
    try:
        run()
    except Exception as error:  # noqa: BLE001 - each of them is an answer
        return f"{type(error).__name__}: {error}"[:2000]
    return "yes"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
