"""What brokers answered, side by side."""

from hypothesis import given
from hypothesis import strategies as st

from featuregate.budgets import MOST_NAMED
from featuregate.testing import release_view
from featuregate.view.cluster_view import runs
from featuregate.view.matrix import compare


def test_equal_brokers_are_one_group() -> None:
    """A hundred brokers have as many columns as they have different answers."""
    matrix = compare(release_view(*["3.9"] * 60, *["4.2"] * 40, silent=[7]), all_apis=False)
    assert [(group.members, len(group.brokers)) for group in matrix.groups] == [("1-6,8-60", 59), ("61-100", 40)]
    assert {row.kind for row in matrix.rows} == {"finalized", "supported", "api"}
    assert all(row.differs for row in matrix.rows if row.kind == "api")
    assert matrix.hidden > 0


def test_all_apis_have_rows_where_they_are_asked_for() -> None:
    """Also those on which all brokers agree."""
    matrix = compare(release_view("4.2"), all_apis=True)
    assert matrix.hidden == 0
    assert {row.text(row.cluster) for row in matrix.rows if row.name == "ApiVersions"} == {"0..4"}


def test_levels_have_names_and_an_absent_one_a_dash() -> None:
    """Level 0 means that the feature is not finalized."""
    matrix = compare(release_view("4.2", finalized={"metadata.version": 25}), all_apis=False)
    texts = {(row.kind, row.name): row.text(row.cluster) for row in matrix.rows}
    assert texts["finalized", "metadata.version"] == "4.0-IV3"
    assert compare(release_view("3.9", "4.2"), all_apis=True).rows[0].text((0,)) == "-"


def test_numbers_in_a_row_become_a_run() -> None:
    """The ids of a thousand brokers fit one heading."""
    assert runs([7, 1, 3, 2]) == "1-3,7"


def test_an_empty_list_is_an_empty_text() -> None:
    """The list may have no number."""
    assert runs([]) == ""


@given(st.sets(st.integers(0, 200)))
def test_runs_name_exactly_these_numbers(numbers: set[int]) -> None:
    """Parsing the text gives the numbers of the first runs, and it ends with how many numbers it leaves out."""
    text, _, left = runs(numbers).partition(" and ")
    named: set[int] = set()
    parts = list(filter(None, text.split(",")))
    for part in parts:
        low, _, high = part.partition("-")
        named |= set(range(int(low), int(high or low) + 1))
    assert named == set(sorted(numbers)[: len(named)])
    assert left == (f"{len(numbers) - len(named)} more" if named != numbers else "")
    assert len(parts) == min(MOST_NAMED, sum(number - 1 not in numbers for number in numbers))


def test_runs_beyond_the_most_that_are_named_are_counted() -> None:
    """The first 20 of 22 runs are named, and the numbers in the other two are counted."""
    every_other = range(0, 40, 2)
    assert runs(every_other) == ",".join(map(str, every_other))
    assert runs([*every_other, 50, 51, 60]) == runs(every_other) + " and 3 more"
