"""Properties in librdkafka's spellings."""

from __future__ import annotations

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from featuregate_confluent.config.properties import given, last, number, text

ACKS = ("acks", "request.required.acks")


def test_each_place_is_named_as_the_app_spelled_it() -> None:
    """So that an error points to the line that the app's owner has to change."""
    config = {"acks": 1, "topic.acks": 2, "default.topic.config": {"request.required.acks": 3}, "linger.ms": 4}
    assert list(given(config, ACKS)) == [
        ("acks", 1),
        ("topic.acks", 2),
        ("default.topic.config: request.required.acks", 3),
    ]


def test_the_last_place_counts() -> None:
    """As for librdkafka, which sets one after the other."""
    assert last({"acks": 1, "request.required.acks": 2}, ACKS) == 2
    assert last({"linger.ms": 1}, ACKS) is None


def test_the_case_of_values_does_not_count() -> None:
    """librdkafka compares without it; Python's own True is one of them."""
    assert {text(value) for value in ("TRUE", True, " true")} == {"true"}


@pytest.mark.parametrize(
    ("value", "read"), [("0x10", 16), ("010", 10), (5, 5), ("-1", -1), ("all", None), (None, None)]
)
def test_numbers_are_read_in_the_spellings_of_c(value: object, read: int | None) -> None:
    """What is no number is None, for librdkafka to refuse."""
    assert number(value) == read


@drawn(config=st.dictionaries(st.one_of(st.text(), st.integers(), st.just("default.topic.config")), st.integers()))
def test_no_dict_makes_them_raise(config: dict[object, object]) -> None:
    """What is in it is the app's."""
    assert list(given(config, ACKS)) == []  # type: ignore[arg-type]
