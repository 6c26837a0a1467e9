"""Reads the tables into the evidence that checks take."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from featuregate_fleet.evidence.lines.request import lasting
from featuregate_fleet.evidence.reasons import OF_REPORTS
from featuregate_fleet.evidence.unread import UnreadFile
from featuregate_fleet.readiness.evidence import Evidence, RefusedClient, RefusedVersion, Usage
from featuregate_fleet.readiness.inter_broker import of_nodes
from featuregate_fleet.tables.coverage_reader import LoggedRequests, log_levels, logged_requests
from featuregate_fleet.tables.failures import one_line_failures
from featuregate_fleet.tables.over_time_reader import WHO, levels_over_time, usage_by_time, usage_over_time
from featuregate_fleet.tables.record_reader import last_view, record_uses, records_read
from featuregate_fleet.tables.times import from_micros
from featuregate_fleet.tables.usage_reader import read_app_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate_fleet.tables.folder import Tables

_READ: Final = (
    "api_usage", "brokers", "cluster_views", "coordinator_records", "coordinator_topics", "coverage",
    "evidence_files", "feature_levels", "feature_usage", "log_lines", "quarantine", "unread_files",
    "usage_topics",
)  # fmt: skip
_REFUSED: Final = ("client_host", "api_key", "version")
_BEFORE: Final = "interval 1 day"
"""A connection has the number of a port, which another client gets some day."""
_AFTER: Final = "interval 1 minute"
"""A request may be answered, and so logged, after the next one on its connection was refused."""


def read_evidence(tables: Tables) -> Evidence:
    """Add up the rows of all hours, brokers and micro-batches, of the tables as they are now.

    Raises
    ------
    TablesBroken
        A table cannot be read.
    """
    with one_line_failures("the tables cannot be read"):
        pinned = tables.pinned()
        logged = logged_requests(pinned)
        by_time = usage_by_time(pinned, logged).persist()
        try:
            return _read(pinned, logged, by_time)
        finally:
            by_time.unpersist()


def _cut_requests(tables: Tables) -> tuple[Usage, ...]:
    """Return what the heads of cut lines say."""
    heads = tables.read("quarantine").where("seen_at is not null")
    named = ("forwarded", "client_id", "api_key", "version", "text_log")
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


def _read(tables: Tables, logged: LoggedRequests, by_time: DataFrame) -> Evidence:
    files = tables.read("evidence_files")
    times = (
        f.unix_micros(f.min("first_seen")).alias("first_seen"),
        f.unix_micros(f.max("last_seen")).alias("last_seen"),
    )
    used = by_time.groupBy(*WHO).agg(f.sum("count").alias("count"), *times).collect()
    usages = tuple(
        Usage(
            **{name: row[name] for name in (*WHO, "count")}
            | {"principal": row["principal"] and lasting(row["principal"])},  # an older release kept the whole name
            first_seen=from_micros(row["first_seen"]),
            last_seen=from_micros(row["last_seen"]),
        )
        for row in used
    )
    text_logs = tables.read("api_usage").where("text_log").select("broker").distinct().collect()
    expected = frozenset(row["broker"] for row in tables.read("brokers").collect())
    unread = tables.read("unread_files").select(*UnreadFile._fields)
    nodes = of_nodes(usages, expected | logged.brokers.keys())
    lines = files.agg(*(f.sum(name).alias(name) for name in ("read", "rows", "quarantined"))).collect()[0]
    lost = tables.read("quarantine").where(~f.col("reason").isin(*OF_REPORTS))
    reasons = lost.groupBy("broker", "reason").agg(f.sum("lines").alias("count")).collect()
    return Evidence(
        usage=usages,
        cut=_cut_requests(tables),
        **logged._asdict(),
        text_logs=frozenset(row["broker"] for row in text_logs),
        log_levels=log_levels(tables),
        over_time=usage_over_time(by_time, nodes),
        levels=levels_over_time(tables),
        expected=expected,
        unread_files=tuple(UnreadFile(*row) for row in unread.collect()),
        view=last_view(tables),
        records=record_uses(tables),
        records_read=records_read(tables),
        apps=read_app_usage(tables),
        reports_expected=True,
        read=lines["read"] or 0,
        rows=lines["rows"] or 0,
        refused_clients=_refused_clients(tables),
        lines_quarantined=lines["quarantined"] or 0,
        quarantined={(row["broker"], row["reason"]): row["count"] for row in reasons},
        versions={name: tables.version(name) for name in _READ},
    )


def _refused_clients(tables: Tables) -> Mapping[RefusedVersion, frozenset[RefusedClient]]:
    """Return the clients whose connections were closed because of a version; nothing where no lines are kept."""
    if tables.version("log_lines") is None:
        return {}
    lines = tables.read("log_lines").where("connection is not null")
    refused = lines.where("outcome = 'refused'").select("broker", "connection", f.col("time").alias("at"), *_REFUSED)
    who = f.struct(
        "principal", "client_id", f.nullif(f.concat_ws(" ", "software_name", "software_version"), f.lit("")).alias("is")
    )
    others = lines.where("outcome = 'completed'").select("broker", "connection", "time", who.alias("who"))
    near = f.col("time").between(f.col("at") - f.expr(_BEFORE), f.col("at") + f.expr(_AFTER))
    found = refused.join(others, ["broker", "connection"]).where(near).select(*_REFUSED, "who.*").distinct()
    clients: dict[RefusedVersion, set[RefusedClient]] = defaultdict(set)
    for row in found.collect():
        request = RefusedVersion(row["client_host"], row["api_key"], row["version"])
        clients[request].add(RefusedClient(row["client_id"], row["principal"], row["is"]))
    return {request: frozenset(of_it) for request, of_it in clients.items()}
