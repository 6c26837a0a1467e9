"""Usage reports of apps: from records of a topic to rows."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from fleet_evidence import NOW
from fleet_rows import Rows, by_kind

from featuregate.usage.report import ReportedGate, Reporter, UsageReport
from featuregate_fleet.evidence.pseudonyms import Pseudonyms
from featuregate_fleet.evidence.topic_records import RECORDS, parse_reports

SECOND = timedelta(seconds=1)
REPORT = UsageReport(
    reporter=Reporter("orders", "orders-1", "featuregate", "0.1.0"),
    reported_at=1700000000.0,
    cluster_id="c",
    epoch=7,
    age_seconds=1.0,
    gates=(
        ReportedGate(
            name="eos",
            requirement="transaction.version>=2",
            policy="sticky",
            state="open",
            latched=True,
            levels={"transaction.version": 2},
        ),
    ),
)


def parsed(*values: bytes | None, size: int = 10, **more: Any) -> Rows:
    """Parse records with these values in batches of ``size``; return the rows of each kind."""
    rows = [
        {"topic": "usage", "partition": 1, "offset": number, "timestamp": NOW + number * SECOND, "value": value}
        for number, value in enumerate(values)
    ]
    batches = [pa.RecordBatch.from_pylist(rows[at : at + size], RECORDS) for at in range(0, len(rows), size)]
    return by_kind(parse_reports(batches, topic_id="id-1", cluster_id="c", **more))


def test_a_report_is_a_row_for_each_gate():
    """With the time of the record: the clock of an app may be wrong."""
    (row,) = parsed(REPORT.to_json().encode())["app"]
    assert (row["app"], row["instance"], row["gate"], row["state"], row["latched"]) == (
        "orders",
        "orders-1",
        "eos",
        "open",
        True,
    )
    assert (json.loads(row["levels"]), row["epoch"], row["last_seen"]) == ({"transaction.version": 2}, 7, NOW)


@pytest.mark.parametrize("size", [1, 10])
def test_reports_that_say_the_same_are_one_row(size: int):
    """With their number, the first and the last time, and the highest epoch; another state is another row."""
    closed = replace(REPORT, gates=(replace(REPORT.gates[0], state="closed"),))
    said = [replace(REPORT, epoch=9), REPORT, replace(REPORT, epoch=8), closed, replace(REPORT, gates=())]
    rows = parsed(*(each.to_json().encode() for each in said), size=size)["app"]
    found = {
        (row["gate"], row["state"]): (
            row["count"],
            row["epoch"],
            (row["first_seen"] - NOW) // SECOND,
            (row["last_seen"] - NOW) // SECOND,
        )
        for row in rows
    }
    assert found == {("eos", "open"): (3, 9, 0, 2), ("eos", "closed"): (1, 7, 3, 3), (None, None): (1, 7, 4, 4)}
    assert len(rows) == 3


def test_a_row_says_what_delays_the_gate():
    """Its burn-in and a hold."""
    gate = replace(REPORT.gates[0], waits="hold", open_after=60.0)
    (row,) = parsed(replace(REPORT, gates=(gate,)).to_json().encode())["app"]
    assert (row["waits"], row["open_after"]) == ("hold", 60.0)


def test_an_app_without_gates_reports_too():
    """An app that reports no gates is not a silent app."""
    (row,) = parsed(replace(REPORT, gates=(), cluster_id=None).to_json().encode())["app"]
    assert (row["app"], row["gate"]) == ("orders", None)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "malformed-report"),
        (b"", "malformed-report"),
        (b"\xff\x00", "malformed-report"),
        (b'{"schema_version": 1}', "malformed-report"),
        (b'{"schema_version": 2}', "newer-report"),
        (replace(REPORT, cluster_id="other").to_json().encode(), "other-cluster"),
    ],
)
def test_what_is_no_report_is_in_quarantine_with_its_place(value: bytes | None, reason: str):
    """The record is kept, and the records beside it count."""
    found = parsed(REPORT.to_json().encode(), value)
    (bad,) = found["quarantine"]
    assert (len(found["app"]), bad["reason"], bad["path"], bad["at"]) == (1, reason, "kafka:usage/1", 1)
    (counts,) = found["source"]
    assert (counts["read"], counts["rows"], counts["quarantined"], counts["position"]) == (2, 1, 1, 0)
    assert (counts["source"], counts["input"], counts["uri"]) == ("id-1", "reports", "kafka:usage/1")


def test_a_key_leaves_no_text_in_quarantine():
    """A record that is no report may have any name in it."""
    (bad,) = parsed(b"User:alice", names=Pseudonyms(b"k" * 16))["quarantine"]
    assert bad["raw"] == ""
