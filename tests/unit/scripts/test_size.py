"""``make size`` holds each room to its budget."""

import tomllib

import pytest
import size

BUDGETS = tomllib.loads(size.BUDGETS.read_text())


def test_each_file_counts_in_one_room_only() -> None:
    """The rooms together have all lines of source."""
    counts = {count.what: count.used for count in size.against_budgets(BUDGETS)}
    assert sum(counts[f"lines of {room}"] for room in BUDGETS["source"]) == counts["lines of source"]


def test_a_count_above_its_budget_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Continuous integration stops there, and the last line names what is too large."""
    few = {**BUDGETS, "together": {**BUDGETS["together"], "commands": 3}}
    monkeypatch.setattr(size.tomllib, "loads", lambda _: few)
    assert size.main() == 1
    assert "commands" in capsys.readouterr().out.splitlines()[-1]


def test_a_package_without_a_budget_is_an_error() -> None:
    """A new room is a decision."""
    without = {room: lines for room, lines in BUDGETS["source"].items() if "spark" not in room}
    with pytest.raises(KeyError, match="featuregate_spark"):
        list(size.against_budgets({**BUDGETS, "source": without}))


def test_what_a_script_writes_is_no_prose() -> None:
    """Pages that say so in their first line, and tables between the comments of docs/tables.py, do not count."""
    pages = {page.name for page in size._pages()}
    assert "benchmarks.md" not in pages
    assert "rooms.md" in pages
    clients = size.ROOT / "docs" / "reference" / "clients.md"
    assert size._words(clients) < len(clients.read_text().split()) / 2
