"""Records of a topic to which a shipper writes request logs: each line of a broker that is known counts."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from fleet_lines import document, line_of
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from featuregate_fleet.evidence.paths import IN_UTC, LogTimes  # noqa: E402 - after the check for the extra
from featuregate_fleet.files.log_records import RECORDS, parse_records  # noqa: E402 - likewise

WRITTEN = datetime(2026, 11, 23, tzinfo=UTC)
URI = "kafka:logs/0"
_ERROR = b"[2026-11-22 21:08:17,583] ERROR Closing socket for 1.2.3.4:9-10.0.0.7:48912-8 because of error "
_WHY = b"org.apache.kafka.common.errors.UnsupportedVersionException: Received request for api with key 3 (Metadata) "
REFUSED = (_ERROR + b"(kafka.network.Processor)", _WHY + b"and unsupported version 99")
LINE = line_of(document()).encode()


def parse(
    records: Sequence[tuple[Any, ...]], size: int = 10, times: Mapping[str, LogTimes] = IN_UTC
) -> dict[str, list[dict[str, Any]]]:
    """Parse records in batches of ``size``, and return the rows of each table."""
    rows = [dict(zip(RECORDS.names, (*record[:3], WRITTEN, *record[3:]), strict=True)) for record in records]
    batches = [pa.RecordBatch.from_pylist(rows[at : at + size], RECORDS) for at in range(0, len(rows), size)]
    tables: dict[str, list[dict[str, Any]]] = {"api_usage": [], "quarantine": [], "evidence_files": []}
    for batch in parse_records(batches, times=times):
        for row in batch.to_pylist():
            ((name, value),) = [(name, value) for name, value in row.items() if value is not None]
            tables[name].append(value)
    return tables


def test_a_line_of_an_unknown_broker_is_in_quarantine():
    """The row has the topic, the partition and the offset."""
    said = [None, b"", b"kafka-1", b"01", b"\xff", b"1"]
    tables = parse([(URI, offset, broker, LINE) for offset, broker in enumerate(said)])
    found = sorted((row["uri"], row["at"], row["reason"], row["broker"]) for row in tables["quarantine"])
    assert found == [(URI, offset, "unknown-broker", None) for offset in range(5)]
    assert [(row["broker"], row["count"]) for row in tables["api_usage"]] == [("1", 1)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([URI, "kafka:logs/1"]),
            st.sampled_from([b"1", b"2", None]),
            st.sampled_from([LINE, LINE + b"\n", LINE + b"\n" + LINE, b"garbage", b"\xff\xfe", b"", None]),
        )
    ),
    st.integers(1, 9),
)
def test_each_line_of_each_record_is_a_row_or_in_quarantine(records: list[tuple[str, Any, Any]], size: int):
    """Partitions and brokers may take turns, and records may be cut into batches of any size."""
    tables = parse([(uri, offset, broker, value) for offset, (uri, broker, value) in enumerate(records)], size)
    lines, before = [], {}
    for uri, broker, value in records:
        for line in (value or b"").removesuffix(b"\n").split(b"\n"):
            lines += [(broker, line)] if line or before.get((uri, broker)) != b"" else []  # a run counts as one
            before[uri, broker] = line
    good = sum(broker is not None and line == LINE for broker, line in lines)
    sums = [sum(row[name] for row in tables["evidence_files"]) for name in ("read", "rows", "quarantined")]
    assert sums == [len(lines), good, len(lines) - good]
    assert len(tables["quarantine"]) == len(lines) - good
    assert sum(row["count"] for row in tables["api_usage"]) == good


@pytest.mark.parametrize("size", [1, 10])
def test_a_partition_was_read_up_to_the_offset_behind_its_last_record(size: int):
    """A new checkpoint goes on at that offset."""
    tables = parse([(URI, 7, b"1", LINE), (URI, 9, b"2", LINE), (URI, 12, b"1", LINE)], size)
    assert {row["broker"]: row["size"] for row in tables["evidence_files"]} == {"1": 13, "2": 10}


@pytest.mark.parametrize("values", [REFUSED, [b"\n".join(REFUSED)]])
def test_a_refused_request_may_be_one_record_or_two(values: Sequence[bytes]):
    """Some shippers keep the lines of an error together. The line of another broker between them does not matter."""
    records = [
        part for at, value in enumerate(values) for part in ((URI, 2 * at, b"1", value), (URI, 2 * at + 1, b"2", LINE))
    ]
    tables = parse(records)
    refused = [
        (row["broker"], row["api_key"], row["version"]) for row in tables["api_usage"] if row["outcome"] == "refused"
    ]
    assert refused == [("1", 3, 99)]


def test_a_record_without_a_year_is_of_the_last_year_before_its_timestamp():
    """The layout is that of the broker."""
    line = LINE.replace(b"[2026-11-22 21:08:39,958]", b"Dec 24 21:08:39")
    times = {**IN_UTC, "2": LogTimes(layout="%b %d %H:%M:%S")}
    tables = parse([(URI, 0, b"1", line), (URI, 1, b"2", line)], times=times)
    assert [row["last_seen"].isoformat() for row in tables["api_usage"]] == ["2025-12-24T21:08:39+00:00"]
    (row,) = tables["quarantine"]
    assert (row["broker"], row["reason"], row["layout"], row["not_after"]) == ("1", "unknown-layout", "", WRITTEN)


def test_each_broker_has_its_time_zone():
    """The time zones of records are chosen by broker, as those of files."""
    tables = parse([(URI, 0, b"1", LINE), (URI, 1, b"2", LINE)], times={**IN_UTC, "2": LogTimes("Europe/Berlin")})
    assert {row["broker"]: row["last_seen"].hour for row in tables["api_usage"]} == {"1": 21, "2": 20}
