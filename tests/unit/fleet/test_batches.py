"""From batches of lines to rows of tables: every line is counted once."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_lines import document, line_of  # noqa: E402 - after the check for the extra

from featuregate_fleet.evidence.batches import parse_file, parse_quarantined  # noqa: E402 - likewise
from featuregate_fleet.evidence.paths import IN_UTC, LogTimes, broker_of, log_file  # noqa: E402 - likewise
from featuregate_fleet.evidence.reasons import PARSER, RAW_LENGTH, UNREADABLE  # noqa: E402 - likewise
from featuregate_fleet.evidence.text import LINES, LONGEST, Unreadable  # noqa: E402 - likewise

EXCEPTIONS = "org.apache.kafka.common.errors"
GARBAGE = ["", "garbage", line_of(document())[:99], "Completed request:{}"]


def batches(lines: Iterable[str], size: int = 10) -> list[Any]:
    """Make batches of ``size`` lines of one file."""
    rows, at = [], 0
    for line in lines:
        length = len(line.encode())
        rows.append({"value": line, "at": at, "length": length})
        at += length + 1
    return [pa.RecordBatch.from_pylist(rows[first : first + size], LINES) for first in range(0, len(rows), size)]


def tables_of(parsed: Iterable[Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table."""
    tables: dict[str, list[dict[str, Any]]] = {"api_usage": [], "quarantine": [], "evidence_files": []}
    for batch in parsed:
        for row in batch.to_pylist():
            (found,) = [(name, value) for name, value in row.items() if value is not None]
            tables[found[0]].append(found[1])
    return tables


def parse(parts: Iterable[Any], uri: str = "file:///logs/1/request.log") -> dict[str, list[dict[str, Any]]]:
    """Parse one file."""
    return tables_of(parse_file(log_file("/logs", uri, 5), parts))


def counted(tables: dict[str, list[dict[str, Any]]], *names: str) -> Counter[tuple[Any, ...]]:
    """Add up the usage by these columns."""
    total: Counter[tuple[Any, ...]] = Counter()
    for row in tables["api_usage"]:
        total[tuple(row[name] for name in names)] += row["count"]
    return total


def test_requests_are_counted_by_who_sent_them():
    """Two requests of one client and version are one row, with the first and the last time."""
    early, late = (line_of(document(), head=f"[2026-11-22 21:0{minute}:00,000] DEBUG") for minute in (1, 2))
    (row,) = parse(batches([late, early]))["api_usage"]
    assert (row["broker"], row["client_id"], row["api_key"], row["version"], row["count"]) == ("1", "audit", 1, 16, 2)
    assert (row["hour"].hour, row["first_seen"].minute, row["last_seen"].minute) == (21, 1, 2)


def test_times_are_in_utc_whatever_zone_a_broker_logs_in():
    """An hour that the zone has twice is the first one; a time that it skips is the last one before."""
    zones = {**IN_UTC, "1": LogTimes("Europe/Berlin")}
    days = ["2026-11-22 21:59", "2026-10-25 02:30", "2026-03-29 02:30"]
    lines = [line_of(document(), head=f"[{day}:00,000] DEBUG") for day in days]
    for broker, expected in {"1": ["20:59", "00:30", "00:59"], "2": ["21:59", "02:30", "02:30"]}.items():
        file = log_file("/logs", f"file:/logs/{broker}/a", 5, zones)
        rows = tables_of(parse_file(file, batches(lines)))["api_usage"]
        assert sorted(row["last_seen"].strftime("%H:%M") for row in rows) == sorted(expected)
        assert all(row["hour"].hour == row["last_seen"].hour for row in rows)


@given(st.lists(st.sampled_from([line_of(document()), line_of(document(clientId='a"b')), *GARBAGE])), st.integers(1, 9))
def test_each_line_is_a_row_or_in_quarantine(lines: list[str], size: int):
    """However much of it is garbage, and however it is cut into batches."""
    tables = parse(batches(lines, size=size))
    read, rows, quarantined = (
        sum(row[name] for row in tables["evidence_files"]) for name in ("read", "rows", "quarantined")
    )
    counted = [line for before, line in pairwise(["first", *lines]) if line.strip() or before.strip()]
    garbage = [line for line in counted if line in GARBAGE]  # of a run of empty lines the first one
    assert (read, rows, quarantined) == (len(counted), len(counted) - len(garbage), len(garbage))
    assert sum(row["count"] for row in tables["api_usage"]) == rows
    assert sorted(row["raw"] for row in tables["quarantine"]) == sorted(garbage)
    text = "\n".join(lines)
    assert all(text.startswith(row["raw"], row["at"]) for row in tables["quarantine"])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_refused_request_counts_once(real_lines: Sequence[str], size: int):
    """The broker logs it twice, over four lines, which batches may separate."""
    tables = parse(batches(real_lines, size=size))
    refused = counted(tables, "outcome", "api_key", "version", "client_host")
    host = "127.0.0.1"
    by_release: dict[int, dict[tuple[object, ...], int]] = {
        0: {("refused", 3, 99, host): 1, ("refused", 99, 0, host): 1},
        3: {("refused", 3, 99, host): 1},
        4: {("refused", 2, 0, host): 1, ("refused", 3, 99, host): 1, ("refused", 0, 2, host): 1},
    }
    release = 4 if any("(ListOffsets)" in line for line in real_lines) else 3
    release = 0 if any("request:{api_key=" in line for line in real_lines) else release
    assert {key: count for key, count in refused.items() if key[0] == "refused"} == by_release[release]


