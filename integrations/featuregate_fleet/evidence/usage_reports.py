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
from featuregate_fleet.evidence.columns import APP, FROM_REPORTS, partition_row, rows_from
from featuregate_fleet.evidence.paths import partition_uri
from featuregate_fleet.evidence.reasons import MALFORMED_REPORT, NEWER_REPORT, OTHER_CLUSTER, RAW_LENGTH
from featuregate_fleet.evidence.usage import add_up

if TYPE_CHECKING:
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms


RECORDS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),  # of a record of a topic of logs the node id of the broker, also where a header has it
        ("value", pa.binary()),
    ]
)
"""What parsers of topics take: the records of a task, which are in the order of their offsets."""


def parse_reports(
    batches: Iterable[pa.RecordBatch], *, topic_id: str, cluster_id: str | None, names: Pseudonyms | None = None
) -> Iterator[pa.RecordBatch]:
    """Parse `RECORDS`, the reports of apps that use the cluster with this id.

    Yield `featuregate_fleet.evidence.columns.ROWS`: what apps said, added up, what is in quarantine, and a row of kind
    ``source`` for each partition with its counts alone. With ``names``, quarantine has no texts.
    """
    return add_up(_parsed(batches, topic_id, cluster_id), names)


def _parsed(batches: Iterable[pa.RecordBatch], topic_id: str, cluster_id: str | None) -> Iterator[pa.RecordBatch]:
    read, lost = Counter[str](), Counter[str]()
    for batch in batches:
        apps: list[dict[str, Any]] = []
        quarantined: list[dict[str, Any]] = []
        for record in batch.to_pylist():
            uri = partition_uri(record["topic"], record["partition"])
            rows, why = _rows_of(record, cluster_id)
            apps += rows
            read[uri] += 1
            if why:
                raw = (record["value"] or b"").decode(errors="replace")[:RAW_LENGTH]
                quarantined.append({"path": uri, "at": record["offset"], "reason": why, "raw": raw, "lines": 1})
                lost[uri] += 1
        if quarantined:
            yield rows_from("quarantine", quarantined)
        if apps:
            yield rows_from("app", apps)
    if read:
        counts = {uri: {"read": read[uri], "rows": read[uri] - lost[uri], "quarantined": lost[uri]} for uri in read}
        yield rows_from("source", [partition_row(uri, topic_id, FROM_REPORTS, **of) for uri, of in counts.items()])


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
