"""From batches of lines to rows of tables: every line is counted once."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_lines import INVALID, REFUSED, document, line_of  # noqa: E402 - after the check for the extra
from fleet_rows import by_kind, parsed  # noqa: E402 - likewise

from featuregate_fleet.evidence.batches import parse_files  # noqa: E402 - likewise
from featuregate_fleet.evidence.file_parser import FileText  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.fast_path import LINES  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.request import LONGEST  # noqa: E402 - likewise
from featuregate_fleet.evidence.paths import IN_UTC, LogTimes, broker_of, log_file  # noqa: E402 - likewise
from featuregate_fleet.evidence.reasons import RAW_LENGTH  # noqa: E402 - likewise

GARBAGE = ["", "garbage", line_of(document())[:99], "Completed request:{}"]


def batches(lines: Iterable[str], size: int = 10) -> list[Any]:
    rows, at = [], 0
    for line in lines:
        length = len(line.encode())
        rows.append({"value": line, "at": at, "length": length})
        at += length + 1
    return [pa.RecordBatch.from_pylist(rows[first : first + size], LINES) for first in range(0, len(rows), size)]


def parse(parts: Iterable[Any], uri: str = "file:///logs/1/request.log") -> dict[str, list[dict[str, Any]]]:
    return parsed(parts, log_file("file:///logs", uri, 5))


def counted(tables: dict[str, list[dict[str, Any]]], *names: str) -> Counter[tuple[Any, ...]]:
    total: Counter[tuple[Any, ...]] = Counter()
    for row in tables["usage"]:
        total[tuple(row[name] for name in names)] += row["count"]
    return total


def test_requests_are_counted_by_who_sent_them():
    """Two requests of one client and version are one row, with the first and the last time."""
    early, late = (line_of(document(), head=f"[2026-11-22 21:0{minute}:00,000] DEBUG") for minute in (1, 2))
    (row,) = parse(batches([late, early]))["usage"]
    assert (row["broker"], row["client_id"], row["api_key"], row["version"], row["count"]) == ("1", "audit", 1, 16, 2)
    assert (str(row["day"]), row["first_seen"].minute, row["last_seen"].minute) == ("2026-11-22", 1, 2)


def test_hours_are_counted_by_the_level_of_the_log():
    """All requests of an hour and a level are one row, whoever sent them; refused requests are none of these."""
    times = [("21:08", "DEBUG"), ("21:59", "DEBUG"), ("22:00", "DEBUG"), ("21:30", "INFO"), ("21:40", "TRACE")]
    lines = [
        line_of(document(clientId=client), head=f"[2026-11-22 {time}:00,000] {level}")
        for client in ("a", 'a"b')  # read by the fast path, and by the full parser
        for time, level in times
    ]
    tables = parse(batches([*lines, *REFUSED]))
    found = {(row["hour"].hour, row["level"]): (row["count"], str(row["last_seen"])[11:16]) for row in tables["hour"]}
    assert found == {
        (21, "DEBUG"): (4, "21:59"),
        (22, "DEBUG"): (2, "22:00"),
        (21, "INFO"): (2, "21:30"),
        (21, "TRACE"): (2, "21:40"),
    }
    assert {(row["asked"], row["failure"]) for row in tables["hour"]} == {(False, None)}
    assert sum(row["count"] for row in tables["usage"]) == len(lines) + 1


def test_a_day_is_that_of_utc():
    """An hour before midnight in one zone is of the next day in another."""
    line = line_of(document(), head="[2026-11-22 23:30:00,000] DEBUG")
    file = log_file("file:/logs", "file:/logs/1/a", 5, LogTimes("America/New_York"))
    tables = parsed(batches([line]), file)
    assert [str(row["day"]) for row in tables["usage"]] == ["2026-11-23"]
    assert [row["hour"].hour for row in tables["hour"]] == [4]


def test_times_are_in_utc_whatever_zone_a_broker_logs_in():
    """An hour that the zone has twice is the first one; a time that it skips is the last one before."""
    zones = {"1": LogTimes("Europe/Berlin"), "2": IN_UTC}
    days = ["2026-11-22 21:59", "2026-10-25 02:30", "2026-03-29 02:30"]
    lines = [line_of(document(), head=f"[{day}:00,000] DEBUG") for day in days]
    for broker, expected in {"1": ["20:59", "00:30", "00:59"], "2": ["21:59", "02:30", "02:30"]}.items():
        file = log_file("file:/logs", f"file:/logs/{broker}/a", 5, zones[broker])
        rows = parsed(batches(lines), file)["usage"]
        assert sorted(row["last_seen"].strftime("%H:%M") for row in rows) == sorted(expected)


@given(st.lists(st.sampled_from([line_of(document()), line_of(document(clientId='a"b')), *GARBAGE])), st.integers(1, 9))
def test_each_line_is_a_row_or_in_quarantine(lines: list[str], size: int):
    """However much of it is garbage, and however it is cut into batches."""
    tables = parse(batches(lines, size=size))
    read, rows, quarantined = (sum(row[name] for row in tables["source"]) for name in ("read", "rows", "quarantined"))
    counted = [line for before, line in pairwise(["first", *lines]) if line.strip() or before.strip()]
    garbage = [line for line in counted if line in GARBAGE]  # of a run of empty lines the first one
    assert (read, rows, quarantined) == (len(counted), len(counted) - len(garbage), len(garbage))
    assert sum(row["count"] for row in tables["usage"]) == rows
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
    (row,) = parse(batches([f"[2026-11-22 21:08:17,583] ERROR {header}", f"{INVALID}{reason}"]))["usage"]
    assert (row["principal"], row["client_host"], row["api_key"], row["version"]) == (principal, "10.0.0.7", 3, 99)


def test_a_reason_without_its_refusal_is_in_quarantine():
    """A file or a batch may begin in between. Half a refusal has no time, and is evidence that is missing."""
    tables = parse(batches(REFUSED[1:]))
    assert [row["reason"] for row in tables["quarantine"]] == ["cut"]
    assert tables["usage"] == []


def test_a_line_of_an_unknown_broker_is_in_quarantine():
    """A request counts for a broker, so that coverage can say which brokers are missing."""
    tables = parse(batches([line_of(document()), "garbage"]), uri="file:///logs/old/request.log")
    assert [row["reason"] for row in tables["quarantine"]] == ["unknown-broker", "no-request"]
    assert [row["broker"] for row in tables["source"]] == [None]


def test_a_long_line_is_kept_in_part():
    """The quarantine is for looking at."""
    short, long = parse(batches(["x", "x" * 100_000]))["quarantine"]
    assert (short["raw"], len(long["raw"])) == ("x", RAW_LENGTH)


def test_a_line_of_more_bytes_than_are_read_is_too_long():
    """Its reader has dropped the rest, so that the line must not pass for one that the broker has cut."""
    (batch,) = batches([line_of(document())[:300]])
    longer = batch.set_column(2, LINES.field("length"), pa.array([LONGEST + 1]))
    (row,) = parse([longer])["quarantine"]
    assert row["reason"] == "too-long"


def test_a_reader_says_of_a_file_what_it_knows_once_its_lines_are_read():
    """Why it ended early, and how far it came; the rows in quarantine have the source, too."""
    said: dict[str, object] = {"position": 0}

    def parts() -> Any:
        yield from batches([line_of(document()), "garbage"])
        said.update(position=500, reason="unreadable", why="disk error", stamp="s")

    file = log_file("file:///logs", "file:///logs/1/a", 5)._replace(source="id")
    tables = by_kind(parse_files([FileText(file, parts(), more=said)]))
    (row,), (source,) = tables["quarantine"], tables["source"]
    assert (row["source"], source["source"], source["input"], source["broker"]) == ("id", "id", "logs", "1")
    assert (source["read"], source["rows"], source["quarantined"], source["size"]) == (2, 1, 1, 5)
    assert said.items() <= source.items()


@pytest.mark.parametrize(
    ("path", "broker"),
    [("1/a.log", "1"), ("10/sub/a.log", "10"), ("a.log", None), ("01/a.log", None), ("x/1/a.log", None), ("1", None)],
)
def test_the_folder_names_the_broker(path: str, broker: str | None):
    """The first folder below the root, if it is a node id."""
    assert broker_of(path) == broker


def test_a_file_elsewhere_has_no_broker():
    """Its whole URI begins with no node id."""
    file = log_file("file:///logs", "file:///other/1/a.log", 0)
    assert (file.path, file.broker) == ("file:///other/1/a.log", None)
    assert log_file("file:/logs", "file:/logs/20/b%20c.log", 0)[1:3] == ("20/b c.log", "20")
