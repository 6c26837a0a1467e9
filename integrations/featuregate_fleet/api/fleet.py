"""The evidence of one cluster, with the Spark that runs already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from featuregate import discover
from featuregate.catalog import API_NAMES
from featuregate.errors import ConfigError
from featuregate.logs import get_logger
from featuregate.printable import some
from featuregate_fleet.api.report import FleetReport
from featuregate_fleet.evidence.columns import KEYS, KINDS
from featuregate_fleet.evidence.paths import IN_UTC, UNLISTED, LogTimes
from featuregate_fleet.evidence.pseudonyms import HASHED, Pseudonyms
from featuregate_fleet.evidence.reasons import known_reasons
from featuregate_fleet.files.storage import is_below, list_logs, reached, storage_path, uri_of, why_no_folder
from featuregate_fleet.metrics.joined import joined
from featuregate_fleet.readiness.api_ranges import ReleaseApis
from featuregate_fleet.readiness.evidence import confirmed, hosts_of
from featuregate_fleet.readiness.hours import MIN_HOURS, STALE_AFTER, hour_of
from featuregate_fleet.readiness.moves import MOVES, Move, ToRelease
from featuregate_fleet.readiness.report import assess
from featuregate_fleet.runs.ingestion import Ingested, Ingestion, Inputs, check_same_cluster
from featuregate_fleet.runs.session import session_beside
from featuregate_fleet.tables.evidence_table import EvidenceTable, check_cluster_there, existing_table
from featuregate_fleet.tables.metrics_reader import kept_metrics
from featuregate_fleet.tables.reader import read_evidence, sums
from featuregate_fleet.tables.run_rows import runs_saw
from featuregate_fleet.tables.table_names import CATALOG, check_cluster_name
from featuregate_fleet.tables.tidying import FilesThere, TidyPlan, Wanted, has_read_any, plan, tidy

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from featuregate.view.cluster_view import View
    from featuregate_fleet.metrics.listeners import BrokerListener

_log = get_logger("featuregate.fleet")


class Fleet:
    """The evidence of one cluster: reads logs into a table, and says whether a move is safe.

    Parameters
    ----------
    spark
        The session that is there. It stays as it is: the pipeline creates another session for itself.
    tables
        The folder with a table for each cluster, or its URI on a storage; it need not exist yet. Or the schema of a
        catalog, such as ``catalog:main.kafka``.
    cluster
        Your name of the cluster, and of its table: letters, digits, ``-``, ``_`` and ``.``.
    pseudonyms
        Hashes principals and addresses in all rows that are written.

    Raises
    ------
    ConfigError
        A value cannot be used.
    WrongSpark
        This Spark was started without Delta Lake, or is Spark Connect.
    """

    def __init__(
        self, spark: SparkSession, tables: str | os.PathLike[str], cluster: str, *, pseudonyms: Pseudonyms | None = None
    ) -> None:
        self.place = _place(tables)
        self.cluster = check_cluster_name(cluster)
        self._names = pseudonyms
        self._users = spark
        self._spark = session_beside(spark)
        self._table = EvidenceTable(self._spark, self.place, cluster)

    def ingest(
        self,
        logs: str | os.PathLike[str] | None = None,
        bootstrap: str | Mapping[str, str] | None = None,
        *,
        logs_topic: str | None = None,
        broker_header: str = "broker",
        usage_topic: str | None = None,
        times: LogTimes = IN_UTC,
        again: Iterable[str] = (),
    ) -> Ingested:
        """Read what is there and was not read before, as ``fleet run --once`` does.

        ``bootstrap`` is ``host:port``, or the properties of a client. `Inputs` describes the others. What the user
        should know goes to the logger ``featuregate.fleet``, as warnings.

        Raises
        ------
        ClusterUnread
            The cluster does not allow to read the topic of logs.
        ConfigError
            There is no such folder, or the brokers are of another cluster than those of the table.
        DiscoveryError
            No broker answers.
        TablesBroken
            The table cannot be read or written.
        """
        config = {"bootstrap.servers": bootstrap} if isinstance(bootstrap, str) else dict(bootstrap or {})
        inputs = Inputs(
            cluster=self.cluster,
            logs=_logs(logs, self.place) if logs is not None else None,
            config=config,
            logs_topic=logs_topic,
            broker_header=broker_header,
            usage_topic=usage_topic,
            times=times,
            again=known_reasons(again),
            names=self._names,
        )
        if inputs.logs is None and logs_topic is None:
            raise ConfigError("logs", "there is nothing to read: give logs, logs_topic or both")
        if not config and (logs_topic, usage_topic) != (None, None):
            which = "logs" if logs_topic is not None else "usage reports"
            raise ConfigError("bootstrap", f"the topic of {which} needs the brokers that have it")
        view = discover(config) if config else None
        return Ingestion(self._spark, self._table, inputs, _log.warning).read(view)

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
        listeners: Callable[[tuple[str, ...]], Mapping[str, BrokerListener]] | None = None,
    ) -> FleetReport:
        """Say whether a move is safe, as ``featuregate readiness`` does.

        Give one move: ``to="4.2"``, ``downgrade_to="3.9"``, ``finalize="transaction.version=2"``,
        ``deprecate="metadata.version=3.7"``, ``drop_api="Fetch<12"``, or a `Move`. ``view`` has the levels that the
        brokers have now. What was seen before ``since`` does not count; a time without a zone is in UTC. Where the
        table has metrics, they count from then, or from ``stale_after`` before now, and ``listeners`` returns what the
        listeners of some names allow.

        Raises
        ------
        ConfigError
            There is no such move, the tables have other clusters and not this one, or ``view`` is of another cluster.
        TablesBroken
            The table cannot be read.
        TypeError
            A move is not text.
        """
        texts = (to, downgrade_to, finalize, deprecate, drop_api)
        given: dict[str, object] = dict(zip((*MOVES, "move"), (*texts, move), strict=True))
        given = {name: one for name, one in given.items() if one is not None}
        asked = move if move is not None and len(given) == 1 else _move(given)
        table = self._checked()
        since = since.replace(tzinfo=since.tzinfo or UTC).astimezone(UTC) if since else None  # its hours are of UTC
        evidence = read_evidence(table.since(since) if since else table)
        evidence = replace(evidence, reports_expected=reports_expected, since=since)
        if view is not None:
            check_same_cluster(self.cluster, evidence.view.cluster_id if evidence.view else None, view.cluster_id)
            evidence = confirmed(evidence, view)
        now = datetime.now(UTC)
        report = assess(evidence, asked, now, stale_after, min_hours=min_hours)
        metrics = kept_metrics(table, hour_of(since or now - stale_after), now) if evidence.has_metrics else None
        if metrics is None or not isinstance(asked, ToRelease):
            return FleetReport(self._users, self.cluster, report)
        hosts = hosts_of(evidence.view) if evidence.view else None
        allowed = listeners(metrics.listeners) if listeners else {}
        both, by_metrics = joined(report, metrics, ReleaseApis(asked.release), allowed, hosts)
        return FleetReport(self._users, self.cluster, both, by_metrics)

    def usage(self) -> DataFrame:
        """Return which client used which version of which API, by broker and day: ``api`` has the API's name."""
        rows = self.table("usage")
        names = chain.from_iterable((f.lit(key), f.lit(name)) for key, name in API_NAMES.items())
        named: Column = f.coalesce(f.create_map(*names)[f.col("api_key")], f.concat(f.lit("api:"), f.col("api_key")))
        return rows.groupBy(*KEYS["usage"]).agg(*sums()).withColumn("api", named)

    def table(self, kind: str) -> DataFrame:
        """Return the rows of one kind as they are now, in your own session; none where nothing was read yet.

        Raises
        ------
        ConfigError
            There is no such kind of rows, or the tables have other clusters and not this one.
        """
        if kind not in KINDS:
            raise ConfigError("kind", f"{kind!r} is none of the kinds of rows: {', '.join(KINDS)}")
        self._checked()
        return EvidenceTable(self._users, self.place, self.cluster).pinned().rows(kind)

    def tidy(
        self,
        *,
        older_than: int | None = None,
        logs: str | os.PathLike[str] | None = None,
        forget: str | None = None,
        yes: bool = False,
    ) -> TidyPlan:
        """Remove what is too old, and who one principal is, and join small files, as ``fleet tidy`` does.

        Rows go that were seen more than ``older_than`` days before today, and with ``logs``, the folder of
        :meth:`ingest`, the files that are not there any more. ``forget`` is a principal. Without ``yes`` nothing is
        changed: the result has the number of rows. A run may go on meanwhile.

        Raises
        ------
        ConfigError
            There is no such cluster, ``logs`` were not read into this table, or its principals are hashed by another
            key.
        TablesBroken
            The table cannot be read or written.
        """
        if logs is not None and older_than is None:
            raise ConfigError("logs", "files that are gone leave the table with older_than alone")
        if older_than is not None and older_than < 0:
            raise ConfigError("older_than", f"{older_than} days before today are still to come")
        if forget is not None and not forget.strip():  # each line in quarantine has the empty text
            raise ConfigError("forget", "no name is given")
        table = existing_table(self._spark, self.place, self.cluster)
        there = None if logs is None else _files_below(_logs(logs, self.place))
        if there is not None and not has_read_any(table, there):
            raise ConfigError("logs", f"no file below {logs} was read into this table: give the folder of ingest")
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        wanted = Wanted(
            before=None if older_than is None else today - timedelta(days=older_than),
            there=there,
            principal=None if forget is None else self._as_kept(table, forget),
        )
        return tidy(table, wanted) if yes else plan(table, wanted)

    def _as_kept(self, table: EvidenceTable, principal: str) -> str:
        if principal.startswith(HASHED):
            return principal
        runs_saw(table).check_names(self.cluster, self._names)
        return self._names.of(principal) if self._names else principal

    def _checked(self) -> EvidenceTable:
        """Return the table, unless the tables have other clusters and not this one: its name is misspelled."""
        if self._table.version() is None:
            check_cluster_there(self._spark, self.place, self.cluster)
        return self._table

    def __repr__(self) -> str:
        return f"<Fleet of {self.cluster} in {self.place}>"


