"""The documents of a report and of a summary whole, and which rows and ages a report has."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fleet_evidence import NOW, UPGRADED, WEEK, gate_use, usage, use, view
from told_rows import said, told

from featuregate.catalog import captured
from featuregate_fleet.readiness.api_ranges import DropApi
from featuregate_fleet.readiness.evidence import AppUsage, BrokerLog, Evidence, LevelAt, LogLevel, confirmed
from featuregate_fleet.readiness.hours import hours_ahead, logged_hours
from featuregate_fleet.readiness.moves import Deprecate, DowngradeTo, Finalize, Move, ToRelease
from featuregate_fleet.readiness.report import assess
from featuregate_fleet.readiness.rows import Row, Verdict, group_ids

HOUR = timedelta(hours=1)
OF_4_2, OF_3_9 = captured()["4.2"], captured()["3.9"]
LOG = BrokerLog(hours=1, requests=9, first_seen=NOW - HOUR, last_seen=NOW)
WHOLE = Evidence(
    usage=(usage(count=2, software_name="featuregate"),),
    brokers={"2": LOG, "1": replace(LOG, covered_seconds=1.5)},
    hourly={"1": {NOW: 5}},
    log_levels=(LogLevel(broker="1", level="DEBUG", taken_at=NOW - HOUR),),
    expected=frozenset({"1", "4", "3"}),
    view=UPGRADED,
    since=NOW - WEEK,
    apps=AppUsage(gates=(gate_use(),), read=4, rows=3, quarantined=1),
    read=12,
    rows=10,
    lines_quarantined=2,
    version=5,
)


def test_the_document_of_a_report_has_all_of_it() -> None:
    """Times are texts."""
    said = assess(WHOLE, ToRelease(OF_4_2), NOW, WEEK, min_hours=0.5).to_json()
    at, before = "2026-11-22T12:00:00+00:00", "2026-11-22T11:00:00+00:00"
    log = {"hours": 1, "requests": 9, "first_seen": before, "last_seen": at, "covered_seconds": None}
    rows = said.pop("rows")
    assert said == {
        "verdict": "unknown",
        "move": {"kind": "to", "target": "4.2"},
        "coverage": {
            "brokers": {"1": {**log, "covered_seconds": 1.5}, "2": log},
            "hours": {"1": [{"start": before, "hours": 2, "level": "DEBUG", "requests": 5}], "2": [], "3": [], "4": []},
            "log_levels": {"1": {"level": "DEBUG", "taken_at": before}},
            "without_evidence": ["3", "4"],
            "level": "DEBUG",
            "since": "2026-11-15T12:00:00+00:00",
            "taken_at": at,
            "min_hours": 0.5,
            "stale_after_seconds": 604800,
            "table_version": 5,
            "api_ranges": OF_4_2.captured_from,
        },
        "lines": {"read": 12, "rows": 10, "quarantined": 2},
        "reports": {"read": 4, "rows": 3, "quarantined": 1},
    }
    assert [(row["verdict"], row["check"], row["subject"]) for row in rows[:3]] == [
        ("unknown", "coverage", "broker 3"),
        ("unknown", "coverage", "broker 4"),
        ("unknown", "coverage", "hours of broker 1"),
    ]
    empty = assess(Evidence(), Finalize("group.version", 1), NOW, WEEK).to_json()
    assert (empty["coverage"]["since"], empty["coverage"]["api_ranges"]) == (None, None)
    assert empty["reports"] == {"read": 0, "rows": 0, "quarantined": 0}


MANY = replace(
    WHOLE,
    node_usage=(usage(client_id="n"),),
    cut=(usage(client_id="c", outcome="cut"),),
    usage=(usage(26, 3, software_name="librdkafka", software_version="1.5.0"), usage(outcome="refused", version=3)),
    quarantined={("1", "odd"): 1},
    levels=(LevelAt("group.version", 1, NOW - HOUR), LevelAt("group.version", 0, NOW)),
    records=(use("ConsumerGroupMemberMetadata", 5, model="v2"),),
    records_read=NOW,
    reports_expected=True,
)


@pytest.mark.parametrize(
    ("move", "missing"),
    [
        (ToRelease(OF_4_2), {"metadata-log", "models", "newer-brokers", "protocols"}),
        (ToRelease(captured()["2.4"]), {"metadata-log", "protocols", "transactions"}),
        (DowngradeTo(OF_3_9, "3.9.2"), {"models", "newer-brokers", "protocols", "transactions"}),
        (DropApi(1, 4), {"metadata-log", "coordinator-records", "feature-levels", "inter-broker", "client-software"}),
    ],
)
def test_a_move_has_its_checks(move: Move, missing: set[str]) -> None:
    """Those of levels for levels, and those of requests for releases."""
    checks = {row.check for row in assess(replace(MANY, view=view("3.9")), move, NOW, WEEK).rows}
    assert not missing & checks
    assert {"api-versions", "cut-requests", "refused-requests", "coverage", "quarantine", "app-gates"} <= checks
    assert ("inter-broker" in checks) is isinstance(move, ToRelease | DowngradeTo)


@pytest.mark.parametrize("move", [Finalize("group.version", 0), Deprecate("group.version", 0)])
def test_a_move_of_levels_needs_no_requests(move: Move) -> None:
    """Brokers serve the same versions at all levels."""
    found = {row.check for row in assess(MANY, move, NOW, WEEK).rows}
    assert found <= {"app-gates", "usage-reports", "feature-levels", "protocols", "coordinator-records", "brokers"}
    assert "feature-levels" in found
    unseen = assess(replace(MANY, view=None), move, NOW, WEEK)
    assert "The tables have no finalized levels." in [row.why for row in unseen.rows]


def test_what_was_seen_too_long_ago_is_stale() -> None:
    """A warning or a block, and no row that is ok or unknown."""
    then = NOW - 2 * WEEK
    old = usage(1, 0, first_seen=then, last_seen=then, client_id="old")
    fine = usage(client_id="fine", first_seen=then, last_seen=then)
    edge = replace(old, client_id="edge", last_seen=NOW - WEEK)
    rows = assess(replace(WHOLE, usage=(old, fine, edge)), ToRelease(OF_4_2), NOW, WEEK).rows
    found = {row.client_id: row for row in rows if row.check == "api-versions"}
    assert {name: row.verdict for name, row in found.items()} == {"old": "stale", "fine": "ok", "edge": "block"}
    assert found["old"].why.endswith(" on do not serve version 0. It was last seen too long ago to say more.")


@pytest.mark.parametrize(
    ("move", "release", "stale"),
    [
        (ToRelease(OF_4_2), "3.9", False),
        (ToRelease(OF_4_2), "4.3", True),
        (DowngradeTo(OF_3_9, "3.9"), "3.9", True),
        (Finalize("group.version", 1), "4.2", True),
        (Deprecate("group.version", 0), "4.2", True),
        (DropApi(1, 4), "4.3", False),
    ],
)
def test_levels_are_those_of_the_last_hour_where_more_of_them_would_hurt(
    move: Move, release: str, *, stale: bool
) -> None:
    """Otherwise they are as old as requests may be."""
    evidence = replace(MANY, view=view(release, seen=NOW - timedelta(hours=1, seconds=1)))
    found = [row.verdict for row in assess(evidence, move, NOW, WEEK).rows if row.check == "brokers"]
    assert found == ([Verdict.STALE] if stale else [])
    later = assess(evidence, move, NOW, WEEK, levels_stale_after=2 * HOUR)
    assert not [row for row in later.rows if row.check == "brokers"]
    short = assess(evidence, move, NOW, HOUR)
    assert [row.verdict for row in short.rows if row.check == "brokers"] == [Verdict.STALE]


def test_levels_that_brokers_have_now_are_added() -> None:
    """Those that went are at 0, and those that are not known have none."""
    seen = replace(Evidence(), levels=(LevelAt("x", 1, NOW - HOUR),), view=view())
    now = replace(view(), finalized={"y": 2})
    found = confirmed(seen, now)
    assert found.levels[1:] == (LevelAt("x", 0, NOW), LevelAt("y", 2, NOW))
    assert (found.view, found.levels_unchanged, confirmed(seen, view()).levels_unchanged) == (now, False, True)
    unknown = confirmed(seen, replace(now, epoch=-1))
    assert [each.level for each in unknown.levels[1:]] == [None, None]
    assert (unknown.levels_unchanged, confirmed(Evidence(), now).levels_unchanged) == (None, None)
    assert confirmed(replace(seen, view=replace(view(), epoch=0)), replace(view(), epoch=0)).levels_unchanged


def test_hours_are_told_by_what_says_most() -> None:
    """Lines at DEBUG before those at INFO, and these before what a broker reported."""
    ten = datetime(2026, 11, 22, 10, tzinfo=UTC)
    evidence = Evidence(
        log_levels=tuple(
            LogLevel(broker=broker, level=level, taken_at=ten + back * HOUR + timedelta(minutes=9))
            for broker, level, back in (("1", "WARN", 0), ("1", "WARN", 3), ("1", None, 4), ("2", "INFO", 5))
        ),
        deprecated={"1": {ten: 2, ten + HOUR: 3}},
        hourly={"1": {ten + HOUR: 7, ten + 2 * HOUR: 1}, "3": {NOW + 14 * HOUR: 1, NOW + 15 * HOUR: 1}},
    )
    spans = [(span.start.hour, span.hours, span.level, span.requests) for span in logged_hours(evidence, "1")]
    assert spans == [(10, 1, "INFO", 2), (11, 2, "DEBUG", 8), (13, 1, "WARN", 0)]
    assert [(span.start.hour, span.level) for span in logged_hours(evidence, "2")] == [(15, "INFO")]
    assert hours_ahead(evidence, "3", NOW) == [NOW + 15 * HOUR]
    assert hours_ahead(evidence, "4", NOW) == []


def made(client: str, **changed: Any) -> Row:
    row = Row(check="k", verdict=Verdict.WARN, subject=f"client {client!r}", why="Why.", do=f"Stop client {client!r}.")
    return replace(row, client_id=client, count=2, first_seen=NOW - HOUR, last_seen=NOW, **changed)


def test_a_group_of_clients_adds_up_what_they_did() -> None:
    """Its hosts, its times and its versions; what differs is not told of all."""
    rows = [
        made(f"a-{at}", hosts=(f"h{at % 7}",), host_count=1 + at % 2, versions=(3, 1), principal="User:p")
        for at in range(21)
    ]
    rows[3] = replace(rows[3], first_seen=NOW - WEEK, last_seen=NOW + HOUR)
    rows[4] = replace(rows[4], first_seen=None, last_seen=None)
    assert told(group_ids([*rows, made("b"), replace(made("c"), client_id=None)])) == said("report 1")
    mixed = [made(name, principal=f"User:{name}", software=name, why=name) for name in "ab"]
    assert told(group_ids(mixed, most_characters=10)) == said("report 2")
