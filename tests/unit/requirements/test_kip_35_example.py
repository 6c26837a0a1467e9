"""API ranges of a client (KIP-35), by the example of the KIP."""

from builders import view

from featuregate.gating.decisions import evaluate
from featuregate.requirements import parse
from featuregate.view.answers import ApiRange, BrokerAnswer

B1 = BrokerAnswer(node_id=1, host="b1", port=9092, api_ranges={0: ApiRange(0, 3), 1: ApiRange(2, 3)})
B2 = BrokerAnswer(node_id=2, host="b2", port=9092, api_ranges={0: ApiRange(1, 2), 1: ApiRange(0, 3), 2: ApiRange(0, 0)})


def test_kip_35_worked_example() -> None:
    """Which of two features a client can use, and "version 3 of api_key 0 is not supported by all interested brokers".

    KIP-35, Scenarios, "A client developer wants to add support for a new feature".
    """
    merged = view(B1, B2)
    assert merged.api_ranges == {0: (1, 2), 1: (2, 3)}
    first = evaluate(merged, parse("Produce in 3..3 & Fetch in 2..3"))
    assert first.verdict == "closed"
    assert str(first.sorted_reasons[0]) == "Produce in 3..3: broker 2 (b2:9092) serves Produce 1..2"
    assert evaluate(merged, parse("Produce in 0..1 & Fetch in 2..3")).verdict == "open"
