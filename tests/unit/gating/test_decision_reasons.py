"""What the reasons of a decision say where a list is cut, a level or a broker is missing, or a view is old."""

from dataclasses import replace

import pytest
from builders import broker, deaf, view

from featuregate import catalog
from featuregate.excluded_apis import excluded_apis
from featuregate.gating.decisions import HOLD, Decision, Staleness, as_closed, as_unknown, evaluate, usable_versions
from featuregate.gating.verdicts import Reason, reason_lines
from featuregate.requirements import Api, Capability, Feature, Release
from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange
from featuregate.view.cluster_view import View

TXN = Api("TxnOffsetCommit") >= 3
GROUP = Feature("group.version") >= 1


def serving(node_id: int = 1, **ranges: tuple[int, int]) -> BrokerAnswer:
    """Say what one broker serves, by the names of APIs."""
    apis = {catalog.api_key(name): ApiRange(*said) for name, said in ranges.items()}
    return BrokerAnswer(node_id=node_id, host=f"b{node_id}", port=9092, api_ranges=apis)


def test_a_cluster_without_an_id_and_an_epoch_is_told_so() -> None:
    """As before Kafka 0.10.1."""
    said = str(evaluate(view(broker(epoch=-1), cluster_id=None), TXN)).splitlines()[0]
    assert said == "open: TxnOffsetCommit>=3 (cluster unknown, no epoch)"
    assert "(cluster c, epoch 0)" in str(evaluate(view(broker(epoch=0)), TXN))


@pytest.mark.parametrize(
    ("requirement", "staleness", "condition", "text"),
    [
        (TXN, Staleness(view="old"), "the view is fresh", "old"),
        (Feature("group.version") >= 2, Staleness(levels="old"), None, "and old"),
        ("kip890 & Fetch>=1", Staleness(levels="old"), None, "and old"),
    ],
)
def test_what_is_too_old_makes_a_verdict_unknown(
    requirement: object, staleness: Staleness, condition: str | None, text: str
) -> None:
    """Also in a requirement that has a name, or parts. The first reason says what is old."""
    seen = view(
        replace(broker(group_version=2, transaction_version=2), api_ranges={key: ApiRange(0, 99) for key in range(90)})
    )
    assert evaluate(seen, requirement).open
    decision = evaluate(seen, requirement, staleness)
    assert decision.verdict == "unknown"
    assert decision.reasons[0].text.endswith(text)
    assert condition in (None, decision.reasons[0].condition)


def test_what_stands_against_a_held_decision_takes_the_hold_back() -> None:
    """It is no part of the requirement, and comes first."""
    held = replace(evaluate(view(broker()), TXN), held="held open", policy="sticky")
    closed = as_closed(held, HOLD, "held by the test")
    assert (closed.verdict, closed.held, closed.policy, closed.open) == ("closed", None, "sticky", False)
    assert closed.reasons == (Reason("hold", None, None, "closed", "held by the test"), *held.reasons)
    assert closed.waits == closed.reasons[0]
    assert as_unknown(closed, "x", "y").waits is None
    assert replace(closed, held="held open").waits is None
    assert Decision.unseen(TXN).waits is None


@pytest.mark.parametrize(("lacking", "more"), [(1, ""), (3, ""), (4, " and 1 more")])
def test_the_first_three_things_that_a_broker_lacks_are_named(lacking: int, more: str) -> None:
    """And how many more there are."""
    needed = catalog.needed_for("4.1").apis
    keys = [1, 2, 3, 8][:lacking]
    ranges = {key: ApiRange(0, version - (key in keys)) for key, version in needed.items()}
    seen = view(BrokerAnswer(node_id=1, host="b1", port=9092, api_ranges=ranges))
    expected = ", ".join(f"{catalog.api_name(key)} {needed[key]}" for key in keys[:3])
    assert evaluate(seen, Release("4.1")).reasons[0].text == (
        f"broker 1 (b1:9092) lacks what 4.1 has: {expected}{more}"
    )


@pytest.mark.parametrize(("silent", "more"), [(3, ""), (4, ", 1 more")])
def test_three_silent_brokers_are_named_by_their_addresses(silent: int, more: str) -> None:
    """And the number of the others."""
    line = str(evaluate(view(*(deaf(at) for at in range(1, silent + 1))), TXN)).splitlines()[1]
    assert f"{silent} brokers (1-{silent}: b1:9092, b2:9092, b3:9092{more}) did not answer" in line


def test_facts_of_the_cluster_and_of_brokers_share_lines_apart() -> None:
    """Conditions take turns, the first facts of each before the second ones, and keep their order."""
    said = "broker 1 (b1:9092) is what the cluster says"
    reasons = [
        *(Reason("a", at, f"b{at}:9092", "closed", f"broker {at} (b{at}:9092) has {at}") for at in (1, 2)),
        *(Reason("b", at, f"b{at}:9092", "closed", f"broker {at} (b{at}:9092) has {at}") for at in (1, 2)),
        *[Reason("c", None, None, "closed", said)] * 2,
    ]
    lines = reason_lines(reasons, 4)
    assert lines == [
        "closed   a: broker 1 (b1:9092) has 1",
        "closed   a: broker 2 (b2:9092) has 2",
        "closed   b: broker 1 (b1:9092) has 1",
        f"closed   c: {said}",
        "and 1 more reasons",
    ]
    assert reason_lines(reasons, 5)[-1] == f"closed   c: {said}"


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("has x=1", "2 brokers (1-2) have x=1"),
        ("lacks y", "2 brokers (1-2) lack y"),
        ("still says 1", "2 brokers (1-2) still say 1"),
        ("was asked", "2 brokers (1-2) were asked"),
        ("reports has", "2 brokers (1-2) report has"),
        ("hasty words", "2 brokers (1-2) hasty words"),
    ],
)
def test_brokers_that_share_a_line_are_many(fact: str, said: str) -> None:
    """So is their verb."""
    reasons = [Reason("c", at, f"b{at}:9092", "open", f"broker {at} (b{at}:9092) {fact}") for at in (1, 2)]
    assert reason_lines(reasons, 9) == [f"open     c: {said}"]


