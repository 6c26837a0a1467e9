"""Reads the table of a cluster into the evidence that checks take. It asks Spark few questions: each takes a while."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_, attrgetter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from featuregate.view.cluster_view import View
from featuregate_fleet.evidence.columns import FROM_LOGS, FROM_METRICS, FROM_RECORDS, FROM_REPORTS
from featuregate_fleet.evidence.paths import LineCounts, UnreadFile
from featuregate_fleet.evidence.reasons import OF_REPORTS, OTHER_CLUSTER
from featuregate_fleet.readiness import evidence
from featuregate_fleet.readiness.inter_broker import of_nodes
from featuregate_fleet.tables.failures import one_line_failures, read_steadily
from featuregate_fleet.tables.run_rows import levels_over_time, logged_hours, runs_saw
from featuregate_fleet.tables.source_reader import newest_readings, read_sources
from featuregate_spark.arrow_tables import to_arrow

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from featuregate_fleet.tables.evidence_table import EvidenceTable

_REFUSED: Final = ("client_host", "api_key", "version")
_BEFORE: Final = "interval 1 day"
"""A connection has the number of a port, which another client gets some day."""
_AFTER: Final = "interval 1 minute"
"""A request may be answered, and so logged, after the next one on its connection was refused."""


def read_evidence(table: EvidenceTable) -> evidence.Evidence:
    """Add up the rows of all days, brokers and batches, of the table as it is now. Raises TablesBroken."""
    with one_line_failures("the table cannot be read"):
        return read_steadily(lambda: _read(table.pinned()))


def _read(table: EvidenceTable) -> evidence.Evidence:
    counts, failed, again = read_sources(table)
    saw, logged = runs_saw(table), logged_hours(table)
    folders = saw.of_logs.values()
    expected = frozenset(saw.listed).union(*(seen.folders for seen in folders))
    lines, reports = counts.get(FROM_LOGS, LineCounts(0, 0, 0)), counts.get(FROM_REPORTS)
    in_quarantine = newest_readings(table.rows("quarantine"), again)
    lost, with_heads = _reasons(in_quarantine)
    unread = sum(count for (_, reason), count in lost.items() if reason in OF_REPORTS - {OTHER_CLUSTER})
    by_day = _usage_by_day(table, logged).persist()
    try:
        of_clients = to_arrow(by_day.groupBy(*_WHO).agg(*sums()))
        usages = tuple(evidence.Usage(**row) for row in of_clients.to_pylist())
        over_time = _usage_over_time(by_day, of_nodes(usages, expected | logged.brokers.keys()))
    finally:
        by_day.unpersist()
    return replace(
        logged,
        usage=usages,
        cut=_cut_requests(in_quarantine) if with_heads else (),
        over_time=over_time,
        levels=levels_over_time(table) if saw.asked_at else (),
        expected=expected,
        unread_files=tuple(UnreadFile(**file) for seen in folders for file in seen.unread),
        view=View.from_json(saw.view) if saw.view else None,
        records_read=saw.records_read,
        records=record_uses(table) if FROM_RECORDS in counts else (),
        apps=None if reports is None else read_app_usage(table, reports, unread),
        reports_expected=True,
        read=lines.read,
        rows=lines.rows,
        refused_clients=_refused_clients(table) if any(one.outcome == "refused" for one in usages) else {},
        lines_quarantined=lines.quarantined,
        quarantined={key: count for key, count in (lost + failed).items() if key[1] not in OF_REPORTS},
        has_metrics=FROM_METRICS in counts,
        version=table.version(),
    )


def _reasons(in_quarantine: DataFrame) -> tuple[Counter[tuple[str | None, str]], bool]:
    summed = f.sum("lines").alias("lines"), f.count("seen_at").alias("heads")
    rows = in_quarantine.groupBy("broker", "reason").agg(*summed).collect()
    return Counter({(row["broker"], row["reason"]): row["lines"] for row in rows}), any(row["heads"] for row in rows)


def _cut_requests(in_quarantine: DataFrame) -> tuple[evidence.Usage, ...]:
    named = ("forwarded", "client_id", "api_key", "version")
    heads = in_quarantine.where("seen_at is not null")
    times = f.min("seen_at").alias("first_seen"), f.max("seen_at").alias("last_seen")
    counted = heads.groupBy(*named).agg(f.sum("lines").alias("count"), *times)
    unknown: dict[str, Any] = dict.fromkeys(set(_WHO) - {*named, "outcome"})
    return tuple(evidence.Usage(**unknown, **row, outcome="cut") for row in to_arrow(counted).to_pylist())


def _refused_clients(table: EvidenceTable) -> Mapping[evidence.RefusedVersion, frozenset[evidence.RefusedClient]]:
    """Return the clients that asked for API versions on connections that brokers closed because of a version."""
    rows = table.rows("usage").where("connection is not null")
    refused = rows.where("outcome = 'refused'").select(
        "broker",
        "connection",
        *_REFUSED,
        (f.col("first_seen") - f.expr(_BEFORE)).alias("from"),
        (f.col("last_seen") + f.expr(_AFTER)).alias("to"),
    )
    who = f.struct("client_id", "principal", _software().alias("software")).alias("who")
    others = rows.where("outcome = 'completed'").select("broker", "connection", "first_seen", "last_seen", who)
    near = (f.col("last_seen") >= f.col("from")) & (f.col("first_seen") <= f.col("to"))
    found = refused.join(others, ["broker", "connection"]).where(near).select(*_REFUSED, "who").distinct()
    clients: defaultdict[evidence.RefusedVersion, set[evidence.RefusedClient]] = defaultdict(set)
    for host, key, version, client in found.collect():
        clients[evidence.RefusedVersion(host, key, version)].add(evidence.RefusedClient(*client))
    return {request: frozenset(of_it) for request, of_it in clients.items()}


# ---------------------------------------------------------------- requests of clients, and versions by software and day

_WHO: Final = (
    "outcome", "forwarded", "principal", "client_id", "client_host", "listener", "software_name", "software_version",
    "api_key", "version",
)  # fmt: skip
"""The columns by which usage differs for verdicts."""
_FEW: Final = {"outcome": ("'completed'", "'refused'"), "forwarded": ("false", "true")}
"""Columns of ``usage`` with two values, in SQL, or null."""
_STRINGS_AND_NUMBERS: Final = tuple(sorted(set(_WHO) - _FEW.keys()))
_OF_NODES: Final = ("listener", "principal", "client_id", "software_name", "api_key")
"""The columns by which requests of nodes differ from those of clients."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_DAYS: Final = 30


