"""Aligned text."""

from featuregate.cli.output import aligned


def test_cells_are_padded_to_the_widest_of_their_column() -> None:
    assert aligned([["a", "bbb", "c"], ["aaaa", "b", "c"]]) == ["a     bbb  c", "aaaa  b    c"]


def test_a_line_has_no_trailing_blanks() -> None:
    """The last cell of a line may be empty."""
    assert aligned([["a", ""], ["bb", "c"]]) == ["a", "bb  c"]
