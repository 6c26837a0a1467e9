"""Usage reports of apps: from records of a topic to rows, and from rows to verdicts that name apps."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from fleet_evidence import NOW, WEEK, gate_use

from featuregate.catalog import captured
from featuregate.usage.report import ReportedGate, Reporter, UsageReport
from featuregate.view.answers import ApiRange, BrokerAnswer
from featuregate.view.merging import merge
from featuregate_fleet.evidence import usage_reports
from featuregate_fleet.evidence.columns import ROWS
from featuregate_fleet.evidence.pseudonyms import Pseudonyms
from featuregate_fleet.evidence.usage_reports import RECORDS, parse_reports
from featuregate_fleet.readiness.evidence import AppUsage, Evidence, GateUse
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, DropApi, Finalize, Move, ToRelease
from featuregate_fleet.readiness.report import assess
from featuregate_fleet.readiness.rows import Row, Verdict

FETCH = 1
SECOND = timedelta(seconds=1)
TV2 = "transaction.version>=2"
LOWER = Finalize("transaction.version", 1)
HIGHER = Finalize("transaction.version", 3)
REPORT = UsageReport(
    reporter=Reporter("orders", "orders-1", "featuregate", "0.1.0"),
    reported_at=1700000000.0,
    cluster_id="c",
    epoch=7,
    age_seconds=1.0,
    gates=(
        ReportedGate(
            name="eos",
            requirement=TV2,
            policy="sticky",
            state="open",
            latched=True,
            levels={"transaction.version": 2},
        ),
    ),
)


# ---------------------------------------------------------------- records


def parsed(*values: bytes | None, size: int = 10, **more: Any) -> dict[str, list[dict[str, Any]]]:
    """Parse records with these values in batches of ``size``; return the rows of each kind."""
    rows = [
        {"topic": "usage", "partition": 1, "offset": number, "timestamp": NOW + number * SECOND, "value": value}
        for number, value in enumerate(values)
    ]
    batches = [pa.RecordBatch.from_pylist(rows[at : at + size], RECORDS) for at in range(0, len(rows), size)]
    found: dict[str, list[dict[str, Any]]] = {"app": [], "quarantine": [], "source": []}
    for batch in parse_reports(batches, topic_id="id-1", cluster_id="c", **more):
        assert batch.schema == ROWS
        for row in batch.to_pylist():
            found[row["kind"]].append(row[row["kind"]])
    return found


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


def test_a_task_holds_few_rows_back(monkeypatch: pytest.MonkeyPatch):
    """Sums go on before the end, and none is lost."""
    monkeypatch.setattr(usage_reports, "_MOST", 1)
    rows = parsed(*[REPORT.to_json().encode()] * 7, size=2)["app"]
    assert [row["count"] for row in rows] == [2, 2, 2, 1]


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


# ---------------------------------------------------------------- verdicts


def rows_of(move: Move, *gates: GateUse, check: str = "app-gates", **evidence: Any) -> list[Row]:
    """Return the rows of one check, for a cluster that has transaction.version 2 and serves Fetch 4 to 18."""
    broker = BrokerAnswer(
        node_id=1,
        host="b",
        port=1,
        api_ranges={FETCH: ApiRange(4, 18)},
        finalized={"transaction.version": 2},
        epoch=5,
        answered_at=NOW.timestamp(),
    )
    view = merge([broker], cluster_id="c", seen_at=NOW.timestamp())
    apps = AppUsage(gates=gates, read=100, rows=100)
    whole = Evidence(**{"apps": apps, "view": view, "reports_expected": True} | evidence)
    return [row for row in assess(whole, move, NOW, WEEK).rows if row.check == check]


def only(*arguments: Any, **more: Any) -> Row:
    """Return the single row of a check."""
    (row,) = rows_of(*arguments, **more)
    return row


@pytest.mark.parametrize(
    ("move", "use"),
    [
        (LOWER, gate_use()),
        (DowngradeTo(captured()["3.9"], "3.9"), gate_use()),
        (Deprecate("transaction.version", 2), gate_use()),
        (DropApi(FETCH, 19), gate_use("Fetch>=4", levels={})),
        (DropApi(FETCH, 12), gate_use("Fetch in 4..11", levels={})),
        (ToRelease(captured()["3.9"]), gate_use("Fetch>=18", levels={})),
    ],
)
def test_a_move_that_takes_what_an_app_is_latched_on_blocks_and_names_the_app(move: Move, use: GateUse):
    """KIP-584's danger: the app would go on as if the level were there. Without the gate the move takes nothing."""
    row = only(move, use)
    assert (row.verdict, row.app, row.subject) == (Verdict.BLOCK, "orders", "gate 'eos' of app 'orders'")
    assert "2 instances are latched on" in row.why
    assert (
        only(move, gate_use("Produce>=0 | metadata.version>=1", levels={"metadata.version": 9})).verdict
        is not Verdict.BLOCK
    )


@pytest.mark.parametrize(
    "move", [HIGHER, Finalize("group.version", 0), Deprecate("transaction.version", 1), DropApi(FETCH, 12)]
)
def test_a_move_that_takes_nothing_from_a_gate_is_ok(move: Move):
    """The report has a row for each app."""
    assert only(move, gate_use()).verdict is Verdict.OK


