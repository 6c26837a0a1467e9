"""The evidence of one cluster, with the Spark that runs already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from featuregate import discover
from featuregate.catalog import API_NAMES
from featuregate.errors import ConfigError
from featuregate.logs import get_logger
from featuregate_fleet.api.report import FleetReport, keep_report
from featuregate_fleet.evidence.columns import ALL, KEYS
from featuregate_fleet.evidence.lines.log_lines import KeptLines
from featuregate_fleet.evidence.paths import IN_UTC, LogTimes
from featuregate_fleet.evidence.pseudonyms import HASHED, Pseudonyms
from featuregate_fleet.files.storage import is_below, reached, storage_path, why_no_folder
from featuregate_fleet.readiness import move_texts
from featuregate_fleet.readiness.evidence import confirmed
from featuregate_fleet.readiness.report import assess
from featuregate_fleet.stream.ingestion import Ingestion, Inputs, check_same_cluster
from featuregate_fleet.stream.quarantine import replay
from featuregate_fleet.stream.session import session_beside
from featuregate_fleet.stream.upkeep import Removal, RemovalPlan, compact, forgetting, removed, retention
from featuregate_fleet.tables.cluster_names import check_cluster_name
from featuregate_fleet.tables.folder import Tables
from featuregate_fleet.tables.kept_names import check_names, keep_names
from featuregate_fleet.tables.locks import adding_report, no_other_writer, one_writer
from featuregate_fleet.tables.reader import read_evidence

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from featuregate.view.cluster_view import View
    from featuregate_fleet.readiness.moves import Move

STALE_AFTER: Final = timedelta(days=7)
MIN_HOURS: Final = 1.0
_MOVES: Final[dict[str, Callable[[str], Move]]] = {
    "to": move_texts.to,
    "downgrade_to": move_texts.downgrade,
    "finalize": move_texts.finalize,
    "deprecate": move_texts.deprecate,
    "drop_api": move_texts.drop,
}
_NO_LAYOUTS: Final[Mapping[str, str]] = MappingProxyType({})
_log = get_logger("featuregate.fleet")


class Ingested(NamedTuple):
    """The lines of all runs: ``read = rows + quarantined``."""

    read: int
    rows: int
    quarantined: int
    missing: tuple[str, ...]
    """The files of this run of which requests are missing: what to do is in the log."""


class Fleet:
    """The evidence of one cluster: reads logs into tables, and says whether a move is safe.

    Parameters
    ----------
    spark
        The session that is there. It stays as it is: the pipeline creates another session for itself.
    tables
        The folder of the tables, or its URI on a storage; it need not exist yet. With ``checkpoints``, the schema of a
        catalog, such as ``main.kafka``, in which the tables have names.
    cluster
        Your name of the cluster in the tables: letters, digits, ``-``, ``_`` and ``.``.
    pseudonyms
        Hashes principals and addresses in all rows that are written.
    checkpoints
        Where tables are in a catalog, the folder of checkpoints and locks, or its URI.

    Raises
    ------
    ConfigError
        A value cannot be used.
    WrongSpark
        This Spark was started without Delta Lake, or is Spark Connect.
    """

    def __init__(
        self,
        spark: SparkSession,
        tables: str | os.PathLike[str],
        cluster: str,
        *,
        pseudonyms: Pseudonyms | None = None,
        checkpoints: str | os.PathLike[str] | None = None,
    ) -> None:
        key, place = ("tables", tables) if checkpoints is None else ("checkpoints", checkpoints)
        self.folder = reached(key, storage_path(key, place))
        self.cluster = check_cluster_name(cluster)
        self._names = pseudonyms
        self._spark = session_beside(spark)
        schema = None if checkpoints is None else str(tables)
        self._tables = Tables(self._spark, self.folder, cluster, pseudonyms, schema)

    def ingest(
        self,
        logs: str | os.PathLike[str] | None = None,
        bootstrap: str | Mapping[str, str] | None = None,
        *,
        logs_topic: str | None = None,
        broker_header: str = "broker",
        usage_topic: str | None = None,
        times: Mapping[str, LogTimes] = IN_UTC,
        kept: KeptLines = KeptLines.NONE,
    ) -> Ingested:
        """Read what is there and was not read before, as ``fleet run --once`` does.

        ``bootstrap`` is ``host:port``, or the properties of a client. `Inputs` describes the others. What the user
        should know goes to the logger ``featuregate.fleet``, as warnings.

        Raises
        ------
        ClusterUnread
            The cluster does not allow to read the topic of logs.
        ConfigError
            There is no such folder, or the brokers are of another cluster than those of the tables.
        DiscoveryError
            No broker answers.
        TablesBroken, TablesBusy
            The tables cannot be read or written, or another process writes them.
        """
        config = {"bootstrap.servers": bootstrap} if isinstance(bootstrap, str) else dict(bootstrap or {})
        inputs = Inputs(
            cluster=self.cluster,
            logs=_logs(logs, self.folder) if logs is not None else None,
            config=config,
            logs_topic=logs_topic,
            broker_header=broker_header,
            usage_topic=usage_topic,
            times=times,
            kept=kept,
        )
        if inputs.logs is None and logs_topic is None:
            raise ConfigError("logs", "there is nothing to read: give logs, logs_topic or both")
        if logs_topic is not None and not config:
            raise ConfigError("bootstrap", "the topic of logs needs the brokers that have it")
        view = discover(config) if config else None
        with one_writer(self.folder, self.cluster):
            keep_names(self.folder, self.cluster, self._names)
            ingestion = Ingestion(self._spark, self._tables, inputs, _log.warning)
            counts = ingestion.read(view)
        return Ingested(*counts, ingestion.missing_files)

    def readiness(
        self,
        move: Move | None = None,
        *,
        to: str | None = None,
        downgrade_to: str | None = None,
        finalize: str | None = None,
        deprecate: str | None = None,
        drop_api: str | None = None,
        since: datetime | None = None,
        stale_after: timedelta = STALE_AFTER,
        min_hours: float = MIN_HOURS,
        reports_expected: bool = True,
        view: View | None = None,
        keep: bool = False,
    ) -> FleetReport:
        """Say whether a move is safe, as ``fleet readiness`` does.

        Give one move: ``to="4.2"``, ``downgrade_to="3.9"``, ``finalize="transaction.version=2"``,
        ``deprecate="metadata.version=3.7"``, ``drop_api="Fetch<12"``, or a `Move`. ``view`` has the levels that the
        brokers have now. With ``keep`` the report is added to the table ``readiness``, too.

        Raises
        ------
        ConfigError
            There is no such move, or ``view`` is of another cluster.
        TablesBroken
            The tables cannot be read.
        """
        texts = {
            "to": to,
            "downgrade_to": downgrade_to,
            "finalize": finalize,
            "deprecate": deprecate,
            "drop_api": drop_api,
        }
        asked = move or _move({name: text for name, text in texts.items() if text is not None})
        if keep and not self._tables.names():
            raise ConfigError("keep", f"{self.folder} has no tables: read logs first")
        evidence = read_evidence(self._tables.since(since) if since else self._tables)
        evidence = replace(evidence, reports_expected=reports_expected, since=since)
        if view is not None:
            check_same_cluster(self.cluster, evidence.view, view)
            evidence = confirmed(evidence, view)
        report = assess(evidence, asked, datetime.now(UTC), stale_after, min_hours=min_hours)
        if keep:
            with adding_report(self.folder, self.cluster):
                keep_report(self._spark, report, self._tables)
        return FleetReport(self._spark, self.cluster, report)

    def usage(self) -> DataFrame:
        """Return which client used which version of which API, by broker and hour: ``api`` has the API's name.

        Rows that are older than a week when the tables are compacted are of a day, which ``hours`` says.
        """
        names = chain.from_iterable((f.lit(key), f.lit(name)) for key, name in API_NAMES.items())
        named: Column = f.coalesce(f.create_map(*names)[f.col("api_key")], f.concat(f.lit("api:"), f.col("api_key")))
        sums = (
            f.sum("count").alias("count"),
            f.min("first_seen").alias("first_seen"),
            f.max("last_seen").alias("last_seen"),
        )
        rows = self.table("api_usage").where(f.col("outcome") != ALL).groupBy(*KEYS, "hours").agg(*sums)
        return rows.withColumn("api", named)

    def table(self, name: str) -> DataFrame:
        """Return the rows of a table that are of this cluster, with stable columns; none where it does not exist yet.

        Raises
        ------
        ConfigError
            There is no table of that name.
        """
        if name not in self._tables.known():
            raise ConfigError("name", f"{name!r} is none of the tables: {', '.join(self._tables.known())}")
        return self._tables.read(name)

    def tables(self) -> list[str]:
        """Return the names of the tables that exist."""
        return self._tables.names()

    def replay(self, layouts: Mapping[str, str] = _NO_LAYOUTS) -> int:
        """Parse again what is in quarantine, as ``fleet replay`` does; return the number of lines and files tried.

        ``layouts`` say how brokers write times, by node id, and ``others`` for all others. Raises as :meth:`ingest`.
        """
        with one_writer(self.folder, self.cluster):
            keep_names(self.folder, self.cluster, self._names)
            return replay(self._spark, self._tables, layouts)

    def retain(
        self, days: int, *, logs: str | os.PathLike[str] | None = None, checksum: str | None = None
    ) -> RemovalPlan:
        """Delete what was seen more than some days before today, as ``fleet retain`` does.

        With ``logs``, those of :meth:`ingest`, files that are not there any more leave the list of files.
        Without ``checksum`` nothing is changed: the result has the number of rows by table, and the checksum to give.

        Raises
        ------
        ConfigError
            The rows have another checksum, or ``logs`` were not read into these tables.
        TablesBroken, TablesBusy
            The tables cannot be read or written, or a run writes the rows of this cluster.
        """
        there = None if logs is None else _logs(logs, self.folder)
        return self._removed(lambda: retention(self._tables, days, datetime.now(UTC), there), checksum)

    def forget(self, principal: str, *, checksum: str | None = None) -> RemovalPlan:
        """Remove the names of one principal, as ``fleet forget`` does. ``checksum`` is that of :meth:`retain`."""
        names = self._names
        if not principal.startswith(HASHED):
            check_names(self.folder, self.cluster, names)
        return self._removed(lambda: forgetting(names.of(principal) if names else principal), checksum)

    def compact(self) -> None:
        """Join the small files of this cluster's rows, and make usage of a week ago daily. Raises as :meth:`retain`."""
        with no_other_writer(self.folder, self.cluster):
            compact(self._tables, datetime.now(UTC))

    def _removed(self, made: Callable[[], Removal], checksum: str | None) -> RemovalPlan:
        with no_other_writer(self.folder, self.cluster):
            return removed(self._tables, made(), checksum)

    def __repr__(self) -> str:
        return f"<Fleet of {self.cluster} in {self.folder}>"


def _move(asked: Mapping[str, str]) -> Move:
    if len(asked) != 1 or not asked.keys() <= _MOVES.keys():
        raise ConfigError("move", f"give one of {', '.join(_MOVES)}, and not {', '.join(asked) or 'none'}")
    ((name, text),) = asked.items()
    try:
        return _MOVES[name](text)
    except ValueError as error:
        raise ConfigError(name, str(error)) from None


def _logs(given: str | os.PathLike[str], tables: Path) -> Path:
    logs = reached("logs", storage_path("logs", given))
    if problem := why_no_folder(logs):
        raise ConfigError("logs", f"{logs}: {problem}")
    if is_below(tables, logs):
        raise ConfigError("tables", f"{tables} is within {logs}, and would be read as logs: move it out")
    return logs
