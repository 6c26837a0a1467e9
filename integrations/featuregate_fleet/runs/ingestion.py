"""What one run reads into the table of a cluster, again and again: logs, and what the cluster itself says.

Each batch is one commit of rows of all kinds, with how far its sources are read. Without the commit nothing happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from featuregate.admin.loggers import LogLevels
from featuregate.errors import ConfigError
from featuregate_fleet.errors import BatchTaken, ClusterUnread, TablesBroken
from featuregate_fleet.evidence.columns import FROM_LOGS, rows_from
from featuregate_fleet.evidence.paths import IN_UTC, LineCounts, LogTimes
from featuregate_fleet.evidence.reasons import VANISHED
from featuregate_fleet.evidence.topic_records import TOPICS
from featuregate_fleet.metrics.prometheus import MetricsUnread
from featuregate_fleet.readiness.evidence import hosts_of
from featuregate_fleet.runs.internal_topics import java_properties, topic_ends
from featuregate_fleet.runs.kept_metrics import MetricsInput, metrics_part
from featuregate_fleet.runs.known_sources import KnownSources, Part
from featuregate_fleet.runs.log_files import Again, LogFolder
from featuregate_fleet.runs.missing_requests import MissingEvidence
from featuregate_fleet.runs.topics import Topics, check_still_there, reads_of
from featuregate_fleet.tables.failures import one_line_failures, read_steadily
from featuregate_fleet.tables.run_rows import RunsSaw, answers_of, names_probe, runs_saw, told_hours
from featuregate_fleet.tables.source_reader import failed_files, read_again
from featuregate_spark.arrow_tables import from_arrow

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms
    from featuregate_fleet.tables.evidence_table import EvidenceTable

_USAGE_TOPIC: Final = "featuregate-usage"
_BROKEN: Final = "the table cannot be read or written, and the next run continues"
_JOINED_EACH: Final = 64
"""Batches: readers open each of their files."""
_TRIES: Final = 20
"""Batches that other processes may commit before one of this run."""


class Ingested(NamedTuple):
    """What one call has read: ``read = rows + quarantined``, in lines."""

    files: int
    """Files, and partitions of topics."""
    read: int
    rows: int
    quarantined: int
    totals: LineCounts
    """The lines of all runs."""
    missing: tuple[str, ...]
    """The files of which requests are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a run reads."""

    cluster: str
    """The name of the cluster in the tables."""
    logs: Path | None = None
    """The folder of log files."""
    config: Mapping[str, str] = field(default_factory=dict)
    """The properties of a client of the cluster; without a view of it, they are not used."""
    logs_topic: str | None = None
    """The topic to which a shipper writes lines."""
    broker_header: str = "broker"
    """The header of its records that has the node id of the broker."""
    usage_topic: str | None = None
    """The topic of usage reports; by default ``featuregate-usage``, where it exists and may be read."""
    times: LogTimes = IN_UTC
    """How brokers write times."""
    names: Pseudonyms | None = None
    """Hashes principals and addresses."""
    metrics: MetricsInput | None = None
    """A Prometheus that has kept the metrics of brokers."""
    again: frozenset[str] = frozenset()
    """Files that could not be read, and lines in quarantine, are read once more if it was for one of these reasons."""


class Ingestion:
    """Reads what is new, each time that `read` is called. ``say`` gets what the user should know, in one line each."""

    def __init__(self, spark: SparkSession, table: EvidenceTable, inputs: Inputs, say: Callable[[str], None]) -> None:
        self._spark = spark
        self._table = table
        self._inputs = inputs
        self._say = say
        self._missing = MissingEvidence(say)
        self.unread_metrics = False
        """Whether metrics could not be read the last time: until the next one they are not asked for again."""
        self._said: set[str] = set()
        self._emptied: set[str] = set()
        self._known: KnownSources | None = None
        self._last = RunsSaw()
        self._folder: LogFolder | None = None

    def state(self) -> str:
        """Return how many files were read, for people who wait."""
        at = self._known.metrics_position() if self._known and self._inputs.metrics else None
        metrics = f"; metrics up to {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC" if at else ""
        return (f"{self._known.files:,} files so far" if self._known and self._inputs.logs else "topics") + metrics

    def read(self, view: View | None, stop: Callable[[], bool] = lambda: False) -> Ingested:
        """Read all that is there, batch by batch. End before the next batch on ``stop()``.

        Raises ClusterUnread (the cluster does not answer, or does not allow to read the topic of logs), ConfigError
        (``view`` is of another cluster than the one that was asked before, or names are hashed by another key),
        TablesBroken (the table cannot be read or written. It has whole batches, and the next run continues. It is not
        raised after ``stop()``: a supervisor that ends this process ends Python's workers, too).
        """
        counted = dict.fromkeys(("files", *LineCounts._fields), 0)
        self.unread_metrics = False
        with one_line_failures(_BROKEN):
            known = self._known or read_steadily(self._load)
            check_same_cluster(self._inputs.cluster, self._last.cluster_id, view.cluster_id if view else None)
            try:
                with one_line_failures(_BROKEN):
                    while not stop() and self._batch(view, counted):
                        pass
            except TablesBroken:
                if not stop():
                    raise
                self._say("ended in the middle of a batch, which the next run reads")
        known = self._known or known
        self._missing.name_vanished()
        if not stop():
            self._say_if_empty(known)
        return Ingested(totals=known.counts, missing=self._missing.paths, **counted)

    def _load(self) -> KnownSources:
        """Ask the table once what was read: a batch costs what is new, however old the table is."""
        now, inputs = self._table.pinned(), self._inputs
        self._last = runs_saw(now)
        self._last.check_names(inputs.cluster, inputs.names)
        known = self._known = KnownSources.of(now)
        if inputs.logs and self._folder is None:
            lines = read_again(now, inputs.again)
            files = failed_files(now, inputs.again) | known.named({text for text, _ in lines if text})
            self._folder = LogFolder(inputs.logs, inputs.times, inputs.names, Again(files, lines))
            if inputs.again and not files:
                self._say(f"no file has lines or damage of the reason {', '.join(sorted(inputs.again))}")
        return known

    def _batch(self, view: View | None, counted: dict[str, int]) -> bool:
        """Commit what is new and fits into a batch; return whether there may be more."""
        for _ in range(_TRIES):
            parts = self._parts(view)
            run = self._run_row(parts, view)
            if not any(part.rows is not None or part.sources for part in parts) and not self._last.differs(run):
                return False
            try:
                vanished = self._commit(parts, run, counted)
            except BatchTaken:  # what that one has read is not read again
                read_steadily(self._load)
                continue
            return vanished or any(part.more for part in parts)
        raise TablesBroken(f"other processes have committed {_TRIES} batches before one of this run: run one at a time")

    def _parts(self, view: View | None) -> list[Part]:
        known = self._known or self._load()
        found = self._folder.part(self._spark, known) if self._folder else None
        asked = None if self.unread_metrics else self._inputs.metrics
        metrics = self._metrics(asked, known, view) if asked else None
        return [*(part for part in (found, metrics) if part), *self._topic_parts(known, view)]

    def _metrics(self, metrics: MetricsInput, known: KnownSources, view: View | None) -> Part | None:
        hosts = hosts_of(view) if view else {}
        try:
            return metrics_part(self._spark, metrics, known.metrics_position(), hosts, datetime.now(UTC))
        except MetricsUnread as error:
            self._say(f"metrics: {error}")
            self.unread_metrics = True
            return None

    def _topic_parts(self, known: KnownSources, view: View | None) -> Iterator[Part]:
        """Yield the same of topics: the coordinators' and that of reports may be missing, that of logs not."""
        said, spark = self._inputs, self._spark
        reports = said.usage_topic or _USAGE_TOPIC
        topics = [*([said.logs_topic] if said.logs_topic else ()), *((*TOPICS, reports) if view else ())]
        if not topics:
            return
        java, read, asked_at = java_properties(self._inputs.config), known.topics(), datetime.now(UTC)
        ends = topic_ends(spark, java, topics)
        found = Topics(spark, java, read)
        if said.logs_topic:
            yield found.log_lines(ends[said.logs_topic], said.broker_header, said.times, said.names)
        if view is None:
            return
        try:
            yield found.coordinators(ends, asked_at, said.names)
        except ClusterUnread as error:
            self._say_once(f"{error}; so readiness cannot say what their coordinators would lose")
        try:
            if ends[reports].known().ends:
                yield found.usage_reports(ends[reports], view.cluster_id, said.names)
                return
            problem = f"there is no topic {reports}"
        except ClusterUnread as error:
            problem = str(error)
        if said.usage_topic or reads_of(reports, read):
            self._say_once(f"{problem}; so readiness cannot say which apps are latched")

    def _run_row(self, parts: list[Part], view: View | None) -> dict[str, object]:
        """Return the row of the batch: what is there now, and what the brokers answered, where that is due."""
        folder, last = self._folder, self._last
        row: dict[str, object] = {"names": names_probe(self._inputs.names)}
        if folder:
            row |= {"logs": folder.uri, "folders": folder.folders, "unread": [one._asdict() for one in folder.unread]}
            if not (folder.folders or folder.unread) and (before := last.of_logs.get(folder.uri)):
                row |= {"folders": before.folders, "unread": before.unread}  # its file system may not be mounted
            self._missing.left_out(folder.left)
        for part in parts:
            row |= part.run
        if view and last.is_due(view, datetime.now(UTC)):
            row |= answers_of(view)
            row["listed"] = sorted(hosts_of(view))
        return row

    def _commit(self, parts: list[Part], run: dict[str, object], counted: dict[str, int]) -> bool:
        """Commit a batch; return whether a file had another name when it was read: then it is looked for."""
        number, known = self._last.batch + 1, self._known or self._load()
        driver = [
            rows_from("run", [run]),
            rows_from("hour", self._told() if "asked_at" in run else []),
            rows_from("source", [dict(row) for part in parts for row in part.sources]),
        ]
        own = from_arrow(self._spark, pa.Table.from_batches([batch for batch in driver if len(batch)])).coalesce(1)
        of_parts = [part.rows for part in parts if part.rows is not None]
        try:
            found = self._table.append(reduce(DataFrame.unionByName, [*of_parts, own]), number)
        finally:
            if topics := [topic for part in parts for topic in part.topics]:  # it says of them what Spark does not
                check_still_there(self._spark, java_properties(self._inputs.config), topics)
        self._last = self._last.after(run, number)
        known.add(found, number)
        sources = found.to_pylist()
        counted["files"] += len({row["uri"] for row in sources})
        for name in LineCounts._fields:
            counted[name] += sum(row[name] or 0 for row in sources if row["input"] == FROM_LOGS)
        if self._folder:
            self._folder.have_read(sources)
        self._missing.of_batch(sources, self._table, number)
        if number % _JOINED_EACH == _JOINED_EACH - 1:
            self._table.join_files()
        return any(row["reason"] == VANISHED for row in sources)

    def _told(self) -> list[dict[str, Any]]:
        levels = [*LogLevels(self._inputs.config).read()]
        if silent := [str(one.broker) for one in levels if one.level is None]:
            self._say_once(f"brokers that do not report the level of their request log: {', '.join(silent)}")
        return told_hours(levels, datetime.now(UTC))

    def _say_if_empty(self, known: KnownSources) -> None:
        """Say what stands still: a folder without logs, and one that had some and has none now."""
        logs, folder = self._inputs.logs, self._folder
        if logs and not known.files:
            self._say_once(f"{logs}: no log was found there: that of broker 1 belongs into {logs}/1")
        emptied = folder.emptied(known) if folder else set()
        for name in sorted(emptied - self._emptied):
            self._say(f"{name}: logs were read there, and there is none any more: is its file system mounted?")
        self._emptied = emptied

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)


def check_same_cluster(name: str, before: str | None, now: str | None) -> None:
    """Raise ConfigError for answers of a cluster with another id than the one that runs of this name have asked."""
    if before and now and before != now:
        raise ConfigError(
            "cluster",
            f"the table of {name} has the answers of the cluster with the id {before}, and these brokers belong to "
            f"{now}: give another name of the cluster, or the brokers of this one",
        )
