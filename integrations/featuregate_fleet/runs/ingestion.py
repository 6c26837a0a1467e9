"""What one run reads into the table of a cluster, again and again: logs, and what the cluster itself says.

Each batch is one commit of rows of all kinds, with how far its sources are read. Without the commit nothing happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from featuregate_fleet.evidence.line_counts import LineCounts
from featuregate_fleet.evidence.paths import IN_UTC, LogTimes
from featuregate_fleet.evidence.reasons import VANISHED
from featuregate_fleet.runs.cluster_answers import answers_of, told_hours
from featuregate_fleet.runs.coordinator_topics import coordinators_part
from featuregate_fleet.runs.known_sources import KnownSources
from featuregate_fleet.runs.last_run import LastRun, names_probe
from featuregate_fleet.runs.log_files import LogFolder
from featuregate_fleet.runs.log_topic import log_topic_part
from featuregate_fleet.runs.missing_requests import MissingEvidence
from featuregate_fleet.runs.topic_reads import reads_of
from featuregate_fleet.runs.usage_topic import usage_part
from featuregate_fleet.tables.failures import one_line_failures, read_steadily
from featuregate_spark.arrow_tables import from_arrow

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms
    from featuregate_fleet.runs.parts import Part, TopicRead
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
    again: frozenset[str] = frozenset()
    """Files are read once more that could not be read for one of these reasons, or that have lines in quarantine."""


class Ingestion:
    """Reads what was not read before, each time that `read` is called.

    ``say`` is called with what the user should know, in one line each.
    """

    def __init__(self, spark: SparkSession, table: EvidenceTable, inputs: Inputs, say: Callable[[str], None]) -> None:
        self._spark = spark
        self._table = table
        self._inputs = inputs
        self._say = say
        self._missing = MissingEvidence(say)
        self._said: set[str] = set()
        self._known: KnownSources | None = None
        self._last = LastRun()
        self._next = 0
        self._folder: LogFolder | None = None

    @property
    def missing_files(self) -> tuple[str, ...]:
        """The files of which requests are missing, as the run has said: it does not succeed."""
        return self._missing.paths

    def state(self) -> str:
        """Return how many files were read, for people who wait."""
        return f"{self._known.files:,} files so far" if self._known and self._inputs.logs else "topics"

    def read(self, view: View | None, stop: Callable[[], bool] = lambda: False) -> Ingested:
        """Read all that is there, batch by batch. End before the next batch on ``stop()``.

        Raises
        ------
        ClusterUnread
            The cluster does not answer, or does not allow to read the topic of logs.
        ConfigError
            ``view`` is of another cluster than the one that was asked before, or names are hashed by another key.
        TablesBroken
            The table cannot be read or written. It has whole batches, and the next run continues. It is not raised
            after ``stop()``: a supervisor that ends this process ends Python's workers, too.
        """
        counted = Counted()
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
        return Ingested(counted.files, *counted.lines, known.counts, self._missing.paths)

    def _load(self) -> KnownSources:
        """Ask the table once what was read: a batch costs what is new, however old the table is."""
        now, inputs = self._table.pinned(), self._inputs
        self._last = LastRun.of(now)
        self._last.check_names(inputs.cluster, inputs.names)
        self._next = self._last.batch + 1
        known = self._known = KnownSources.of(now)
        if inputs.logs:
            again = known.failed(inputs.again) | known.named(self._last.in_quarantine(now, inputs.again))
            done = self._folder is not None
            self._folder = self._folder or LogFolder(inputs.logs, inputs.times, inputs.names, again)
            if inputs.again and not again and not done:
                self._say(f"no file has lines or damage of the reason {', '.join(sorted(inputs.again))}")
        return known

    def _batch(self, view: View | None, counted: Counted) -> bool:
        """Commit what is new and fits into a batch; return whether there may be more."""
        for _ in range(_TRIES):
            parts = self._parts(view)
            run = self._run_row(parts, view)
            if not any(part.rows is not None for part in parts) and not self._last.differs(run):
                return False
            try:
                vanished = self._commit(parts, run, counted)
            except BatchTaken:  # what that one has read is not read again
                read_steadily(self._load)
                continue
            return vanished or any(part.more for part in parts)
        raise TablesBroken(f"other processes have committed {_TRIES} batches before one of this run: run one at a time")

    def _parts(self, view: View | None) -> list[Part]:
        """Return what each input has that was not read."""
        known, said = self._known or self._load(), self._inputs
        topics = known.topics() if said.logs_topic or view is not None else {}
        parts = [self._folder.part(self._spark, known)] if self._folder else []
        if said.logs_topic:
            parts.append(
                log_topic_part(
                    self._spark,
                    said.config,
                    said.logs_topic,
                    topics,
                    header=said.broker_header,
                    times=said.times,
                    names=said.names,
                )
            )
        if view is not None:
            parts += [self._coordinators(topics), self._usage(topics, view)]
        return [part for part in parts if part is not None]

    def _coordinators(self, read: Mapping[str, TopicRead]) -> Part | None:
        try:
            return coordinators_part(self._spark, self._inputs.config, read, names=self._inputs.names)
        except ClusterUnread as error:
            self._say_once(f"{error}; so readiness cannot say what their coordinators would lose")
            return None

    def _usage(self, read: Mapping[str, TopicRead], view: View) -> Part | None:
        """Return the reports of apps that use the cluster. The default topic may be missing."""
        named = self._inputs.usage_topic
        topic = named or _USAGE_TOPIC
        try:
            found = usage_part(
                self._spark, self._inputs.config, topic, read, cluster_id=view.cluster_id, names=self._inputs.names
            )
            said = None if found else f"there is no topic {topic}"
        except ClusterUnread as error:
            found, said = None, str(error)
        if said and (named or reads_of(topic, read)):
            self._say_once(f"{said}; so readiness cannot say which apps are latched")
        return found

    def _run_row(self, parts: list[Part], view: View | None) -> dict[str, object]:
        """Return the row of the batch: what is there now, and what the brokers answered, where that is due."""
        folder, last = self._folder, self._last
        row: dict[str, object] = {"names": names_probe(self._inputs.names)}
        row["folders"] = folder.folders if folder else last.folders
        row["unread"] = [file._asdict() for file in folder.unread] if folder else last.unread
        if folder:
            self._missing.left_out(folder.listing.left)
        for part in parts:
            row |= part.run
        if view is not None and last.is_due(view):
            row |= answers_of(view)
            row["listed"] = sorted(str(broker.node_id) for broker in view.brokers)
        return row

    def _commit(self, parts: list[Part], run: dict[str, object], counted: Counted) -> bool:
        """Commit a batch; return whether a file had another name when it was read: then it is looked for."""
        number, known = self._next, self._known or self._load()
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
            for part in parts:
                part.check()  # says of a topic what Spark does not
        self._next, self._last = number + 1, self._last.after(run, number)
        known.add(found, number)
        sources = found.to_pylist()
        counted.add(sources)
        if self._folder:
            self._folder.have_read({row["uri"] for row in sources if row["again"]})
        self._missing.of_batch(sources, self._table, number)
        if number % _JOINED_EACH == _JOINED_EACH - 1:
            self._table.join_files()
        return any(row["reason"] == VANISHED for row in sources)

    def _told(self) -> list[dict[str, Any]]:
        """Return the levels of the request logs that brokers report now."""
        levels = [*LogLevels(self._inputs.config).read()]
        if silent := [str(one.broker) for one in levels if one.level is None]:
            self._say_once(f"brokers that do not report the level of their request log: {', '.join(silent)}")
        return told_hours(levels, datetime.now(UTC))

    def _say_if_empty(self, known: KnownSources) -> None:
        logs = self._inputs.logs
        if logs and not known.files:
            self._say_once(f"{logs}: no log was found there: that of broker 1 belongs into {logs}/1")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)


class Counted:
    """What the batches of one call have read."""

    def __init__(self) -> None:
        self.files = 0
        self.lines = LineCounts(0, 0, 0)

    def add(self, sources: list[dict[str, Any]]) -> None:
        """Add the rows of kind ``source`` of a batch."""
        self.files += len({row["uri"] for row in sources})
        of_logs = [row for row in sources if row["input"] == FROM_LOGS]
        sums = (sum(row[name] or 0 for row in of_logs) for name in LineCounts._fields)
        self.lines = LineCounts(*map(sum, zip(self.lines, sums, strict=True)))


def check_same_cluster(name: str, before: str | None, now: str | None) -> None:
    """Refuse the answers of another cluster than the one that a run under this name has asked before, by their ids.

    Raises
    ------
    ConfigError
        The clusters have different ids.
    """
    if before and now and before != now:
        raise ConfigError(
            "cluster",
            f"the table of {name} has the answers of the cluster with the id {before}, and these brokers belong to "
            f"{now}: give another name of the cluster, or the brokers of this one",
        )
