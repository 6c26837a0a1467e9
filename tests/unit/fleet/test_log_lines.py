"""A row for each line, if lines are kept."""

from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from fleet_lines import document, line_of  # noqa: E402 - after the check for the extra

from featuregate_fleet.evidence.batches import parse_file  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.log_lines import KeptLines  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.one_line import read_line  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.request import LoggedRequest  # noqa: E402 - likewise
from featuregate_fleet.evidence.paths import LogFile, LogTimes  # noqa: E402 - likewise
from featuregate_fleet.evidence.text import LINES  # noqa: E402 - likewise

FILE = LogFile("file:/logs/1/a", "1/a", "1", 9, LogTimes("Europe/Berlin"))


def kept(lines: list[str], how: KeptLines) -> list[dict[str, Any]]:
    """Return the rows of lines in one batch."""
    ends = [sum(len(line) + 1 for line in lines[:count]) for count in range(len(lines))]
    arrays = [pa.array(lines, pa.string()), pa.array(ends, pa.int64()), pa.array(map(len, lines), pa.int64())]
    batch = pa.RecordBatch.from_arrays(arrays, schema=LINES)
    found = pa.Table.from_batches(parse_file(FILE, [batch], how))["log_lines"].to_pylist()
    return [row for row in found if row is not None]


def test_each_line_has_a_row(real_lines: list[str]):
    """What the fast path leaves as well: it says what the full parser says."""
    rows = kept(real_lines, KeptLines.TYPED)
    assert len(rows) == len(real_lines)
    for line, row in zip(real_lines, rows, strict=True):
        request = read_line(line)
        assert row["length"] == len(line)
        assert row["raw"] is None
        if isinstance(request, LoggedRequest):
            said = (
                row["time"],
                row["api_key"],
                row["version"],
                row["client_id"],
                row["principal"],
                row["software_name"],
            )
            assert said == (
                request.time,
                request.api_key,
                request.version,
                request.client_id,
                request.principal,
                request.software_name,
            )
            assert row["outcome"] == "completed"
        else:
            assert row["outcome"] in {None, "refused"}
    refused = [row for row in rows if row["outcome"] == "refused"]
    assert refused
    assert all(row["connection"] for row in rows if row["outcome"])
    assert not {row["connection"] for row in rows if row["outcome"] is None} - {None}


def test_a_row_says_where_its_line_is():
    """The row also has the hash of the line."""
    line = line_of(document())
    first, second = kept([line, "garbage"], KeptLines.TYPED)
    assert (first["path"], first["broker"], first["at"], first["time_zone"]) == ("1/a", "1", 0, "Europe/Berlin")
    assert (second["at"], second["time"], second["outcome"]) == (len(line) + 1, None, None)
    assert first["hash"] != second["hash"]
    assert first["hash"] == kept([line], KeptLines.TYPED)[0]["hash"]


def test_a_connection_is_the_one_behind_the_bodies():
    """A body that imitates it has its quotes behind backslashes."""
    made = document(request={"metadata": ',"connection":"x","totalTimeMs":'})
    (row,) = kept([line_of(made)], KeptLines.TYPED)
    assert row["connection"] == made["connection"]


def test_the_text_is_kept_on_request():
    """By default, the tables keep no text of a line."""
    lines = [line_of(document()), "garbage"]
    assert [row["raw"] for row in kept(lines, KeptLines.WHOLE)] == lines
    assert kept(lines, KeptLines.NONE) == []
