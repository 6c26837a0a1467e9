"""Aligned text, and runs of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from featuregate.cli.tables import aligned, runs


def test_cells_are_padded_to_the_widest_of_their_column() -> None:
    """Columns line up, whatever is in them."""
    assert aligned([["a", "bbb", "c"], ["aaaa", "b", "c"]]) == ["a     bbb  c", "aaaa  b    c"]


def test_nothing_trails_at_the_end_of_a_line() -> None:
    """A line that ends in an empty cell ends with its last character."""
    assert aligned([["a", ""], ["bb", "c"]]) == ["a", "bb  c"]


def test_numbers_in_a_row_become_a_run() -> None:
    """A thousand brokers fit one heading."""
    assert runs([7, 1, 3, 2]) == "1-3,7"


def test_no_number_is_no_run() -> None:
    """There may be none."""
    assert runs([]) == ""


@given(st.sets(st.integers(0, 200)))
def test_runs_name_exactly_these_numbers(numbers: set[int]) -> None:
    """What was named can be read back."""
    named: set[int] = set()
    for part in filter(None, runs(numbers).split(",")):
        low, _, high = part.partition("-")
        named |= set(range(int(low), int(high or low) + 1))
    assert named == numbers
