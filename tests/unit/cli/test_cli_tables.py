"""Aligned text, and short forms of lists of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from featuregate.cli.tables import aligned, runs


def test_cells_are_padded_to_the_widest_of_their_column() -> None:
    """The table pads cells with any text."""
    assert aligned([["a", "bbb", "c"], ["aaaa", "b", "c"]]) == ["a     bbb  c", "aaaa  b    c"]


def test_a_line_has_no_trailing_blanks() -> None:
    """The last cell of a line may be empty."""
    assert aligned([["a", ""], ["bb", "c"]]) == ["a", "bb  c"]


def test_numbers_in_a_row_become_a_run() -> None:
    """The ids of a thousand brokers fit one heading."""
    assert runs([7, 1, 3, 2]) == "1-3,7"


def test_an_empty_list_is_an_empty_text() -> None:
    """The list may have no number."""
    assert runs([]) == ""


@given(st.sets(st.integers(0, 200)))
def test_runs_name_exactly_these_numbers(numbers: set[int]) -> None:
    """Parsing the text gives the same numbers."""
    named: set[int] = set()
    for part in filter(None, runs(numbers).split(",")):
        low, _, high = part.partition("-")
        named |= set(range(int(low), int(high or low) + 1))
    assert named == numbers
