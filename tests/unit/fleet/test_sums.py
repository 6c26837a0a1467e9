"""Usage that is added up before it leaves a task: nothing is lost, and little is held back."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from fleet_lines import document, line_of  # noqa: E402 - after the check for the extra
from fleet_rows import by_kind, lines_of, parsed_text  # noqa: E402 - likewise

from featuregate_fleet.evidence import usage as sums  # noqa: E402 - likewise
from featuregate_fleet.evidence.batches import parse_files  # noqa: E402 - likewise
from featuregate_fleet.evidence.columns import KEYS  # noqa: E402 - likewise
from featuregate_fleet.evidence.file_parser import FileText  # noqa: E402 - likewise
from featuregate_fleet.evidence.paths import LogFile  # noqa: E402 - likewise
from featuregate_fleet.evidence.usage import add_up  # noqa: E402 - likewise

FILE = LogFile("file:///logs/1/a", "1/a", "1", 0)


def parsed(clients: list[str]) -> list[Any]:
    lines = [[line_of(document(clientId=client)), line_of(document()), "garbage", ""] for client in clients]
    return [batch for each in lines for batch in whole("\n".join(each))]


def usage(batches: list[Any]) -> list[dict[str, Any]]:
    return by_kind(batches)["usage"]


@given(st.lists(st.sampled_from(["audit", "billing", "shop", "search"]), max_size=6), st.integers(1, 10))
def test_sums_count_what_their_parts_count(clients: list[str], most: int):
    """However often they are added up on the way; the rows of other kinds pass as they are."""
    before, after = (by_kind(batches) for batches in (parsed(clients), add_up(parsed(clients), most=most)))
    for kind, keys in KEYS.items():
        totals: list[Counter[tuple[Any, ...]]] = [Counter(), Counter()]
        for total, rows in zip(totals, (before.pop(kind), after.pop(kind)), strict=True):
            for row in rows:
                total[tuple(row[name] for name in keys)] += row["count"]
                total[str(row["first_seen"]), str(row["last_seen"])] = 1
        assert totals[0] == totals[1]
    assert before == after


def test_a_task_sends_one_row_for_each_client_and_version():
    """Also where it has read many batches of many files."""
    before = parsed(["audit", "billing"] * 20)
    assert len(usage(before)) > len(usage(list(add_up(before)))) == 2
    assert [row["count"] for row in by_kind(add_up(before))["hour"]] == [80]


def test_a_task_holds_few_rows_back():
    """Where all clients differ, sums go on before the end."""
    batches = add_up(parsed([f"client-{number}" for number in range(40)]), most=10)
    sizes = [len(batch) for batch in batches if batch["kind"][0].as_py() == "usage"]
    assert max(sizes) <= 12
    assert sum(sizes) >= 41


REASON = "org.apache.kafka.common.errors.InvalidRequestException: Received request api key FETCH with version 99"


def of_connections(*numbers: int) -> str:
    """Return lines of requests for API versions on some connections, and of a refused request on each."""
    lines = []
    for number in numbers:
        connection = f"1.2.3.4:9092-10.0.0.7:{number}-0"
        lines += [
            line_of(document(requestApiKey=18, requestApiVersion=4, connection=connection)),
            line_of(document(connection=connection)),
            f"[2026-11-22 21:08:40,000] ERROR Closing socket for {connection} because of error",
            f"{REASON} which is not enabled",
        ]
    return "\n".join([*lines, ""])


def test_a_task_keeps_some_connections(monkeypatch: pytest.MonkeyPatch):
    """A client that connects for each request would have as many rows. Of refused requests others are kept."""
    monkeypatch.setattr(sums, "MOST_CONNECTIONS", 2)
    batches = [batch for text in ((1, 2, 1), (3, 1, 2), (4, 5, 6)) for batch in whole(of_connections(*text))]
    found = {
        (row["outcome"], row["api_key"], (row["connection"] or "").rpartition(":")[2]): row["count"]
        for row in usage(list(add_up(batches)))
    }
    assert found == {
        ("completed", 1, ""): 9,
        **{("completed", 18, f"{number}-0"): count for number, count in ((1, 3), (2, 2))},
        ("completed", 18, ""): 4,
        **{("refused", 1, f"{number}-0"): count for number, count in ((1, 3), (2, 2))},
        ("refused", 1, ""): 4,
    }


def whole(text: str) -> list[Any]:
    return list(parse_files([FileText(FILE, lines_of(text.encode()))]))


def test_all_connections_of_a_small_log_are_kept():
    """A refused request shows which client sent it."""
    rows = parsed_text(of_connections(1, 2))["usage"]
    assert sorted(row["connection"] for row in rows if row["outcome"] == "refused") == [
        f"1.2.3.4:9092-10.0.0.7:{number}-0" for number in (1, 2)
    ]
    assert sum(row["connection"] is not None for row in rows) == 4