def test_a_feature_that_may_mean_two_is_asked_back_with_both() -> None:
    """The nearest one first."""
    text = evaluate(view(broker()), Feature("shreams.version") >= 1).reasons[0].text
    assert text.endswith("; did you mean streams.version or share.version?")


@pytest.mark.parametrize(
    ("level", "served", "supported", "verdict", "said"),
    [
        (1, 1, (1, 2), "open", "the finalized level is 1 at epoch 10"),
        (0, 1, (1, 2), "closed", "the finalized level is 0 (absent) at epoch 10"),
        (2, 1, (1, 2), "open", "the finalized level is 2 at epoch 10"),
        (2, 1, (2, 2), "closed", "b cannot run it any more: the finalized level is 2 at epoch 10"),
    ],
)
def test_a_level_is_served_while_each_broker_can_run_it(
    level: int, served: int, supported: tuple[int, int], verdict: str, said: str
) -> None:
    """The first three brokers that have dropped it are named."""
    levels = {"group_version": level} if level else {}
    able = {"group.version": SupportedRange(*supported)}
    brokers = [replace(broker(at, **levels), supported=able) for at in (1, 2, 3, 4)]
    decision = evaluate(view(*brokers), Feature("group.version").serves(served))
    who = "broker 1 (b1:9092), broker 2 (b2:9092), broker 3 (b3:9092)"
    assert (decision.verdict, decision.reasons[0].text) == (verdict, said.replace("b cannot", f"{who} cannot"))


def test_the_versions_that_a_client_may_use_are_those_that_all_brokers_have() -> None:
    """None where a broker is silent, where there is none in common, and where it is excluded."""
    client = Capability("mine", {"Fetch": (2, 9), "Produce": (8, 9)})
    seen = view(serving(1, Fetch=(0, 5), Produce=(0, 7)), serving(2, Fetch=(0, 7), Produce=(0, 7)))
    assert usable_versions(seen, client) == {"Fetch": 5, "Produce": None}
    assert usable_versions(seen, client, exclude_apis="Fetch=4-5") == {"Fetch": 3, "Produce": None}
    assert usable_versions(seen, client, exclude_apis=excluded_apis("Fetch")) == {"Fetch": None, "Produce": None}
    silent = view(serving(1, Fetch=(0, 5), Produce=(0, 9)), deaf(2))
    assert usable_versions(silent, client) == {"Fetch": None, "Produce": None}
    assert usable_versions(View(cluster_id="c"), client) == {"Fetch": None, "Produce": None}


def test_a_deprecated_level_of_metadata_version_has_its_name() -> None:
    """As a finalized one has."""
    answer = replace(broker(metadata_version=21, x=3), finalized_min={"metadata.version": 7, "x": 2})
    decision = evaluate(view(answer), Feature("metadata.version").serves(6))
    assert [reason.text for reason in decision.reasons] == [
        "levels below 7 (3.3-IV3) are deprecated: the finalized level is 21 (3.9-IV0) at epoch 10",
        "broker 1 (b1:9092) says 21 (3.9-IV0) at epoch 10, with levels below 7 deprecated, without a supported range",
    ]


def test_a_broker_is_stale_only_where_it_says_something_else() -> None:
    """One that lags behind, and has the same level, says what the others do; 0 is its lowest and its highest level."""
    seen = view(broker(1, epoch=10, metadata_version=21), broker(2, epoch=9, metadata_version=21), broker(3, epoch=9))
    decision = evaluate(seen, Feature("metadata.version") >= 21)
    assert [reason.text for reason in decision.reasons[1:]] == [
        "broker 1 (b1:9092) says 21 (3.9-IV0) at epoch 10, without a supported range",
        "broker 2 (b2:9092) says 21 (3.9-IV0) at epoch 9, without a supported range",
        "broker 3 (b3:9092) still says 0 (absent) at epoch 9, without a supported range",
    ]
    lowest = replace(broker(1, group_version=2), finalized_min={"group.version": 2})
    behind = evaluate(view(lowest, broker(2, epoch=9, group_version=2)), GROUP).reasons[2].text
    assert behind == "broker 2 (b2:9092) still says 2 at epoch 9, without a supported range"


@pytest.mark.parametrize(("serves", "first"), [(False, ["0..0"]), (True, ["3..3", "0..0"])])
def test_brokers_that_cannot_run_a_level_come_first(first: list[str], *, serves: bool) -> None:
    """Those that run only lower ones, and for a level that must be served those that run only higher ones."""
    ranges = {1: (1, 2), 2: (2, 2), 3: (3, 3), 4: (0, 0)}
    brokers = [replace(broker(at), supported={"x": SupportedRange(*ends)}) for at, ends in ranges.items()]
    wanted = Feature("x").serves(2) if serves else Feature("x") >= 2
    found = [reason.text.rpartition(" ")[2] for reason in evaluate(view(*brokers), wanted).reasons[1:]]
    assert found == [*first, *(each for each in ("1..2", "2..2", "3..3") if each not in first)]
