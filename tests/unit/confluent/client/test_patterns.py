"""Which topics a subscription means."""

import pytest

from featuregate_confluent.client.group import matcher


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("^orders", "orders-2", True),
        ("^orders", "old-orders", False),
        ("^orders$", "orders-2", False),
        ("^(a|b)[0-9]+$", "b12", True),
        ("^[[:digit:]]+$", "letters", True),
        ("^\\p{Alpha}+$", "12", True),
        ("^(?i)orders$", "ORDERS", True),
        ("^(", "anything", True),
    ],
)
def test_patterns_match_as_consumers_do_or_else_everything(pattern: str, topic: str, matches: bool) -> None:  # noqa: FBT001 - a table
    """POSIX classes and patterns that do not compile match all topics: a missed partition might hold the latch."""
    assert bool(matcher(pattern)(topic)) is matches