def _move(asked: Mapping[str, object]) -> Move:
    named = {name.replace("-", "_"): text for name, text in asked.items()}
    if len(asked) != 1:
        known = ", ".join(name.replace("-", "_") for name in MOVES)
        raise ConfigError("move", f"give one of {known}, and not {', '.join(named) or 'none'}")
    (kind,), ((name, text),) = asked, named.items()
    if not isinstance(text, str):
        raise TypeError(f'{name} is text, such as {name}="{MOVES[kind].example}", and not {text!r}')
    try:
        return MOVES[kind].read(text)
    except ValueError as error:
        raise ConfigError(name, str(error)) from None


def _place(given: str | os.PathLike[str]) -> Path | str:
    if isinstance(given, str) and given.startswith(CATALOG):
        return given
    return reached("tables", storage_path("tables", given))


def _files_below(logs: Path) -> FilesThere:
    files, left = list_logs(logs.resolve(), datetime.now(UTC))
    if closed := sorted(path for path, why in left.items() if why == UNLISTED):
        raise ConfigError("logs", f"{some(closed, 1)} cannot be listed, and what is there would be taken for gone")
    return FilesThere(uri_of(logs.resolve()).rstrip("/"), frozenset(each.uri for each in files))


def _logs(given: str | os.PathLike[str], tables: Path | str) -> Path:
    logs = reached("logs", storage_path("logs", given))
    if problem := why_no_folder(logs):
        raise ConfigError("logs", f"{logs}: {problem}")
    if not isinstance(tables, str) and is_below(tables, logs):
        raise ConfigError("tables", f"{tables} is within {logs}, and would be read as logs: move it out")
    return logs
