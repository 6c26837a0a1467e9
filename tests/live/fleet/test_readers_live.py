"""What verdicts take from the table of a cluster, read by Spark from rows that are made up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from fleet_evidence import view
from fleet_rows import commit

from featuregate_fleet.evidence.paths import LINKED, UnreadFile
from featuregate_fleet.readiness.evidence import Evidence, LevelAt, RefusedClient, RefusedVersion
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.reader import read_evidence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(600), pytest.mark.usefixtures("jvm")]

TEN = datetime(2026, 11, 22, 10, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TODAY = TEN.replace(hour=0)
FETCH, API_VERSIONS = 1, 18

Batch = dict[str, list[dict[str, Any]]]


def evidence_of(folder: Path, *batches: Batch) -> Evidence:
    with local_session() as spark:
        table = EvidenceTable(spark, folder, "orders")
        assert read_evidence(table) == Evidence(reports_expected=True), "there is no table yet"
        for batch in batches:
            commit(spark, table, **batch)
        return read_evidence(table)


def used(
    at: datetime, version: int, software: str | None = None, client: str = "app", **changed: Any
) -> dict[str, Any]:
    made = {"broker": "1", "day": at.date(), "outcome": "completed", "forwarded": False}
    who = {"principal": "User:a", "client_id": client, "software_name": software, "api_key": FETCH, "version": version}
    return made | who | {"count": 5, "first_seen": at, "last_seen": at} | changed


def logged(at: datetime, count: int = 5, **changed: Any) -> dict[str, Any]:
    made = {"broker": "1", "hour": at, "level": "DEBUG", "asked": False, "count": count}
    return made | {"first_seen": at, "last_seen": at + HOUR / 2} | changed


def told(at: datetime, level: str | None, broker: str = "1") -> dict[str, Any]:
    hour = at.replace(minute=0)
    return logged(at, 0, hour=hour, level=level, asked=True, broker=broker, first_seen=at, last_seen=at)


def test_requests_are_added_up_and_drawn_by_the_day(tmp_path: Path) -> None:
    """Whatever batch, broker and connection they are of. A client has one software where it says just one."""
    day = TODAY - 9 * DAY
    usage = [
        used(TEN, 0, "sarama", "old"),
        used(TEN, 0, None, "old", broker="2"),  # the same client, on another connection
        used(TEN, 16, None, "silent", connection="c", api_key=API_VERSIONS),
        used(TEN, 16, "a", "two"),
        used(TEN, 16, "b", "two"),
        used(TEN, 16, None, "two"),
        used(TEN, 99, "sarama", "old", outcome="refused"),
        used(TEN, 0, "sarama", "old", forwarded=True),
        used(day + 3 * HOUR, 0, "sarama", "old"),
        used(day - 40 * DAY, 0, "sarama", "old"),
    ]
    found = evidence_of(tmp_path, {"usage": usage, "hour": [logged(TEN)]}, {"usage": usage[:1], "hour": [logged(TEN)]})
    assert {(one.software, one.api_key, one.version, one.at): one.requests for one in found.over_time} == {
        ("sarama", FETCH, 0, TODAY): 15,
        ("sarama", FETCH, 0, day): 5,
        ("", API_VERSIONS, 16, TODAY): 5,
        ("", FETCH, 16, TODAY): 5,
        ("a", FETCH, 16, TODAY): 5,
        ("b", FETCH, 16, TODAY): 5,
    }
    (old,) = [
        one for one in found.usage if one.software == "sarama" and one.outcome == "completed" and not one.forwarded
    ]
    assert (old.count, old.first_seen, old.last_seen) == (20, day - 40 * DAY, TEN)
    assert sum(one.count for one in found.usage) == 5 * 11
    assert {(one.outcome, one.forwarded) for one in found.usage} == {
        ("completed", False), ("completed", True), ("refused", False),
    }  # fmt: skip


def test_requests_that_ended_before_an_hour_do_not_count(tmp_path: Path) -> None:
    """A client that was seen later must not be missed: its whole day counts."""
    rows = [used(TEN, 1), used(TEN, 2, last_seen=TEN + 3 * HOUR)]
    with local_session() as spark:
        table = EvidenceTable(spark, tmp_path, "orders")
        commit(spark, table, usage=rows, hour=[logged(TEN), logged(TEN + 2 * HOUR)])
        found = read_evidence(table.since(TEN + HOUR))
    assert [one.version for one in found.usage] == [2]
    assert list(found.hourly["1"]) == [TEN + 2 * HOUR]


def test_hours_are_added_up_by_level(tmp_path: Path) -> None:
    """Requests at INFO are deprecated ones alone. Of what a broker tells each minute, two answers an hour stay."""
    answers = [told(TEN + number * MINUTE, "DEBUG" if number < 50 else "WARN") for number in range(60)]
    others = [logged(TEN, 7, level="INFO"), logged(TEN, 9, level="ERROR"), told(TEN, None, "2")]
    hours = [logged(TEN, level="TRACE"), logged(TEN + HOUR), logged(TEN, broker="2", first_seen=TEN - MINUTE)]
    found = evidence_of(tmp_path, {"hour": [*answers, *others]}, {"hour": hours}, {"hour": hours[:1]})
    assert [(one.broker, one.level, one.taken_at.minute) for one in found.log_levels] == [
        ("2", None, 0), ("1", "DEBUG", 30), ("1", "DEBUG", 49), ("1", "WARN", 50), ("1", "WARN", 59),
    ]  # fmt: skip
    assert found.hourly == {"1": {TEN: 10, TEN + HOUR: 5}, "2": {TEN: 5}}
    assert found.deprecated == {"1": {TEN: 7}}
    assert (found.brokers["1"].requests, found.brokers["1"].hours) == (15, 2)
    assert (found.brokers["1"].covered_seconds, found.brokers["2"].covered_seconds) == (5400, 1860)


def source(name: str, *, batch_of: str = "logs", **changed: Any) -> dict[str, Any]:
    made = {"source": name, "input": batch_of, "path": f"1/{name}", "broker": "1", "position": 100, "uri": name}
    return made | {"read": 10, "rows": 8, "quarantined": 2} | changed


def lost(name: str, reason: str, **changed: Any) -> dict[str, Any]:
    return {"source": name, "path": f"1/{name}", "broker": "1", "reason": reason, "lines": 2} | changed


def test_a_file_that_fails_counts_until_it_is_read(tmp_path: Path) -> None:
    """It is one line of its reason. Others that were read before and after it are none."""
    first = [
        source("mended", reason="unreadable"),
        source("damaged", reason="unreadable", position=50),
        source("gone", reason="vanished", broker=None),
        source("7 1/restored", reason="unreadable", uri="restored", stamp="1 1 7"),
        source("9 1/replaced", reason="unreadable", uri="replaced", stamp="1 1 9", tail="opened"),
        source("8 1/empty", reason="vanished", uri="empty", stamp="2 2 8"),
        source("renamed", reason="vanished", uri="log"),
    ]
    second = [
        source("mended"),
        source("restored", stamp="1 2 7"),
        source("replaced", stamp="5 5 9"),
        source("8 1/empty.1", uri="empty.1", stamp="2 3 8 whole"),
        source("renamed", uri="log.1"),
        source("other", uri="gone"),
    ]
    found = evidence_of(tmp_path, {"source": first}, {"source": second})
    assert found.quarantined == {("1", "unreadable"): 2, (None, "vanished"): 1}
    assert (found.read, found.rows, found.lines_quarantined) == (130, 104, 26)


def test_lines_in_quarantine_are_counted_by_reason_and_their_heads_by_client(tmp_path: Path) -> None:
    """A head is evidence of a client, whatever broker has its line. Usage reports are no lines."""
    head = {"forwarded": False, "client_id": "cut", "api_key": FETCH, "version": 3}
    rows = [
        lost("a", "cut", seen_at=TEN, **head),
        lost("b", "cut", seen_at=TEN + HOUR, broker="2", **head),
        lost("a", "no-request"),
        lost("t", "malformed-report", broker=None),
        lost("t", "other-cluster", broker=None),
    ]
    read = [source("t", batch_of="reports", broker=None, read=9, rows=5, quarantined=4), source("a")]
    found = evidence_of(tmp_path, {"quarantine": rows, "source": read})
    assert found.quarantined == {("1", "cut"): 2, ("2", "cut"): 2, ("1", "no-request"): 2}
    (cut,) = found.cut
    assert (cut.client_id, cut.version, cut.count, cut.first_seen, cut.last_seen) == ("cut", 3, 4, TEN, TEN + HOUR)
    assert found.apps is not None
    assert (found.apps.read, found.apps.rows, found.apps.quarantined, found.apps.unread) == (9, 5, 4, 2)
    assert (found.read, found.rows, found.lines_quarantined) == (10, 8, 2)


def test_what_a_source_said_before_it_was_read_again_does_not_count(tmp_path: Path) -> None:
    """Its lines are in quarantine once; those of other sources, and of the same text of another broker, stay."""
    first = {
        "source": [source("a", reason="unreadable"), source("b"), source("a", broker="2")],
        "quarantine": [
            lost("a", "cut"),
            lost("a", "no-request", lines=9),
            lost("b", "cut"),
            lost("a", "cut", broker="2"),
            lost(None, "cut", broker="3"),
        ],
    }
    again = {"source": [source("a", again=2, read=2, quarantined=1, rows=1)], "quarantine": [lost("a", "cut", lines=1)]}
    found = evidence_of(tmp_path, first, again)
    assert found.quarantined == {("1", "cut"): 3, ("1", "no-request"): 9, ("2", "cut"): 2, ("3", "cut"): 2}
    assert (found.read, found.rows, found.lines_quarantined) == (30, 25, 5)


def run(**columns: Any) -> Batch:
    return {"run": [columns]}


def levels(number: int | None) -> list[dict[str, Any]]:
    return [{"feature": "group.version", "level": number}]


def test_the_newest_run_says_what_there_is(tmp_path: Path) -> None:
    """A run without logs, or without the cluster, says nothing of them, and one over a folder nothing of others.

    The newest batch counts, also where the clock of its machine was set back.
    """
    link = {"path": "1/link", "broker": "1", "reason": LINKED}
    answers = {"listed": ["1", "2"], "view": view("3.9").to_json(), "asked_at": TEN - HOUR}
    batches: Sequence[Batch] = [
        run(logs="a", folders=["1", "9"], unread=[link, link], **answers, records_read=TEN),
        run(logs="a", folders=["1", "3"], unread=[link]),
        run(logs="b", folders=["4"], unread=[{**link, "path": "4/link", "broker": "4"}]),
        run(logs="b", folders=["5"], unread=[{**link, "path": "5/link", "broker": "5"}]),
        run(listed=["2"], view=view("4.2").to_json(), asked_at=TEN, levels=levels(0)),
        *[
            run(asked_at=TEN + n * MINUTE, levels=levels(n // 3), listed=["2"], view=view("4.2").to_json())
            for n in range(1, 5)
        ],
        run(asked_at=TEN + HOUR, levels=levels(None), listed=["2"], view=view("4.2").to_json()),
        run(records_read=TEN - HOUR),
    ]
    found = evidence_of(tmp_path, *batches)
    assert found.expected == frozenset({"1", "2", "3", "5"})
    assert set(found.unread_files) == {UnreadFile("1/link", "1", LINKED), UnreadFile("5/link", "5", LINKED)}
    assert found.view == view("4.2")
    assert found.records_read == TEN - HOUR
    seen = ((0, TEN), (1, TEN + 3 * MINUTE), (None, TEN + HOUR))
    assert found.levels == tuple(LevelAt("group.version", level, at) for level, at in seen)
    assert found.version == len(batches) - 1


def test_a_connection_says_who_was_refused(tmp_path: Path) -> None:
    """By what asked for API versions on it before, on the same broker; a port has another client some day."""
    begins = {"api_key": API_VERSIONS, "connection": "c", "client_host": "h"}
    refused = used(TEN, 0, None, "", outcome="refused", client_id=None, principal=None, connection="c", client_host="h")
    usage = [
        refused,
        refused | {"connection": "d", "version": 1},
        used(TEN - HOUR, 4, "kgo", "app", software_version="1", **begins),
        used(TEN + MINUTE / 2, 3, None, "soon", **begins),
        used(TEN - 25 * HOUR, 3, None, "long ago", **begins),
        used(TEN + HOUR, 3, None, "later", **begins),
        used(TEN, 3, None, "elsewhere", broker="2", **begins),
    ]
    found = evidence_of(tmp_path, {"usage": usage})
    assert found.refused_clients == {
        RefusedVersion("h", FETCH, 0): frozenset(
            {RefusedClient("app", "User:a", "kgo 1"), RefusedClient("soon", "User:a", None)}
        )
    }
    assert sum(one.count for one in found.usage if one.outcome == "refused") == 10
