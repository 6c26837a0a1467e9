"""Usage reports of a topic become rows. Pure: executors run it within ``mapInArrow``.

Each record is counted once: it is a report, with a row for each gate, or in quarantine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from featuregate.errors import UsageReportError
from featuregate.usage.report import UsageReport
from featuregate_fleet.evidence.columns import APP, APP_KEYS, FROM_REPORTS, rows_from, rows_of
from featuregate_fleet.evidence.hidden_names import hidden
from featuregate_fleet.evidence.paths import partition_uri
from featuregate_fleet.evidence.reasons import MALFORMED_REPORT, NEWER_REPORT, OTHER_CLUSTER, RAW_LENGTH

if TYPE_CHECKING:
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

"""How rows of kind ``source`` name this input."""

RECORDS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("value", pa.binary()),
    ]
)
"""What Spark hands to `parse_reports`."""

_MOST: Final = 100_000
"""Rows of apps that are held back."""


def parse_reports(
    batches: Iterable[pa.RecordBatch], *, topic_id: str, cluster_id: str | None, names: Pseudonyms | None = None
) -> Iterator[pa.RecordBatch]:
    """Parse batches of `RECORDS`, the reports of apps that use the cluster with this id.

    Yield `featuregate_fleet.evidence.columns.ROWS`: what apps said, added up, what is in quarantine, and a row of kind
    ``source`` for each partition with its counts alone. With ``names``, quarantine has no texts.
    """
    return hidden(_parsed(batches, topic_id, cluster_id), names)


def _parsed(batches: Iterable[pa.RecordBatch], topic_id: str, cluster_id: str | None) -> Iterator[pa.RecordBatch]:
    read: Counter[tuple[str, int]] = Counter()
    lost: Counter[tuple[str, int]] = Counter()
    held: list[pa.Table] = []
    for batch in batches:
        apps: list[dict[str, Any]] = []
        quarantined: list[dict[str, Any]] = []
        for record in batch.to_pylist():
            place = record["topic"], record["partition"]
            rows, why = _rows_of(record, cluster_id)
            apps += rows
            read[place] += 1
            if why:
                quarantined.append(_quarantined(record, why))
                lost[place] += 1
        if quarantined:
            yield rows_from("quarantine", quarantined)
        if apps:
            held.append(pa.Table.from_pylist(apps, APP))
        if sum(map(len, held)) > _MOST:
            yield rows_of("app", _added_up(held))
            held.clear()
    if held:
        yield rows_of("app", _added_up(held))
    if read:
        yield rows_from("source", [_counts(topic_id, *place, read[place], lost[place]) for place in read])


def _added_up(held: list[pa.Table]) -> pa.Array:
    """Return a row for each process and gate that said the same."""
    grouped = pa.concat_tables(held).group_by(list(APP_KEYS), use_threads=False)  # a task has one core
    how = {"epoch": "max", "count": "sum", "first_seen": "min", "last_seen": "max"}
    sums = grouped.aggregate(list(how.items())).rename_columns([*APP_KEYS, *how])
    return sums.select(APP.names).cast(APP).to_struct_array().combine_chunks()


def _counts(topic_id: str, topic: str, partition: int, read: int, lost: int) -> dict[str, object]:
    uri = partition_uri(topic, partition)
    return {
        "source": topic_id,
        "input": FROM_REPORTS,
        "path": uri,
        "uri": uri,
        "size": 0,
        "position": 0,
        "read": read,
        "rows": read - lost,
        "quarantined": lost,
    }


def _rows_of(record: Mapping[str, Any], cluster_id: str | None) -> tuple[list[dict[str, Any]], str | None]:
    """Return the rows of a report, or why the record is in quarantine, as is one at which reader or table fails."""
    try:
        report = UsageReport.from_json(record["value"] or b"")
        if report.cluster_id is not None and report.cluster_id != cluster_id:
            return [], OTHER_CLUSTER
        rows = list(_rows(report, record["timestamp"]))
        pa.array(rows, pa.struct(list(APP)))
    except UsageReportError as error:
        is_newer = error.where == "report.schema_version" and "newer" in error.problem
        return [], NEWER_REPORT if is_newer else MALFORMED_REPORT
    except Exception:  # noqa: BLE001 - one record may not end the reading of all others
        return [], MALFORMED_REPORT
    return rows, None


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
    return {
        "path": partition_uri(record["topic"], record["partition"]),
        "at": record["offset"],
        "reason": reason,
        "raw": text[:RAW_LENGTH],
        "lines": 1,
    }
