"""The ledger of a soak, and the page that is made from it."""

from dataclasses import replace
from pathlib import Path

import pytest
from soak.ledger import Run, append, read
from soak.page import page
from soak.running import ROOT

PASSED = Run(
    time="2030-01-01T00:00:00Z",
    commit="abc1234",
    harness="switch",
    seed=7,
    inputs=1000,
    outputs=1000,
    faults={"a broker is killed": 3},
    lost=0,
    duplicated=0,
    changed=0,
    seconds=120,
    versions={"kafka": "3.9.2, 4.2.0", "python": "3.11.7"},
)
CUT_OFF = replace(PASSED, seed=8, lost=None, duplicated=None, changed=None, failure="failure: no end | <path>")


def row(text: str, name: str) -> list[str]:
    """The cells of a row."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_the_page_of_the_docs_is_that_of_the_ledger() -> None:
    """``make soak-table`` writes the page anew after a run was appended or a cause was noted."""
    assert (ROOT / "docs" / "soak.md").read_text() == page(read(ROOT / "docs" / "soak.jsonl"))


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    """The ledger has one line for each run, the oldest first."""
    ledger = tmp_path / "soak.jsonl"
    assert read(ledger) == []
    for run in (PASSED, CUT_OFF):
        append(ledger, run)
    assert read(ledger) == [PASSED, CUT_OFF]
    assert len(ledger.read_text().splitlines()) == 2


def test_a_run_without_a_balance_adds_to_no_count_of_messages_or_faults() -> None:
    """The run did not find out whether messages are lost: it counts as a run, and as failed."""
    text = page([PASSED, CUT_OFF])
    assert row(text, "switch") == ["2", "1", "4", "1,000", "1,000", "3", "0", "0"]
    assert row(text, "a broker is killed") == ["3", "3"]


def test_lost_and_duplicated_messages_are_shown() -> None:
    """A run that failed with its balance is in every column."""
    text = page([replace(PASSED, lost=2, duplicated=1, failure="failure: 2 lost"), PASSED])
    assert row(text, r"\*\*all\*\*".replace("\\", "")) == ["2", "1", "4", "2,000", "2,000", "6", "2", "1"]


def test_a_failed_run_is_listed_with_its_seed_and_cause() -> None:
    """The text of a harness stays inside its cell."""
    text = page([CUT_OFF, replace(PASSED, failure="failure: it hung", note="mended in abc")])
    assert r"| switch | 8 | failure: no end \| &lt;path> |  |" in text
    assert "| switch | 7 | failure: it hung | mended in abc |" in text


@pytest.mark.parametrize("runs", [[], [PASSED]])
def test_a_ledger_without_failures_says_so(runs: list[Run]) -> None:
    """An empty table would not."""
    assert "## Failed runs\n\nNone.\n" in page(runs)


def test_every_version_is_named_once() -> None:
    """The versions have the order in which they came."""
    text = page([PASSED, replace(PASSED, commit="def5678", versions={"kafka": "4.2.0", "pyspark": "4.0.0"})])
    assert row(text, "commit") == ["abc1234, def5678"]
    assert row(text, "kafka") == ["3.9.2, 4.2.0"]
    assert row(text, "pyspark") == ["4.0.0"]
