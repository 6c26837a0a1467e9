"""Reads what batches have kept of metrics into the evidence that verdicts take."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from featuregate_fleet.evidence.columns import BY_METRICS
from featuregate_fleet.metrics.evidence import BrokerCoverage, MetricsEvidence, RequestCount, SoftwareSeen, SoftwareUse
from featuregate_fleet.metrics.spellings import Deprecated
from featuregate_fleet.readiness.hours import HOUR, from_micros, hour_of, hours_from
from featuregate_fleet.tables.failures import one_line_failures, read_steadily
from featuregate_spark.arrow_tables import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from featuregate_fleet.tables.evidence_table import EvidenceTable

_LATE: Final = timedelta(hours=2)
"""A run that goes on has kept the hours before: what is missing after that is not covered."""
_SOFTWARE: Final = ("software_name", "software_version", "listener")
Software = tuple[str, str, str]
Times = dict[Software, dict[datetime, int]]
Brokers = dict[Software, set[str]]


def kept_metrics(table: EvidenceTable, since: datetime, now: datetime) -> MetricsEvidence | None:
    """Return what is kept of metrics from an hour on; None without any. Raises TablesBroken."""
    if table.version() is None:
        return None
    with one_line_failures("the table cannot be read"):
        return read_steadily(lambda: _read(table.pinned().since(since), since, now))


def _read(table: EvidenceTable, since: datetime, now: datetime) -> MetricsEvidence | None:
    targets = [row for row in to_arrow(table.rows("target")).to_pylist() if row["until"] > since]
    if not targets:
        return None
    kept, until = max(row["until"] for row in targets), hour_of(now)
    until = kept if until - kept <= _LATE else until
    covered = _hours(table, since)
    counts, deprecated = _requests(table, since)
    of_broker: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(targets, key=lambda one: one["until"]):
        of_broker[row["broker"]].append(row)
    every = hours_from(since, (until - since) / HOUR)
    return MetricsEvidence(
        since=since,
        until=until,
        brokers=tuple(_coverage(name, rows, every, covered[name]) for name, rows in sorted(of_broker.items())),
        requests=tuple(counts),
        deprecated=tuple(sorted(deprecated)),
        software=tuple(_software(table)),
    )


def _coverage(broker: str, rows: list[dict[str, Any]], every: set[datetime], covered: set[datetime]) -> BrokerCoverage:
    holes = tuple(sorted(every - covered))
    asked = [row for row in rows if row["has_requests"]]
    return BrokerCoverage(
        broker=broker,
        hosts=tuple(sorted({host for row in rows for host in row["hosts"]})),
        started=rows[-1]["started"],
        hours=len(every) - len(holes),
        of_hours=len(every),
        holes=holes,
        restarts=sum(row["restarts"] for row in rows),
        is_broker=any(row["is_broker"] for row in rows),
        has_requests=bool(asked),
        has_software=all(row["has_software"] for row in asked or rows),
        full_listeners=tuple(sorted({one for row in rows for one in row["full_listeners"]})),
        unusable=tuple(sorted({one for row in rows for one in row["unusable"]})),
        unread=sum(row["unread"] for row in rows),
        interval=max((row["interval"] for row in rows if row["interval"]), default=None),
        converted=tuple(sorted({one.partition(":")[::2] for row in rows for one in row["converted"]})),
        problem=next((row["problem"] for row in rows if row["problem"]), ""),
    )


def _hours(table: EvidenceTable, since: datetime) -> defaultdict[str, set[datetime]]:
    rows = table.rows("hour").where((f.col("by") == BY_METRICS) & (f.col("hour") >= f.lit(since)))
    found: defaultdict[str, set[datetime]] = defaultdict(set)
    for row in to_arrow(rows.select("broker", f.unix_micros("hour").alias("hour")).distinct()).to_pylist():
        found[row["broker"]].add(from_micros(row["hour"]))
    return found


def _requests(table: EvidenceTable, since: datetime) -> tuple[list[RequestCount], set[Deprecated]]:
    """Return counts by broker, version and hour, and names. Those of which the time is not known are one count."""
    rows = table.rows("requests").where(f.col("last_seen") > f.lit(since))
    known = f.col("first_seen").isNotNull()
    names = ("broker", "api", "version", "software_name", "software_version")
    added = rows.groupBy(*names, f.when(known, f.date_trunc("hour", "last_seen")).alias("hour")).agg(
        f.sum("count").alias("count"),
        f.unix_micros(f.min("first_seen")).alias("after"),
        f.unix_micros(f.max("last_seen")).alias("until"),
    )
    counts: list[RequestCount] = []
    deprecated: set[Deprecated] = set()
    for row in to_arrow(added.drop("hour")).to_pylist():
        if row["broker"] is None:
            deprecated.add(Deprecated(row["api"], row["version"], row["software_name"], row["software_version"]))
        else:
            after = None if row["after"] is None else from_micros(row["after"])
            until = from_micros(row["until"])
            counts.append(RequestCount(row["broker"], row["api"], row["version"], row["count"], after, until))
    return counts, deprecated


def _software(table: EvidenceTable) -> list[SoftwareSeen]:
    columns = ("broker", "listener", "software_name", "software_version")
    added = table.rows("software").groupBy(*columns).agg(
        f.max("connections").alias("connections"),
        f.unix_micros(f.min("hour")).alias("first"),
        f.unix_micros(f.max("hour")).alias("last"),
    )  # fmt: skip
    return [
        SoftwareSeen(broker, listener, name, version, from_micros(at), most)
        for broker, listener, name, version, most, first, last in (row.values() for row in to_arrow(added).to_pylist())
        for at in sorted({first, last})
    ]


def inventory_of(table: EvidenceTable, since: datetime, now: datetime) -> tuple[MetricsEvidence, list[SoftwareUse]]:
    """Return what is kept of metrics from an hour on, and each software by name, at one time. Raises TablesBroken."""

    def read() -> tuple[MetricsEvidence, list[SoftwareUse]]:
        of_time = table.pinned().since(since)
        nothing = MetricsEvidence(since=since, until=now, brokers=())
        return _read(of_time, since, now) or nothing, _software_use(of_time)

    with one_line_failures("the table cannot be read"):
        return read_steadily(read)


def _software_use(table: EvidenceTable) -> list[SoftwareUse]:
    brokers: Brokers = defaultdict(set)
    connections = _added(table.rows("software"), "hour", "connections", brokers)
    clients = "outcome = 'completed' and not coalesce(forwarded, false) and software_name is not null"
    usage = table.rows("usage").where(clients).withColumn("at", f.col("day").cast("timestamp"))
    requests = _added(usage, "at", "count", brokers)
    return [
        SoftwareUse(
            *key,
            brokers=tuple(sorted(of_it, key=lambda broker: (len(broker), broker))),
            connections=dict(sorted(connections.get(key, {}).items())),
            requests=dict(sorted(requests.get(key, {}).items())),
        )
        for key, of_it in sorted(brokers.items())
    ]


def _added(rows: DataFrame, at: str, count: str, brokers: Brokers) -> Times:
    """Return the sums of all brokers by software, listener and time; add which brokers saw it."""
    sums = f.sum(count).alias("sum"), f.collect_set("broker").alias("brokers")
    summed = rows.groupBy(*_SOFTWARE, f.unix_micros(at).alias("at")).agg(*sums)
    found: Times = defaultdict(dict)
    for row in to_arrow(summed).to_pylist():
        key = row["software_name"], row["software_version"] or "", row["listener"] or ""
        times, time = found[key], from_micros(row["at"])
        times[time] = row["sum"] + times.get(time, 0)
        brokers[key].update(row["brokers"])
    return found