def _usage_by_day(table: EvidenceTable, logged: evidence.Evidence) -> DataFrame:
    """Add up the rows of usage by client and version, and by the day of the last 30 days.

    ``day`` is the number of days since 1970, and null for the days before. What is read of clients is made from this:
    the table may have millions of rows.
    """
    hours = [hour for of_level in (logged.hourly, logged.deprecated) for seen in of_level.values() for hour in seen]
    since = (max(hours, default=_EPOCH) - _EPOCH) // _DAY - _DAYS
    rows = table.rows("usage").withColumns({"few": f.expr(_packed()), "day": f.expr("unix_date(day)")})
    timed = rows.withColumn("day", f.when(f.col("day") >= since, f.col("day")))
    added = timed.groupBy("few", "day", *_STRINGS_AND_NUMBERS).agg(*sums())
    return added.withColumns(_unpacked()).drop("few")


def sums() -> tuple[Column, Column, Column]:
    """Return what rows of usage say together that are alike in all other columns."""
    times = f.min("first_seen").alias("first_seen"), f.max("last_seen").alias("last_seen")
    return f.sum("count").alias("count"), *times


def _packed() -> str:
    """Return the columns of few values as one number: a key of many columns is copied and hashed for each row."""
    return " + ".join(
        f"case {name} when {one} then {3**place} when {other} then {2 * 3**place} else 0 end"
        for place, (name, (one, other)) in enumerate(_FEW.items())
    )


def _unpacked() -> dict[str, Column]:
    return {
        name: f.expr(f"case few div {3**place} % 3 when 1 then {one} when 2 then {other} end")
        for place, (name, (one, other)) in enumerate(_FEW.items())
    }


def _usage_over_time(by_day: DataFrame, nodes: Collection[evidence.Usage]) -> tuple[evidence.UsageAt, ...]:
    """Count requests but those of ``nodes`` in the last 30 days of evidence, by software, API version and day."""
    clients = by_day.where("outcome = 'completed' and not coalesce(forwarded, false) and day is not null")
    alike = _named(_without(nodes, clients)).groupBy("software", "api_key", "version", "day")
    counted = alike.agg(f.sum("count")).collect()
    days = ((software, key, version, _EPOCH + day * _DAY, count) for software, key, version, day, count in counted)
    return tuple(evidence.UsageAt(*one) for one in days)


