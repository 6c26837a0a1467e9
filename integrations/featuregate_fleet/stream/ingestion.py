"""What one run reads into the tables of a cluster, again and again: logs, and what the cluster itself says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from featuregate.admin.loggers import LogLevels
from featuregate.errors import ConfigError
from featuregate_fleet.errors import ClusterUnread, TablesBroken
from featuregate_fleet.evidence.lines.log_lines import KeptLines
from featuregate_fleet.evidence.paths import IN_UTC, LogTimes, broker_of
from featuregate_fleet.stream.cluster_views import keep_log_levels, keep_view
from featuregate_fleet.stream.coordinator_topics import drain_coordinators
from featuregate_fleet.stream.log_topic import drain_log_topic
from featuregate_fleet.stream.read_files import ReadFiles
from featuregate_fleet.stream.request_logs import drain
from featuregate_fleet.stream.session import encoding_of_names
from featuregate_fleet.stream.unread_files import MissingEvidence, UnreadFiles
from featuregate_fleet.stream.usage_topic import drain_usage, was_read
from featuregate_fleet.tables.failures import one_line_failures
from featuregate_fleet.tables.line_counts import read_line_counts
from featuregate_fleet.tables.record_reader import last_view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from featuregate.view.cluster_view import View
    from featuregate_fleet.evidence.line_counts import LineCounts
    from featuregate_fleet.tables.folder import Tables

_USAGE_TOPIC: Final = "featuregate-usage"
_BROKEN: Final = "the tables cannot be read or written, and the next run continues"


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
    times: Mapping[str, LogTimes] = field(default_factory=lambda: IN_UTC)
    """How brokers write times, by node id, as for `featuregate_fleet.evidence.paths.log_file`."""
    kept: KeptLines = KeptLines.NONE
    """What is kept of each line."""


class Ingestion:
    """Reads what was not read before, each time that `read` is called.

    ``say`` is called with what the user should know, in one line each.
    """

    def __init__(self, spark: SparkSession, tables: Tables, inputs: Inputs, say: Callable[[str], None]) -> None:
        self._spark = spark
        self._tables = tables
        self._inputs = inputs
        self._say = say
        # Once: a trigger costs what is new, however old the run is.
        self._files, self._unread = None, None
        if inputs.logs:
            self._files = ReadFiles.of(tables)
            self._unread = UnreadFiles(inputs.logs, self._files, tables, say, encoding_of_names(spark))
        self._before: View | None = None
        self._empty = False
        self._missing = MissingEvidence(say)

    @property
    def missing_files(self) -> tuple[str, ...]:
        """The files of which requests are missing, as the run has said: it does not succeed."""
        return (*self._missing.paths, *sorted(self._unread.undecoded if self._unread else ()))

    def read(self, view: View | None, stop: Callable[[], bool] = lambda: False) -> LineCounts:
        """Read, and return the counts of all lines that the tables have. End before the next micro-batch on ``stop()``.

        Raises
        ------
        ClusterUnread
            The cluster does not answer, or does not allow to read the topic of logs.
        ConfigError
            ``view`` is of another cluster than the one that was asked before.
        TablesBroken
            The tables cannot be read or written. They have whole micro-batches, and the next run continues. It is not
            raised after ``stop()``: a supervisor that ends this process ends Python's workers, too.
        """
        with one_line_failures(_BROKEN):
            before = (self._before or last_view(self._tables)) if view else None
            check_same_cluster(self._inputs.cluster, before, view)
            try:
                with one_line_failures(_BROKEN):
                    self._read_all(view, stop)
            except TablesBroken:
                if not stop():
                    raise
                self._say("ended in the middle of a micro-batch, which the next run reads")
            self._before = view or self._before
            return read_line_counts(self._tables)

    def state(self) -> str:
        """Return how many files were read, for people who wait."""
        return f"{self._files.number:,} files so far" if self._files else "topics"

    def _read_all(self, view: View | None, stop: Callable[[], bool]) -> None:
        self._read_logs(view, stop)
        if view and not stop():
            self._read_cluster(view)
            self._read_usage(view)
        if self._unread:
            self._unread.look()
        if self._files and not self._files.number and not self._empty and not stop():
            self._empty = True  # once
            self._say(
                f"{self._inputs.logs}: no log was found there: that of broker 1 belongs into {self._inputs.logs}/1"
            )

    def _read_logs(self, view: View | None, stop: Callable[[], bool]) -> None:
        said, report = self._inputs, self._missing.report
        folders = folders_of_brokers(said.logs) if said.logs else ()
        self._tables.expect(folders, {str(broker.node_id) for broker in view.brokers} if view else None)
        if said.logs:
            drain(self._spark, said.logs, self._tables, said.times, stop, said.kept, self._files, report)
        if said.logs_topic and not stop():
            drain_log_topic(
                self._spark,
                said.config,
                said.logs_topic,
                self._tables,
                header=said.broker_header,
                times=said.times,
                stop=stop,
                kept=said.kept,
                report=report,
            )

    def _read_cluster(self, view: View) -> None:
        """Keep the levels of the cluster, and read the records of its coordinators where it allows that."""
        keep_view(self._spark, view, self._tables)
        if silent := keep_log_levels(self._spark, LogLevels(self._inputs.config).read(), self._tables):
            self._say(f"brokers that do not report the level of their request log: {', '.join(silent)}")
        try:
            drain_coordinators(self._spark, self._inputs.config, self._tables)
        except ClusterUnread as error:
            self._say(f"{error}; so readiness cannot say what their coordinators would lose")

    def _read_usage(self, view: View) -> None:
        """Read the reports of apps that use the cluster. The default topic may be missing."""
        named = self._inputs.usage_topic
        topic = named or _USAGE_TOPIC
        try:
            found = drain_usage(self._spark, self._inputs.config, topic, self._tables, cluster_id=view.cluster_id)
            said = None if found else f"there is no topic {topic}"
        except ClusterUnread as error:
            said = str(error)
        if said and (named or was_read(self._tables, _USAGE_TOPIC)):
            self._say(f"{said}; so readiness cannot say which apps are latched")


def check_same_cluster(name: str, before: View | None, now: View | None) -> None:
    """Refuse the answers of another cluster than the one that a run under this name has asked before.

    Raises
    ------
    ConfigError
        The clusters have different ids.
    """
    ids = [view.cluster_id for view in (before, now) if view and view.cluster_id]
    if len(set(ids)) > 1:
        raise ConfigError(
            f"the cluster {name}",
            f"its tables have the answers of the cluster with the id {ids[0]}, and these brokers belong to {ids[1]}: "
            "give another name of the cluster, or the brokers of this one",
        )


def folders_of_brokers(logs: Path) -> set[str]:
    """Return the names of the folders below ``logs`` that are node ids."""
    return {path.name for path in logs.iterdir() if path.is_dir() and broker_of(f"{path.name}/file")}