@pytest.mark.parametrize("principal", ["User:billing", "User:CN=billing,OU=Data Platform,O=Acme,C=DE"])
def test_a_refusal_of_an_older_broker_names_the_principal(principal: str):
    """Releases up to 2.8 logged the principal, which may be the subject of a certificate."""
    header = "Closing socket for 127.0.0.1:44815-10.0.0.7:48912-8 because of error (kafka.network.Processor)"
    reason = (
        "Error getting request for apiKey: METADATA, apiVersion: 99, connectionId: 127.0.0.1:44815-10.0.0.7:48912-8, "
        f"listenerName: ListenerName(CLIENT), principal: {principal}"
    )
    lines = [f"[2026-11-22 21:08:17,583] ERROR {header}", f"{EXCEPTIONS}.InvalidRequestException: {reason}"]
    (row,) = parse(batches(lines))["api_usage"]
    assert (row["principal"], row["client_host"], row["api_key"], row["version"]) == (principal, "10.0.0.7", 3, 99)


def test_a_reason_without_its_refusal_is_in_quarantine():
    """A file or a micro-batch may begin in between. Half a refusal has no time, and is evidence that is missing."""
    reason = "Received request for api with key 3 (Metadata) and unsupported version 99"
    tables = parse(batches([f"{EXCEPTIONS}.UnsupportedVersionException: {reason}"]))
    assert [row["reason"] for row in tables["quarantine"]] == ["cut"]
    assert tables["api_usage"] == []


def test_a_line_of_an_unknown_broker_is_in_quarantine():
    """A request counts for a broker, so that coverage can say which brokers are missing."""
    tables = parse(batches([line_of(document()), "garbage"]), uri="file:///logs/old/request.log")
    assert [row["reason"] for row in tables["quarantine"]] == ["unknown-broker", "no-request"]
    assert [row["broker"] for row in tables["evidence_files"]] == [None]


def test_a_long_line_is_kept_in_part():
    """The quarantine is for looking at, and a line that is kept whole can be parsed again."""
    short, long = parse(batches(["x", "x" * 100_000]))["quarantine"]
    assert (short["raw"], short["whole"]) == ("x", True)
    assert (len(long["raw"]), long["whole"]) == (RAW_LENGTH, False)


def test_a_line_of_more_bytes_than_are_read_is_too_long():
    """Its reader has dropped the rest, so that the line must not pass for one that the broker has cut."""
    (batch,) = batches([line_of(document())[:300]])
    longer = batch.set_column(2, LINES.field("length"), pa.array([LONGEST + 1]))
    (row,) = parse([longer])["quarantine"]
    assert (row["reason"], row["whole"]) == ("too-long", False)


def test_the_rest_of_a_file_that_cannot_be_read_counts_as_one_line():
    """So that lines = rows + quarantined holds, and the report can say that something is missing."""
    tables = parse([*batches([line_of(document())]), Unreadable(500, UNREADABLE, "disk error")])
    (row,), (file,) = tables["quarantine"], tables["evidence_files"]
    assert (row["at"], row["reason"], row["raw"], row["whole"]) == (500, "unreadable", "disk error", False)
    assert (file["read"], file["rows"], file["quarantined"]) == (2, 1, 1)


def test_a_replay_counts_what_leaves_the_quarantine():
    """The lines were counted when they were read; what a newer parser understands becomes rows."""
    old = {
        "uri": "file:///logs/1/a",
        "path": "1/a",
        "broker": "1",
        "time_zone": "UTC",
        "layout": "",
        "not_after": None,
        "reason": "cut",
        "whole": True,
        "parser": PARSER - 1,
        "lines": 1,
        "text_log": False,
    }
    lines = [line_of(document()), "garbage", line_of(document())]
    other = old | {"uri": "file:///logs/2/a", "path": "2/a", "broker": "2", "at": 0, "raw": line_of(document())}
    tables = tables_of(parse_quarantined([*(old | {"at": at, "raw": raw} for at, raw in enumerate(lines)), other]))
    assert counted(tables, "broker") == {("1",): 2, ("2",): 1}
    assert [(row["at"], row["reason"], row["parser"]) for row in tables["quarantine"]] == [(1, "no-request", PARSER)]
    counts = [(file["read"], file["rows"], file["quarantined"]) for file in tables["evidence_files"]]
    assert counts == [(0, 2, -2), (0, 1, -1)]


@pytest.mark.parametrize(
    ("path", "broker"),
    [("1/a.log", "1"), ("10/sub/a.log", "10"), ("a.log", None), ("01/a.log", None), ("x/1/a.log", None), ("1", None)],
)
def test_the_folder_names_the_broker(path: str, broker: str | None):
    """The first folder below the root, if it is a node id."""
    assert broker_of(path) == broker


def test_a_file_elsewhere_has_no_broker():
    """Its whole path begins with no node id."""
    file = log_file("/logs", "file:///other/1/a.log", 0)
    assert (file.path, file.broker) == ("/other/1/a.log", None)
    assert log_file("/logs", "file:/logs/20/b%20c.log", 0)[1:3] == ("20/b c.log", "20")