def _without(nodes: Collection[evidence.Usage], lines: DataFrame) -> DataFrame:
    if not nodes:
        return lines
    wanted = lines.select(*_OF_NODES)
    known = lines.sparkSession.createDataFrame(
        sorted({attrgetter(*_OF_NODES)(usage) for usage in nodes}, key=str), wanted.schema
    )
    same = reduce(and_, (lines[name].eqNullSafe(known[name]) for name in _OF_NODES))
    return lines.join(f.broadcast(known), same, "left_anti")


def _software() -> Column:
    return f.nullif(f.concat_ws(" ", "software_name", "software_version"), f.lit(""))


def _named(lines: DataFrame) -> DataFrame:
    """Add the software; a client that says one software on some connections from a host has it on all of them."""
    of_client = Window.partitionBy("principal", "client_id", "client_host")
    known = lines.withColumn("said", _software())
    first, last = f.min("said").over(of_client), f.max("said").over(of_client)
    return known.withColumn("software", f.coalesce("said", f.when(first == last, first), f.lit("")))


# ---------------------------------------------------------------- records and reports

_ALIKE: Final = (
    "topic", "record_type", "kind", "version", "reason", "group", "protocol", "transactional_id",
    "tagged_fields", "model", "current",
)  # fmt: skip
_SILENT: Final = "interval 10 minutes"
"""A report does not count any more when others of its app were read this much later."""


def record_uses(table: EvidenceTable) -> tuple[evidence.RecordUse, ...]:
    """Count the keys of each group and transactional id; a record is current if it is the last one of its key."""
    newest = f.max("offset").over(Window.partitionBy("topic", "partition", "key"))
    records = table.rows("record").withColumn("current", f.col("offset") == newest)
    counted = records.groupBy(*_ALIKE).agg(
        f.countDistinct("partition", "key").alias("count"),
        f.min("at").alias("first_seen"),
        f.array_distinct(f.flatten(f.collect_list("members.client_id"))).alias("client_ids"),
    )
    found = to_arrow(counted).to_pylist()
    for row in found:
        row["tagged_fields"] = tuple(row["tagged_fields"] or ())
        row["client_ids"] = tuple(sorted(filter(None, row["client_ids"])))
    return tuple(evidence.RecordUse(**row) for row in found)


def read_app_usage(table: EvidenceTable, records: LineCounts, unread: int) -> evidence.AppUsage:
    """Return what the apps said last of each gate, with the counts of all records, and of those that were not read.

    Which reports count depends on when they were read, and not on their records' times: these are by default those of
    the clocks of apps, and a clock that is ahead would hide the reports of others. All reports of that time count
    together, because two discoverers of one process may have the same names.
    """
    of_app, of_gate = Window.partitionBy("app"), Window.partitionBy("app", "instance", "gate")
    timed = table.rows("app").withColumn("newest", f.max("written_at").over(of_app))
    current = timed.where(f.col("written_at") >= f.col("newest") - f.expr(_SILENT))
    ended = f.max_by("closing", "last_seen").over(of_gate)  # by the clock of one instance
    last_waits = f.max_by("waits", "last_seen").over(of_gate)
    software = f.sort_array(f.collect_set(f.concat_ws(" ", "software_name", "software_version")))
    found = (
        current.withColumns({"ended": ended, "last_waits": last_waits})
        .groupBy("app", "gate", "requirement", "policy")
        .agg(
            f.array_join(software, ", ").alias("software"),
            f.sort_array(f.collect_set("state")).alias("states"),
            f.coalesce(f.max("latched"), f.lit(False)).alias("latched"),  # noqa: FBT003 - of Spark
            f.max_by("levels", "epoch").alias("levels"),
            f.countDistinct("instance").alias("instances"),
            f.countDistinct(f.when(f.col("last_waits") == "hold", f.col("instance"))).alias("held"),
            f.coalesce(f.max("open_after"), f.lit(0.0)).alias("open_after"),
            f.min("ended").alias("closed"),
            f.sum("count").alias("count"),
            f.min(f.least("first_seen", "written_at")).alias("first_seen"),
            f.max(f.least("last_seen", "written_at")).alias("last_seen"),
        )
    )
    rows = to_arrow(found).to_pylist()
    for row in rows:
        row.update(states=tuple(row["states"]), levels=json.loads(row["levels"] or "{}"))
    return evidence.AppUsage(gates=tuple(evidence.GateUse(**row) for row in rows), **records._asdict(), unread=unread)
