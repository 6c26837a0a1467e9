"""Decisions: invariant 3, Kleene's logic, and reasons that name the broker."""

import pickle
from dataclasses import replace
from unittest.mock import Mock

import pytest
from builders import broker, deaf, view
from hypothesis import given
from hypothesis import strategies as st
from strategies import KEYS, named, requirements, small_conditions, views

from featuregate import catalog
from featuregate.gating.decisions import HOLD, STATES, Decision, GateVerdict, Reason, against, evaluate
from featuregate.requirements import And, Api, ApiAtLeast, Condition, Feature, Or, Release, Requirement, presets
from featuregate.testing import release_view
from featuregate.view.answers import ApiRange, BrokerAnswer
from featuregate.view.cluster_view import View

TXN = Api("TxnOffsetCommit") >= 3
GROUP = Feature("group.version") >= 1


def serving(**ranges: tuple[int, int]) -> View:
    apis = {catalog.api_key(name): ApiRange(*said) for name, said in ranges.items()}
    return view(BrokerAnswer(node_id=1, host="b", port=9092, api_ranges=apis))


def verdict(seen: View, requirement: Requirement) -> GateVerdict:
    return evaluate(seen, requirement).verdict


def test_the_state_of_a_decision_is_one_word() -> None:
    """A gate that only its latch holds open is not simply open, and one that waits is not simply closed."""
    open_, unknown = evaluate(view(broker(1, txn=3)), TXN), evaluate(view(deaf(1)), TXN)
    closed = evaluate(view(broker(1, txn=2)), TXN)
    waiting = replace(closed, reasons=(Reason(HOLD, None, None, "closed", "not yet"), *closed.reasons))
    held = replace(closed, held="held open")
    assert [each.state for each in (open_, held, waiting, closed, unknown)] == list(STATES)


def test_a_decision_is_json_with_each_reason() -> None:
    decision = evaluate(view(broker(1, txn=3), broker(2, txn=2)), TXN)
    said = decision.to_dict()
    assert [reason["verdict"] for reason in said.pop("reasons")] == ["closed", "open"]
    assert said == {
        "requirement": "TxnOffsetCommit>=3",
        "verdict": "closed",
        "open": False,
        "cluster_id": decision.cluster_id,
        "epoch": decision.epoch,
    }


def test_a_reason_is_printed_with_its_condition() -> None:
    """An app that logs its reasons has no need to put them together."""
    (reason, *_) = evaluate(view(broker(2, txn=2)), TXN).reasons
    assert str(reason) == f"TxnOffsetCommit>=3: broker 2 ({reason.address}) serves TxnOffsetCommit 0..2"


# ---------------------------------------------------------------- API conditions


@pytest.mark.parametrize(
    ("seen", "requirement", "expected"),
    [
        (view(broker(1), deaf(2)), Api(28).between(0, 3), "unknown"),
        (view(deaf(2)), Api(28).between(0, 3), "unknown"),
        (view(broker(1, group_version=1)), GROUP, "open"),
        (view(broker(1)), GROUP, "closed"),
        (view(broker(1, epoch=-1)), GROUP, "unknown"),
        # what the others have in common is not what all have, and a controller asked all brokers before it finalized
        (view(broker(1, group_version=1), deaf(2)), GROUP, "open"),
        # KIP-896: brokers drop old versions, and a client that speaks newer ones follows
        (serving(TxnOffsetCommit=(4, 5)), TXN, "open"),
        (serving(Fetch=(2, 5)), Api("Fetch").between(0, 1), "closed"),
        (serving(Fetch=(2, 5)), Api("Fetch").between(1, 2), "open"),
        (serving(Fetch=(2, 5)), Api("Fetch").between(6, 9), "closed"),
        # Kafka 4 advertises Produce 0 and rejects it (KAFKA-18659)
        (serving(Produce=(0, 13), Fetch=(4, 18)), Api("Produce").between(0, 2), "closed"),
        (serving(Produce=(0, 13), Fetch=(4, 18)), Api("Produce").between(0, 3), "open"),
    ],
)
def test_a_view_has_a_verdict_on_a_condition(seen: View, requirement: Requirement, expected: GateVerdict) -> None:
    assert verdict(seen, requirement) == expected


@given(views(), st.sampled_from(KEYS), st.integers(0, 6))
def test_invariant_3_over_any_view(seen: View, key: int, version: int) -> None:
    """Open: every known broker answered and reaches it. Closed: one that answered does not. And nothing else."""
    got = verdict(seen, ApiAtLeast(key, version))
    reached = [(r := known.serves(key)) is not None and r.max >= version for known in seen.answering]
    assert (got == "open") == (bool(seen.brokers) and not seen.missing and all(reached))
    assert (got == "closed") == (not all(reached))


@given(views(), small_conditions)
def test_invariant_3_a_deaf_broker_never_opens_an_api_condition(seen: View, condition: Requirement) -> None:
    """To add one to a view may take away an open verdict, and never gives one."""
    before = verdict(seen, condition)
    after = verdict(replace(seen, brokers=(*seen.brokers, deaf(99))), condition)
    assert after == before or (before, after) == ("open", "unknown")


# ---------------------------------------------------------------- releases


