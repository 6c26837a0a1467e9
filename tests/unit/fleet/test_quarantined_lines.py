"""The quarantine has a bounded number of rows for one file, and counts each line."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow")

from fleet_lines import document, line_of  # noqa: E402 - after the check for the extra
from fleet_rows import OF_BROKER_1, Rows, by_kind, parsed  # noqa: E402 - likewise

from featuregate_fleet.evidence.batches import parse_files  # noqa: E402 - likewise
from featuregate_fleet.evidence.file_parser import MOST_SHARED, FileText  # noqa: E402 - likewise
from featuregate_fleet.evidence.lines.fast_path import LINES  # noqa: E402 - likewise
from featuregate_fleet.evidence.reasons import ROWS_OF_REASON  # noqa: E402 - likewise

if TYPE_CHECKING:
    pass


def batch_of(lines: list[str]) -> Any:
    numbers = pa.array(range(len(lines)), pa.int64())
    return pa.RecordBatch.from_arrays([pa.array(lines), numbers, numbers], schema=LINES)


def parse(lines: list[str]) -> Rows:
    return parsed([batch_of(lines)])


@pytest.mark.parametrize("count", [ROWS_OF_REASON, ROWS_OF_REASON + 1, 5 * ROWS_OF_REASON])
def test_lines_beyond_the_first_ones_of_a_reason_share_a_row(count: int):
    """The row stands for their number, and keeps the beginning of the first one."""
    tables = parse([f"garbage {'x' * 999} {number}" for number in range(count)])
    rows = tables["quarantine"]
    assert len(rows) == min(count, ROWS_OF_REASON + 1)
    assert sum(row["lines"] for row in rows) == count
    (file,) = tables["source"]
    assert (file["read"], file["quarantined"]) == (count, count)
    own = rows[:ROWS_OF_REASON]
    assert all((row["lines"], len(row["raw"]) > 999) == (1, True) for row in own)
    for shared in rows[ROWS_OF_REASON:]:
        assert (shared["reason"], shared["at"]) == ("no-request", ROWS_OF_REASON)
        assert shared["raw"].startswith("garbage x")
        assert len(shared["raw"]) == 160


def test_invariant_18_each_reason_has_rows_of_its_own():
    """Many lines of one reason hide no line of another one."""
    rows = parse([*["garbage"] * 5000, "Completed request:{}"])["quarantine"]
    assert {row["reason"]: row["lines"] for row in rows[-2:]} == {"unknown-layout": 1, "no-request": 4000}


def cut_line(client_id: str, minute: int = 1) -> str:
    return line_of(document(clientId=client_id), head=f"[2026-11-22 21:{minute:02}:00,000] DEBUG")[:240]


def test_each_client_of_which_lines_were_cut_keeps_a_row():
    """A head is evidence: a client that comes late is not hidden by those before it, nor is when it was seen last."""
    lines = [*[cut_line("early")] * ROWS_OF_REASON, cut_line("late", 3), cut_line("early", 9), cut_line("late", 2)]
    *_, late, early = parse(lines)["quarantine"]
    assert (late["client_id"], late["lines"], late["seen_at"].minute) == ("late", 2, 3)
    assert (early["client_id"], early["lines"], early["seen_at"].minute) == ("early", 1, 9)


@pytest.mark.no_cover
def test_clients_do_not_fill_the_memory():
    """Rows that stand for several lines are held back up to a number."""
    count = ROWS_OF_REASON + 2 * MOST_SHARED + 3000
    numbers = iter(range(count))
    parts = iter(lambda: list(islice(numbers, 1000)), [])
    batches = [batch_of([cut_line(f"{number}") for number in part]) for part in parts]
    found = list(parse_files([FileText(OF_BROKER_1, batches)]))
    sizes = [batch.num_rows for batch in found if batch["quarantine"].null_count < batch.num_rows]
    assert max(sizes) <= MOST_SHARED + 5000  # the lines that are read at once
    assert {row["client_id"] for row in by_kind(found)["quarantine"]} == {f"{number}" for number in range(count)}
