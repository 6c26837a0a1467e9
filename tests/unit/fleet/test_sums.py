"""Usage that is added up before it leaves a task: nothing is lost, and little is held back."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_lines import document, line_of  # noqa: E402 - after the check for the extra

from featuregate_fleet.evidence.batches import parse_file  # noqa: E402 - likewise
from featuregate_fleet.evidence.columns import KEYS  # noqa: E402 - likewise
from featuregate_fleet.evidence.paths import LogFile  # noqa: E402 - likewise
from featuregate_fleet.evidence.sums import add_up  # noqa: E402 - likewise
from featuregate_fleet.evidence.text import LINES  # noqa: E402 - likewise

FILE = LogFile("file:///logs/1/a", "1/a", "1", 0)


def parsed(clients: list[str]) -> list[Any]:
    """Parse one file for each client, whose last line is garbage."""
    texts = [(line_of(document(clientId=client)), line_of(document()), "garbage") for client in clients]
    parts = [
        pa.RecordBatch.from_pylist([{"value": line, "at": 0, "length": len(line)} for line in lines], LINES)
        for lines in texts
    ]
    return [batch for part in parts for batch in parse_file(FILE, [part])]


def usage(batches: list[Any]) -> list[dict[str, Any]]:
    """Return the rows of ``api_usage``."""
    return [row["api_usage"] for batch in batches for row in batch.to_pylist() if row["api_usage"]]


@given(st.lists(st.sampled_from(["audit", "billing", "shop", "search"]), max_size=12), st.integers(1, 20))
def test_sums_count_what_their_parts_count(clients: list[str], most: int):
    """However often they are added up on the way; the rows of other tables pass as they are."""
    before = parsed(clients)
    after = list(add_up(before, most))
    totals: list[Counter[tuple[Any, ...]]] = [Counter(), Counter()]
    for total, rows in zip(totals, (usage(before), usage(after)), strict=True):
        for row in rows:
            total[tuple(row[name] for name in KEYS)] += row["count"]
    assert totals[0] == totals[1]
    assert {row["first_seen"] for row in usage(before)} == {row["first_seen"] for row in usage(after)}
    others = [
        [row for batch in batches for row in batch.to_pylist() if not row["api_usage"]] for batches in (before, after)
    ]
    assert others[0] == others[1]


def test_a_task_sends_one_row_for_each_client_and_version():
    """Also where it has read many batches of many files."""
    assert (
        len(usage(parsed(["audit", "billing"] * 20))) > len(usage(list(add_up(parsed(["audit", "billing"] * 20))))) == 2
    )


def test_a_task_holds_few_rows_back():
    """Where all clients differ, sums go on before the end."""
    batches = add_up(parsed([f"client-{number}" for number in range(40)]), most=10)
    sizes = [len(batch) for batch in batches if not batch.column("api_usage").null_count]
    assert max(sizes) <= 12
    assert sum(sizes) >= 41
