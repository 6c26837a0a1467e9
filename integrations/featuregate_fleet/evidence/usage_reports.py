"""Usage reports of a topic become rows of the tables. Pure: executors run it within ``mapInArrow``.

Each record is counted once: it is a report, with a row for each gate, or in quarantine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from featuregate.errors import UsageReportError
from featuregate.usage.report import UsageReport
from featuregate_fleet.evidence.columns import FEATURE_USAGE, QUARANTINE
from featuregate_fleet.evidence.reasons import MALFORMED_REPORT, NEWER_REPORT, OTHER_CLUSTER, PARSER, RAW_LENGTH

RECORDS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("value", pa.binary()),
    ]
)

PARSED_REPORTS: Final = pa.schema(
    [(name, pa.struct(list(schema))) for name, schema in (("feature_usage", FEATURE_USAGE), ("quarantine", QUARANTINE))]
)
"""A row of one of two tables in one pass. The other column is null."""


def parse_records(batches: Iterable[pa.RecordBatch], *, cluster_id: str | None) -> Iterator[pa.RecordBatch]:
    """Parse batches of `RECORDS`, the reports of apps that use the cluster with this id; yield `PARSED_REPORTS`."""
    for batch in batches:
        rows = [row for record in batch.to_pylist() for row in _rows_of(record, cluster_id)]
        yield pa.RecordBatch.from_pylist(rows, PARSED_REPORTS)


def _rows_of(record: Mapping[str, Any], cluster_id: str | None) -> list[dict[str, Any]]:
    """Return the rows of a record. One at which the reader or the table fails is in quarantine."""
    try:
        rows = list(_parse(record, cluster_id))
        pa.RecordBatch.from_pylist(rows, PARSED_REPORTS)
    except Exception:  # noqa: BLE001 - one record may not end the reading of all others
        return [{"quarantine": _quarantined(record, MALFORMED_REPORT)}]
    return rows


def _parse(record: Mapping[str, Any], cluster_id: str | None) -> Iterator[dict[str, Any]]:
    value = record["value"] or b""
    try:
        report = UsageReport.from_json(value)
    except UsageReportError as error:
        newer = error.where == "report.schema_version" and "newer" in error.problem
        yield {"quarantine": _quarantined(record, NEWER_REPORT if newer else MALFORMED_REPORT)}
        return
    if report.cluster_id is not None and report.cluster_id != cluster_id:
        yield {"quarantine": _quarantined(record, OTHER_CLUSTER)}
        return
    for row in _rows(report, record["timestamp"]):
        yield {"feature_usage": row}


def _rows(report: UsageReport, seen_at: datetime) -> Iterator[dict[str, Any]]:
    """Yield a row for each gate; a report without gates has one, too, because its app reports."""
    common = {
        **report.reporter._asdict(),
        "cluster_id": report.cluster_id,
        "closing": report.closing,
        "epoch": report.epoch,
        "count": 1,
        "first_seen": seen_at,
        "last_seen": seen_at,
    }
    for gate in report.gates:
        yield common | {
            "gate": gate.name,
            "requirement": gate.requirement,
            "policy": gate.policy,
            "state": gate.state,
            "latched": gate.latched,
            "levels": json.dumps(dict(sorted(gate.levels.items()))),
            "waits": gate.waits,
            "open_after": gate.open_after,
        }
    if not report.gates:
        yield common


def _quarantined(record: Mapping[str, Any], reason: str) -> dict[str, Any]:
    text = (record["value"] or b"").decode(errors="replace")
    place = f"{record['topic']}/{record['partition']}"
    return {
        "path": place,
        "uri": f"kafka:{place}",
        "broker": None,
        "time_zone": "UTC",
        "layout": "",
        "at": record["offset"],
        "reason": reason,
        "raw": text[:RAW_LENGTH],
        "whole": len(text) <= RAW_LENGTH,
        "parser": PARSER,
        "lines": 1,
        "text_log": False,
    }