def test_a_gate_that_is_not_latched_closes_with_the_move():
    """A live gate follows the cluster, and the app has to work without it."""
    row = only(LOWER, gate_use(policy="live", latched=False))
    assert (row.verdict, "closes with the move" in row.why) == (Verdict.WARN, True)


def test_a_gate_that_only_its_latch_holds_is_no_reason_against_the_move():
    """The level is gone already. The app should be looked at all the same."""
    row = only(LOWER, gate_use(states=("held",), levels={"transaction.version": 1}))
    assert (row.verdict, "does not hold already" in row.why) == (Verdict.WARN, True)


def test_gates_that_open_or_wait_are_told():
    """Such a row is ok: the move breaks nothing."""
    waiting = gate_use("transaction.version>=3", states=("closed",), latched=False)
    assert "opens with the move" in only(HIGHER, waiting).why
    assert "is closed, and waits" in only(LOWER, waiting).why
    assert only(HIGHER, waiting).verdict is Verdict.OK


def test_a_gate_that_was_closed_may_have_latched_since_its_last_report():
    """The cluster has the level now. A live gate closes again, and a move that leaves the level does no harm."""
    closed = gate_use(states=("closed",), latched=False, levels={"transaction.version": 1})
    row = only(LOWER, closed)
    assert (row.verdict, "was closed when the app reported last" in row.why) == (Verdict.UNKNOWN, True)
    assert only(LOWER, replace(closed, policy="live")).verdict is Verdict.OK
    assert only(DropApi(FETCH, 12), closed).verdict is Verdict.OK


def test_what_a_newer_app_requires_is_unknown():
    """A requirement that does not parse here may be one that the move takes away."""
    row = only(LOWER, gate_use("group.version>=1 ^ tomorrow"))
    assert row.verdict is Verdict.UNKNOWN
    assert "Upgrade featuregate" in row.do


def test_without_the_brokers_answers_a_latch_on_an_api_is_unknown():
    """The evidence does not say what else the brokers serve."""
    assert only(DropApi(FETCH, 12), gate_use("Fetch in 4..11", levels={}), view=None).verdict is Verdict.UNKNOWN
    assert only(LOWER, gate_use("Fetch in 4..11", levels={}), view=None).verdict is Verdict.OK


def test_an_app_that_was_seen_long_ago_is_stale():
    """The app may have been replaced meanwhile."""
    old = gate_use(first_seen=NOW - 2 * WEEK, last_seen=NOW - 2 * WEEK)
    assert only(LOWER, old).verdict is Verdict.STALE
    assert only(LOWER, old, check="usage-reports").verdict is Verdict.STALE


def test_an_app_alone_that_stops_reporting_is_told():
    """The brokers were asked after its last report, and reports are read then, too."""
    assert only(LOWER, gate_use(last_seen=NOW - timedelta(hours=2)), check="usage-reports").verdict is Verdict.WARN
    assert only(LOWER, gate_use(), check="usage-reports").verdict is Verdict.OK


def test_an_app_that_stops_reporting_while_others_go_on_is_told():
    """One that said that it ends is not. A record from the future, by the clock of an app, changes nothing."""
    silent = gate_use(app="silent", last_seen=NOW - timedelta(hours=2))
    ended = replace(silent, app="ended", closed=True)
    ahead = replace(silent, app="ahead", last_seen=NOW + WEEK)
    found = {row.app: row.verdict for row in rows_of(LOWER, gate_use(), silent, ended, ahead, check="usage-reports")}
    assert found == {"orders": Verdict.OK, "silent": Verdict.WARN, "ended": Verdict.OK, "ahead": Verdict.OK}


@pytest.mark.parametrize("apps", [None, AppUsage()])
def test_invariant_11_without_reports_a_move_that_takes_levels_is_unknown(apps: AppUsage | None):
    """Unless the operator says that no app has gates. What a move takes of APIs is in the request logs, too."""
    for move in (LOWER, DowngradeTo(captured()["3.9"], "3.9"), Deprecate("transaction.version", 1)):
        assert only(move, check="usage-reports", apps=apps).verdict is Verdict.UNKNOWN
        assert rows_of(move, check="usage-reports", apps=apps, reports_expected=False) == []
    for move in (HIGHER, ToRelease(captured()["4.2"]), DropApi(FETCH, 12)):
        assert rows_of(move, check="usage-reports", apps=apps) == []


def test_reports_that_cannot_be_read_are_counted():
    """More than one in a hundred say too little of the others. Others in quarantine, as of other clusters, do not."""
    apps = AppUsage(gates=(gate_use(),), read=1000, rows=980, quarantined=20, unread=20)

    def verdict(move: Move, **changed: Any) -> list[Verdict]:
        found = rows_of(move, check="usage-reports", apps=replace(apps, **changed))
        return [row.verdict for row in found if row.subject == "usage reports"]

    assert verdict(LOWER) == [Verdict.UNKNOWN]
    assert verdict(HIGHER) == [Verdict.WARN]
    assert verdict(LOWER, unread=5) == [Verdict.WARN]
    assert verdict(LOWER, unread=0) == []
