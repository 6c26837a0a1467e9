"""Capabilities as maps of API versions (KIP-35), and the example of the KIP."""

import pytest
from builders import deaf, view

from featuregate.errors import RequirementError
from featuregate.gating.decisions import evaluate, usable_versions
from featuregate.requirements import Capability, parse
from featuregate.view.answers import ApiRange, BrokerAnswer

B1 = BrokerAnswer(node_id=1, host="b1", port=9092, api_ranges={0: ApiRange(0, 3), 1: ApiRange(2, 3)})
B2 = BrokerAnswer(node_id=2, host="b2", port=9092, api_ranges={0: ApiRange(1, 2), 1: ApiRange(0, 3), 2: ApiRange(0, 0)})
FEATURE1 = Capability("Feature1", {0: (3, 3), 1: (2, 3)})
FEATURE2 = Capability("Feature2", {0: (0, 1), 1: (2, 3)})


def test_kip_35_worked_example() -> None:
    """ "Versions state built by client", and which of the two features it can use.

    KIP-35, Scenarios, "A client developer wants to add support for a new feature".
    """
    merged = view(B1, B2)
    assert merged.api_ranges == {0: (1, 2), 1: (2, 3)}
    assert evaluate(merged, FEATURE1).verdict == "closed"
    assert evaluate(merged, FEATURE2).verdict == "open"
    assert usable_versions(merged, FEATURE1) == {"Produce": None, "Fetch": 3}
    assert usable_versions(merged, FEATURE2) == {"Produce": 1, "Fetch": 3}


def test_the_closed_one_names_the_broker_that_lacks_it() -> None:
    """KIP-35: "version 3 of api_key 0 is not supported by all interested brokers"."""
    first = evaluate(view(B1, B2), FEATURE1).sorted_reasons[0]
    assert (first.condition, first.node_id, first.text) == (
        "Produce in 3..3",
        2,
        "broker 2 (b2:9092) serves Produce 1..2",
    )


def test_no_version_is_usable_while_a_broker_is_silent() -> None:
    """The silent broker may serve none of these versions (invariant 3)."""
    assert usable_versions(view(B1, B2, deaf(3)), FEATURE2) == {"Produce": None, "Fetch": None}


def test_the_highest_usable_version_is_the_lower_of_the_two_highest() -> None:
    """The client or the cluster sets the limit."""
    merged = view(B1)
    assert usable_versions(merged, Capability("c", {"Fetch": (0, 2)})) == {"Fetch": 2}
    assert usable_versions(merged, Capability("c", {"Fetch": (0, 9)})) == {"Fetch": 3}
    assert usable_versions(merged, Capability("c", {"Fetch": (4, 9)})) == {"Fetch": None}
    assert usable_versions(merged, Capability("c", {"Metadata": (0, 9)})) == {"Metadata": None}


def test_names_and_keys_give_the_same_capability() -> None:
    """The order of the APIs does not matter, and the text of a capability parses."""
    named = Capability("Feature2", {"Fetch": (2, 3), "Produce": (0, 1)})
    assert named == FEATURE2
    assert str(named) == "Produce in 0..1 & Fetch in 2..3"
    assert parse(str(named)) == named.requirement


def test_a_capability_of_one_api_is_one_condition() -> None:
    """The requirement is not a combination with a single part."""
    assert parse("Fetch in 2..3") == Capability("c", {"Fetch": (2, 3)}).requirement


@pytest.mark.parametrize(
    ("speaks", "complaint"),
    [
        ({}, "names no API"),
        ({"Fetcj": (0, 1)}, "no API is called 'Fetcj'; did you mean Fetch"),
        ({"Fetch": (0, 1), 1: (0, 2)}, "names Fetch twice"),
        ({"Fetch": (3, 1)}, "the highest API version is from 3"),
    ],
)
def test_an_invalid_capability_is_refused(speaks: dict, complaint: str) -> None:
    """Otherwise every cluster or no cluster would meet it."""
    with pytest.raises(RequirementError, match=complaint):
        Capability("mine", speaks)
