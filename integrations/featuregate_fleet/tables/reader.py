"""Reads the table of a cluster into the evidence that checks take. It asks Spark few questions: each takes a while."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from featuregate_fleet.evidence.columns import FROM_LOGS, FROM_RECORDS, FROM_REPORTS
from featuregate_fleet.evidence.line_counts import LineCounts
from featuregate_fleet.evidence.reasons import OF_REPORTS, OTHER_CLUSTER
from featuregate_fleet.readiness.evidence import Evidence, RefusedClient, RefusedVersion, Usage
from featuregate_fleet.readiness.inter_broker import of_nodes
from featuregate_fleet.tables.coverage_reader import logged_hours
from featuregate_fleet.tables.failures import one_line_failures, read_steadily
from featuregate_fleet.tables.over_time_reader import usage_by_day, usage_of_clients, usage_over_time
from featuregate_fleet.tables.record_reader import record_uses
from featuregate_fleet.tables.run_reader import levels_over_time, seen_by_runs
from featuregate_fleet.tables.source_reader import newest_readings, read_sources
from featuregate_fleet.tables.times import from_micros
from featuregate_fleet.tables.usage_reader import read_app_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from featuregate_fleet.tables.evidence_table import EvidenceTable

_REFUSED: Final = ("client_host", "api_key", "version")
_BEFORE: Final = "interval 1 day"
"""A connection has the number of a port, which another client gets some day."""
_AFTER: Final = "interval 1 minute"
"""A request may be answered, and so logged, after the next one on its connection was refused."""


def read_evidence(table: EvidenceTable) -> Evidence:
    """Add up the rows of all days, brokers and batches, of the table as it is now.

    Raises
    ------
    TablesBroken
        The table cannot be read.
    """
    with one_line_failures("the table cannot be read"):
        return read_steadily(lambda: _read(table.pinned()))


def _read(table: EvidenceTable) -> Evidence:
    sources, runs, logged = read_sources(table), seen_by_runs(table), logged_hours(table)
    lines, reports = sources.counts.get(FROM_LOGS, LineCounts(0, 0, 0)), sources.counts.get(FROM_REPORTS)
    in_quarantine = newest_readings(table.rows("quarantine"), sources.again)
    lost, with_heads = _reasons(in_quarantine)
    unread = sum(count for (_, reason), count in lost.items() if reason in OF_REPORTS - {OTHER_CLUSTER})
    by_day = usage_by_day(table, logged).persist()
    try:
        usages = usage_of_clients(by_day)
        over_time = usage_over_time(by_day, of_nodes(usages, runs.expected | logged.brokers.keys()))
    finally:
        by_day.unpersist()
    return Evidence(
        usage=usages,
        cut=_cut_requests(in_quarantine) if with_heads else (),
        **logged._asdict(),
        over_time=over_time,
        levels=levels_over_time(table),
        **runs._asdict(),
        records=record_uses(table) if FROM_RECORDS in sources.counts else (),
        apps=None if reports is None else read_app_usage(table, reports, unread),
        reports_expected=True,
        read=lines.read,
        rows=lines.rows,
        refused_clients=_refused_clients(table) if any(one.outcome == "refused" for one in usages) else {},
        lines_quarantined=lines.quarantined,
        quarantined={
            key: count for key, count in (Counter(lost) + Counter(sources.failed)).items() if key[1] not in OF_REPORTS
        },
        version=table.version(),
    )


def _reasons(in_quarantine: DataFrame) -> tuple[dict[tuple[str | None, str], int], bool]:
    """Count the lines by broker and reason; return also whether the heads of some are known."""
    found = in_quarantine.groupBy("broker", "reason").agg(
        f.sum("lines").alias("lines"), f.count("seen_at").alias("heads")
    )
    rows = found.collect()
    return {(row["broker"], row["reason"]): row["lines"] for row in rows}, any(row["heads"] for row in rows)


def _cut_requests(in_quarantine: DataFrame) -> tuple[Usage, ...]:
    """Return what the heads of cut lines say."""
    named = ("forwarded", "client_id", "api_key", "version")
    heads = in_quarantine.where("seen_at is not null")
    counted = heads.groupBy(*named).agg(
        f.sum("lines").alias("count"),
        f.unix_micros(f.min("seen_at")).alias("first_seen"),
        f.unix_micros(f.max("seen_at")).alias("last_seen"),
    )
    unknown: dict[str, Any] = dict.fromkeys(
        ("principal", "client_host", "listener", "software_name", "software_version")
    )
    return tuple(
        Usage(
            **unknown,
            **{name: row[name] for name in (*named, "count")},
            outcome="cut",
            first_seen=from_micros(row["first_seen"]),
            last_seen=from_micros(row["last_seen"]),
        )
        for row in counted.collect()
    )


def _refused_clients(table: EvidenceTable) -> Mapping[RefusedVersion, frozenset[RefusedClient]]:
    """Return the clients that asked for API versions on connections that brokers closed because of a version."""
    rows = table.rows("usage").where("connection is not null")
    refused = rows.where("outcome = 'refused'").select(
        "broker",
        "connection",
        *_REFUSED,
        (f.col("first_seen") - f.expr(_BEFORE)).alias("from"),
        (f.col("last_seen") + f.expr(_AFTER)).alias("to"),
    )
    software = f.nullif(f.concat_ws(" ", "software_name", "software_version"), f.lit(""))
    who = f.struct("client_id", "principal", software.alias("software")).alias("who")
    others = rows.where("outcome = 'completed'").select("broker", "connection", "first_seen", "last_seen", who)
    near = (f.col("last_seen") >= f.col("from")) & (f.col("first_seen") <= f.col("to"))
    found = refused.join(others, ["broker", "connection"]).where(near).select(*_REFUSED, "who").distinct()
    clients: defaultdict[RefusedVersion, set[RefusedClient]] = defaultdict(set)
    for host, key, version, client in found.collect():
        clients[RefusedVersion(host, key, version)].add(RefusedClient(*client))
    return {request: frozenset(of_it) for request, of_it in clients.items()}
