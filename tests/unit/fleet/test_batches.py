"""From batches of lines to rows of tables: every line is counted once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_lines import document, line_of  # noqa: E402 - after the check for the extra

from featuregate_fleet.evidence.batches import LINES, parse_batches  # noqa: E402 - likewise
from featuregate_fleet.evidence.paths import broker_of, path_below  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EXCEPTIONS = "org.apache.kafka.common.errors"
GARBAGE = ["", "garbage", line_of(document())[:99], "Completed request:{}"]


def batches(lines: Iterable[str], uri: str = "file:///logs/1/request.log", size: int = 10) -> list[Any]:
    """Make batches of ``size`` lines of one file."""
    rows = [{"value": line, "path": uri, "block": 0, "size": 5} for line in lines]
    return [pa.RecordBatch.from_pylist(rows[at : at + size], LINES) for at in range(0, len(rows), size)]


def parse(made: Iterable[Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table."""
    tables: dict[str, list[dict[str, Any]]] = {"api_usage": [], "quarantine": [], "evidence_files": []}
    for batch in parse_batches(iter(made), root="/logs"):
        for row in batch.to_pylist():
            (found,) = [(name, value) for name, value in row.items() if value is not None]
            tables[found[0]].append(found[1])
    return tables


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


@given(st.lists(st.sampled_from([line_of(document()), line_of(document(clientId='a"b')), *GARBAGE])), st.integers(1, 9))
def test_each_line_is_a_row_or_in_quarantine(lines: list[str], size: int):
    """However much of it is garbage, and however it is cut into batches."""
    tables = parse(batches(lines, size=size))
    read, rows, quarantined = (
        sum(row[name] for row in tables["evidence_files"]) for name in ("read", "rows", "quarantined")
    )
    garbage = [line for line in lines if line in GARBAGE]
    assert (read, rows, quarantined) == (len(lines), len(lines) - len(garbage), len(garbage))
    assert sum(row["count"] for row in tables["api_usage"]) == rows
    assert sorted(row["raw"] for row in tables["quarantine"]) == sorted(garbage)
    assert [lines[row["line"]] for row in tables["quarantine"]] == [row["raw"] for row in tables["quarantine"]]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_refused_request_counts_once(real_lines: Sequence[str], size: int):
    """The broker logs it twice, over four lines, which batches may separate."""
    tables = parse(batches(real_lines, size=size))
    refused = counted(tables, "outcome", "api_key", "version", "client_host")
    host = "127.0.0.1"
    by_release = {
        3: {("refused", 3, 99, host): 1},
        4: {("refused", 2, 0, host): 1, ("refused", 3, 99, host): 1, ("refused", 0, 2, host): 1},
    }
    release = 4 if any("(ListOffsets)" in line for line in real_lines) else 3
    assert {key: count for key, count in refused.items() if key[0] == "refused"} == by_release[release]


def test_a_refusal_of_an_older_broker_names_the_principal():
    """Releases up to 2.8 logged the principal."""
    header = "Closing socket for 127.0.0.1:44815-10.0.0.7:48912-8 because of error (kafka.network.Processor)"
    reason = (
        "Error getting request for apiKey: METADATA, apiVersion: 99, connectionId: 127.0.0.1:44815-10.0.0.7:48912-8, "
        "listenerName: ListenerName(CLIENT), principal: User:billing"
    )
    lines = [f"[2026-11-22 21:08:17,583] ERROR {header}", f"{EXCEPTIONS}.InvalidRequestException: {reason}"]
    (row,) = parse(batches(lines))["api_usage"]
    assert (row["principal"], row["client_host"], row["api_key"], row["version"]) == ("User:billing", "10.0.0.7", 3, 99)


def test_a_reason_without_its_refusal_is_in_quarantine():
    """The lines of a rotated file may begin in between, and half a refusal has no time."""
    reason = "Received request for api with key 3 (Metadata) and unsupported version 99"
    tables = parse(batches([f"{EXCEPTIONS}.UnsupportedVersionException: {reason}"]))
    assert [row["reason"] for row in tables["quarantine"]] == ["no-request"]
    assert tables["api_usage"] == []


def test_a_line_of_an_unknown_broker_is_in_quarantine():
    """A request counts for a broker, so that coverage can say which brokers are missing."""
    tables = parse(batches([line_of(document())], uri="file:///logs/old/request.log"))
    assert [row["reason"] for row in tables["quarantine"]] == ["unknown-broker"]
    assert [row["broker"] for row in tables["evidence_files"]] == [None]


def test_a_batch_may_hold_several_files():
    """Each line counts for the broker of its file."""
    line = line_of(document())
    one, two = batches([line], "file:/logs/1/a.log") + batches([line, line], "file:///logs/20/b%20c.log")
    tables = parse([pa.concat_batches([one, two])])
    assert counted(tables, "broker") == {("1",): 1, ("20",): 2}
    assert [row["path"] for row in tables["evidence_files"]] == ["1/a.log", "20/b c.log"]


def test_a_long_line_is_kept_in_part():
    """The quarantine is for looking at, and not an archive."""
    (row,) = parse(batches(["x" * 100_000]))["quarantine"]
    assert len(row["raw"]) == 2000


@pytest.mark.parametrize(
    ("path", "broker"),
    [("1/a.log", "1"), ("10/sub/a.log", "10"), ("a.log", None), ("01/a.log", None), ("x/1/a.log", None), ("1", None)],
)
def test_the_folder_names_the_broker(path: str, broker: str | None):
    """The first folder below the root, if it is a node id."""
    assert broker_of(path) == broker


def test_a_file_elsewhere_has_no_broker():
    """Its whole path begins with no node id."""
    assert path_below("/logs", "file:///other/1/a.log") == "/other/1/a.log"
