"""Properties in librdkafka's spellings."""

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from featuregate_confluent.config.settings import given, last, number, text

ACKS = ("acks", "request.required.acks")


def test_each_place_is_named_as_the_app_spelled_it() -> None:
    """An error then points to the property that the app's owner has to change."""
    config = {"acks": 1, "topic.acks": 2, "default.topic.config": {"request.required.acks": 3}, "linger.ms": 4}
    assert list(given(config, ACKS)) == [
        ("acks", 1),
        ("topic.acks", 2),
        ("default.topic.config: request.required.acks", 3),
    ]


def test_the_last_place_counts() -> None:
    """librdkafka sets one after the other, too."""
    assert last({"acks": 1, "request.required.acks": 2}, ACKS) == 2
    assert last({"linger.ms": 1}, ACKS) is None


def test_the_case_of_values_does_not_count() -> None:
    """librdkafka ignores case as well; Python's True is one of the values."""
    assert {text(value) for value in ("TRUE", True, " true")} == {"true"}


@pytest.mark.parametrize(
    ("value", "read"), [("0x10", 16), ("010", 10), (5, 5), ("-1", -1), ("all", None), (None, None)]
)
def test_numbers_are_read_in_the_spellings_of_c(value: object, read: int | None) -> None:
    """A text that is no number is None, and librdkafka refuses it."""
    assert number(value) == read


@drawn(config=st.dictionaries(st.one_of(st.text(), st.integers(), st.just("default.topic.config")), st.integers()))
def test_no_dict_makes_them_raise(config: dict[object, object]) -> None:
    """Any value may be in the app's dict. Hypothesis draws the names of properties, too: it finds them in this file."""
    named = [(key, value) for key, value in config.items() if key in (*ACKS, *(f"topic.{name}" for name in ACKS))]
    assert list(given(config, ACKS)) == named  # type: ignore[arg-type]