@pytest.mark.parametrize("release", catalog.captured_releases())
def test_a_captured_broker_is_of_its_release_and_of_older_ones(release: str) -> None:
    """The broker meets the conditions of all of these releases."""
    seen = release_view(release)
    older = catalog.captured_releases()[: catalog.captured_releases().index(release) + 1]
    assert {verdict(seen, Release(each)) for each in older} == {"open"}


@pytest.mark.parametrize(("release", "lowest"), [("2.4", 0), ("3.9", 0), ("4.2", 3), ("4.3", 3)])
def test_real_brokers_show_the_produce_quirk_since_4(release: str, lowest: int) -> None:
    """All of them advertise Produce from 0; Kafka 4 rejects what is below 3 (KAFKA-18659)."""
    (seen,) = release_view(release).brokers
    assert seen.api_ranges[0].min == 0
    assert seen.serves(0).min == lowest


# ---------------------------------------------------------------- logic

OPEN, CLOSED, UNKNOWN = TXN, Api("Fetch") >= 4, GROUP
SEEN = view(broker(1, epoch=-1, txn=3))
ORDER = ("closed", "unknown", "open")
BY_VERDICT: dict[str, Requirement] = {"open": OPEN, "closed": CLOSED, "unknown": UNKNOWN}


@pytest.mark.parametrize("left", ORDER)
@pytest.mark.parametrize("right", ORDER)
def test_and_takes_the_worse_and_or_the_better(left: str, right: str) -> None:
    """The verdicts follow Kleene's strong logic in all nine rows."""
    one, other = BY_VERDICT[left], BY_VERDICT[right]
    assert (verdict(SEEN, one), verdict(SEEN, other)) == (left, right)
    assert verdict(SEEN, one & other) == min(left, right, key=ORDER.index)
    assert verdict(SEEN, one | other) == max(left, right, key=ORDER.index)


@given(views(), small_conditions, small_conditions, small_conditions)
def test_the_laws_of_logic_hold(seen: View, a: Requirement, b: Requirement, c: Requirement) -> None:
    """Idempotent, commutative, associative, absorbing, distributive: so a text may be written in any way."""

    def same(one: Requirement, other: Requirement) -> bool:
        return verdict(seen, one) == verdict(seen, other)

    assert same(a & a, a)
    assert same(a | a, a)
    assert same(a & b, b & a)
    assert same(a | b, b | a)
    assert same(And((And((a, b)), c)), And((a, And((b, c)))))
    assert same(Or((Or((a, b)), c)), Or((a, Or((b, c)))))
    assert same(a & (a | b), a)
    assert same(a | (a & b), a)
    assert same(a & (b | c), (a & b) | (a & c))
    assert same(a | (b & c), (a | b) & (a | c))


@given(views(), requirements | named)
def test_invariant_5_any_view_decides_whatever_requirement_can_be_made(seen: View, requirement: Requirement) -> None:
    """One that raised would spoil each poll of every gate."""
    assert evaluate(seen, requirement).verdict in {"open", "closed", "unknown"}


class OnTuesdays(Condition):
    def __str__(self) -> str:
        return "tuesday"


def test_a_kind_of_requirement_that_no_view_decides_is_refused_before_there_is_a_view() -> None:
    """Such a requirement makes no gate, and spoils no poll."""
    with pytest.raises(TypeError, match="is not a requirement"):
        Decision.unseen((Feature("group.version") >= 1) & OnTuesdays())


# ---------------------------------------------------------------- what a decision tells


@pytest.mark.parametrize(
    ("seen", "doubted"), [(broker(1), "unknown"), (deaf(1), "unknown"), (broker(1, txn=2), "closed")]
)
def test_doubt_opens_nothing(seen: BrokerAnswer, doubted: GateVerdict) -> None:
    """It takes an open verdict back, and leaves others as they are."""
    decision = against(evaluate(view(seen), TXN), "the view is fresh", "no broker has answered for 90 s", "unknown")
    assert (decision.verdict, decision.open) == (doubted, False)
    assert decision.reasons[0] == ("the view is fresh", None, None, "unknown", "no broker has answered for 90 s")


def test_decisions_survive_pickling() -> None:
    """Pins carry them to Spark workers."""
    decision = evaluate(view(broker(1), deaf(2)), TXN & GROUP)
    assert pickle.loads(pickle.dumps(decision)) == decision


def test_text_is_evaluated_like_the_requirement_that_it_says() -> None:
    """The name of a preset is evaluated, too."""
    seen = view(broker(txn=3))
    assert evaluate(seen, "TxnOffsetCommit>=3") == evaluate(seen, Api("TxnOffsetCommit") >= 3)
    assert evaluate(seen, "kip447") == evaluate(seen, presets.kip447)
    with pytest.raises(TypeError, match="is not a requirement"):
        evaluate(seen, None)  # type: ignore[arg-type]  # the mistake is the test


def test_a_notebook_shows_what_print_shows() -> None:
    """IPython asks for the text of a value in this way."""
    decision, printer = evaluate(view(broker(1, txn=2)), TXN), Mock()
    decision._repr_pretty_(printer, cycle=False)
    printer.text.assert_called_once_with(str(decision))
