"""Records of a topic to which a shipper writes request logs: each line of a broker that is known counts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import fleet_lines
import pytest
from fleet_lines import document, line_of
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_rows import Rows, by_kind  # noqa: E402 - after the check for the extra

from featuregate_fleet.evidence.paths import IN_UTC, LogTimes  # noqa: E402 - likewise
from featuregate_fleet.evidence.pseudonyms import Pseudonyms  # noqa: E402 - likewise
from featuregate_fleet.evidence.topic_records import RECORDS  # noqa: E402 - likewise
from featuregate_fleet.files.parsing import parse_records  # noqa: E402 - likewise

WRITTEN = datetime(2026, 11, 23, tzinfo=UTC)
URI, PLACE = "kafka:logs/0", ("logs", 0)
REFUSED = [text.encode() for text in fleet_lines.REFUSED]
LINE = line_of(document()).encode()


def parse(
    records: Sequence[tuple[tuple[str, int], int, bytes | None, bytes | None]],
    size: int = 10,
    times: LogTimes = IN_UTC,
    names: Pseudonyms | None = None,
) -> Rows:
    """Parse records of partitions in batches of ``size``, and return the rows of each kind."""
    rows = [
        dict(zip(RECORDS.names, (*place, offset, WRITTEN, broker, value), strict=True))
        for place, offset, broker, value in records
    ]
    batches = [pa.RecordBatch.from_pylist(rows[at : at + size], RECORDS) for at in range(0, len(rows), size)]
    return by_kind(parse_records(batches, topic_id="id-1", times=times, names=names))


def test_a_line_of_an_unknown_broker_is_in_quarantine():
    """The row has the topic, the partition and the offset."""
    said = [None, b"", b"kafka-1", b"01", b"\xff", b"1"]
    tables = parse([(PLACE, offset, broker, LINE) for offset, broker in enumerate(said)])
    found = sorted((row["path"], row["at"], row["reason"], row["broker"]) for row in tables["quarantine"])
    assert found == [(URI, offset, "unknown-broker", None) for offset in range(5)]
    assert [(row["broker"], row["count"]) for row in tables["usage"]] == [("1", 1)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([PLACE, ("logs", 1)]),
            st.sampled_from([b"1", b"2", None]),
            st.sampled_from([LINE, LINE + b"\n", LINE + b"\n" + LINE, b"garbage", b"\xff\xfe", b"", None]),
        ),
        max_size=8,
    ),
    st.integers(1, 9),
)
def test_each_line_of_each_record_is_a_row_or_in_quarantine(records: list[tuple[tuple[str, int], Any, Any]], size: int):
    """Partitions and brokers may take turns, and records may be cut into batches of any size."""
    tables = parse([(place, offset, broker, value) for offset, (place, broker, value) in enumerate(records)], size)
    lines, before = [], {}
    for place, broker, value in records:
        for line in (value or b"").removesuffix(b"\n").split(b"\n"):
            lines += [(broker, line)] if line or before.get((place, broker)) != b"" else []  # a run counts as one
            before[place, broker] = line
    good = sum(broker is not None and line == LINE for broker, line in lines)
    sums = [sum(row[name] for row in tables["source"]) for name in ("read", "rows", "quarantined")]
    assert sums == [len(lines), good, len(lines) - good]
    assert len(tables["quarantine"]) == len(lines) - good
    assert sum(row["count"] for row in tables["usage"]) == good


@pytest.mark.parametrize("size", [1, 10])
def test_rows_of_sources_have_counts_alone(size: int):
    """One for each partition and broker: the driver, which knows how far a batch reads, adds the positions."""
    tables = parse([(PLACE, 7, b"1", LINE), (PLACE, 9, b"2", b"no"), (PLACE, 12, b"1", LINE)], size)
    rows = sorted(tables["source"], key=lambda row: row["broker"])
    assert {(row["source"], row["input"], row["path"], row["uri"], row["position"]) for row in rows} == {
        ("id-1", "logs", URI, URI, 0)
    }
    assert [(row["broker"], row["read"], row["rows"], row["quarantined"]) for row in rows] == [
        ("1", 2, 2, 0),
        ("2", 1, 0, 1),
    ]


def test_names_are_hashed_where_lines_are_parsed():
    """And no text of a line is kept."""
    tables = parse([(PLACE, 0, b"1", LINE), (PLACE, 1, b"1", b"garbage")], names=Pseudonyms(b"k" * 16))
    (used,), (lost,) = tables["usage"], tables["quarantine"]
    assert (used["principal"][:5], used["client_host"][:5], lost["raw"]) == ("hmac:", "hmac:", "")


@pytest.mark.parametrize("values", [REFUSED, [b"\n".join(REFUSED)]])
def test_a_refused_request_may_be_one_record_or_two(values: Sequence[bytes]):
    """Some shippers keep the lines of an error together. The line of another broker between them does not matter."""
    records = [
        part
        for at, value in enumerate(values)
        for part in ((PLACE, 2 * at, b"1", value), (PLACE, 2 * at + 1, b"2", LINE))
    ]
    tables = parse(records)
    refused = [
        (row["broker"], row["api_key"], row["version"]) for row in tables["usage"] if row["outcome"] == "refused"
    ]
    assert refused == [("1", 3, 99)]


def test_a_record_without_a_year_is_of_the_last_year_before_its_timestamp():
    """Its layout says so, in the zone of the brokers."""
    line = LINE.replace(b"[2026-11-22 21:08:39,958]", b"Dec 24 21:08:39")
    tables = parse([(PLACE, 0, b"1", line)], times=LogTimes("Europe/Berlin", "%b %d %H:%M:%S"))
    assert [row["last_seen"].isoformat() for row in tables["usage"]] == ["2025-12-24T20:08:39+00:00"]
    (row,) = parse([(PLACE, 0, b"1", line)])["quarantine"]
    assert (row["broker"], row["reason"]) == ("1", "unknown-layout")
