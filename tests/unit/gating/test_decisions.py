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
from featuregate.gating.decisions import HOLD, STATES, Decision, GateVerdict, Reason, as_unknown, evaluate
from featuregate.requirements import And, Api, ApiAtLeast, Condition, Feature, Or, Release, Requirement, presets
from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange
from featuregate.view.cluster_view import View
from featuregate.view.merging import merge

TXN = Api("TxnOffsetCommit") >= 3
GROUP = Feature("group.version") >= 1


def verdict(seen: View, requirement: Requirement) -> GateVerdict:
    return evaluate(seen, requirement).verdict


def texts(decision: Decision) -> list[str]:
    return [reason.text for reason in decision.reasons]


def test_the_state_of_a_decision_is_one_word() -> None:
    """A gate that only its latch holds open is not simply open, and one that waits is not simply closed."""
    open_, unknown = evaluate(view(broker(1, txn=3)), TXN), evaluate(view(deaf(1)), TXN)
    closed = evaluate(view(broker(1, txn=2)), TXN)
    waiting = replace(closed, reasons=(Reason(HOLD, None, None, "closed", "not yet"), *closed.reasons))
    held = replace(closed, held="held open")
    assert [each.state for each in (open_, held, waiting, closed, unknown)] == list(STATES)


def test_a_decision_is_json_with_each_reason() -> None:
    """What keeps it closed comes first."""
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


def test_a_reason_on_a_release_has_its_condition() -> None:
    """And the first of what a broker lacks."""
    (reason,) = evaluate(view(broker(1)), Release("4.0")).reasons
    assert reason[:4] == (str(Release("4.0")), 1, "b1:9092", "closed")
    assert reason.text.startswith("broker 1 (b1:9092) lacks what 4.0 has: Produce ")
    assert reason.text.endswith(" more")
    (controllers,) = evaluate(View(cluster_id="c", role="controller"), Release("4.0")).reasons
    assert controllers == (
        str(Release("4.0")),
        None,
        None,
        "unknown",
        "releases are known of brokers, not of controllers",
    )


def test_a_reason_is_printed_with_its_condition() -> None:
    """An app that logs its reasons has no need to put them together."""
    (reason, *_) = evaluate(view(broker(2, txn=2)), TXN).reasons
    assert str(reason) == f"TxnOffsetCommit>=3: broker 2 ({reason.address}) serves TxnOffsetCommit 0..2"


# ---------------------------------------------------------------- API conditions


def test_invariant_3_a_view_without_brokers_means_unknown() -> None:
    """A condition on all brokers is not met where no broker is known."""
    decision = evaluate(view(), TXN)
    assert (decision.verdict, texts(decision)) == ("unknown", ["no broker is known"])


def test_a_raised_minimum_does_not_close() -> None:
    """KIP-896: brokers drop old versions, and a client that speaks newer ones follows."""
    seen = view(BrokerAnswer(node_id=1, host="b", port=9092, api_ranges={28: ApiRange(4, 5)}))
    assert verdict(seen, TXN) == "open"


@pytest.mark.parametrize(("lowest", "highest", "expected"), [(0, 1, "closed"), (1, 2, "open"), (6, 9, "closed")])
def test_a_range_must_overlap(lowest: int, highest: int, expected: GateVerdict) -> None:
    """The required range must overlap what every broker serves."""
    seen = view(BrokerAnswer(node_id=1, host="b", port=9092, api_ranges={1: ApiRange(2, 5)}))
    assert verdict(seen, Api("Fetch").between(lowest, highest)) == expected


def test_a_range_that_each_meets_elsewhere_is_closed() -> None:
    """Each broker speaks some version with the client, and there is none for all of them."""
    seen = view(
        BrokerAnswer(node_id=1, host="b", port=9092, api_ranges={1: ApiRange(0, 2)}),
        BrokerAnswer(node_id=2, host="b", port=9092, api_ranges={1: ApiRange(3, 5)}),
    )
    decision = evaluate(seen, Api("Fetch").between(1, 4))
    assert decision.verdict == "closed"
    assert decision.summary == "closed: Fetch in 1..4: no version from 1 to 4 is served by all of them"


def test_an_excluded_version_may_be_the_only_one_that_all_have() -> None:
    """Each broker speaks another version with the client that is not excluded."""
    seen = view(
        BrokerAnswer(node_id=1, host="b", port=9092, api_ranges={1: ApiRange(0, 3)}),
        BrokerAnswer(node_id=2, host="b", port=9092, api_ranges={1: ApiRange(3, 5)}),
    )
    decision = evaluate(seen, Api("Fetch").between(1, 4), exclude_apis="Fetch=3")
    assert decision.summary == (
        "closed: Fetch in 1..4: no version from 1 to 4 is served by all of them: version 3 is excluded by configuration"
    )


@pytest.mark.parametrize(
    ("seen", "requirement", "expected"),
    [
        (view(broker(1), deaf(2)), Api(28).between(0, 3), "unknown"),
        (view(deaf(2)), Api(28).between(0, 3), "unknown"),
        (view(broker(1, group_version=1)), GROUP, "open"),
        (view(broker(1)), GROUP, "closed"),
        (view(broker(1, epoch=-1)), GROUP, "unknown"),
        (view(broker(1, group_version=1), deaf(2)), GROUP, "open"),
    ],
)
def test_a_silent_broker_matters_for_apis_alone(seen: View, requirement: Requirement, expected: GateVerdict) -> None:
    """What the others have in common is not what all have. A controller asked all brokers before it finalized."""
    assert verdict(seen, requirement) == expected


def test_the_produce_quirk_does_not_open_old_versions() -> None:
    """Kafka 4 advertises Produce 0 and rejects it (KAFKA-18659)."""
    seen = view(BrokerAnswer(node_id=1, host="b", port=9092, api_ranges={0: ApiRange(0, 13), 1: ApiRange(4, 18)}))
    assert verdict(seen, Api("Produce").between(0, 2)) == "closed"
    assert verdict(seen, Api("Produce").between(0, 3)) == "open"


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


# ---------------------------------------------------------------- features


@pytest.mark.parametrize(("metadata", "doubted"), [(21, True), (25, True), (26, False)])
def test_a_level_of_kraft_version_is_told_with_its_doubt(metadata: int, *, doubted: bool) -> None:
    """Before 4.1 brokers report a record that the quorum may ignore (KAFKA-18979)."""
    decision = evaluate(view(broker(metadata_version=metadata, kraft_version=1)), Feature("kraft.version") >= 1)
    assert decision.open
    assert ("KAFKA-18979" in texts(decision)[0]) is doubted


def test_a_doubted_level_may_be_kept_from_an_earlier_view() -> None:
    """The reason says both."""
    before = view(broker(metadata_version=21, kraft_version=1))
    decision = evaluate(view(broker(epoch=9), previous=before), Feature("kraft.version") >= 1)
    assert texts(decision)[0] == (
        "the finalized level is 1 at epoch 10, kept from an earlier view; controllers before 4.1 report it even where "
        "their quorum does not have it (KAFKA-18979)"
    )


def test_the_first_epoch_is_one() -> None:
    """A level of 0 is known then."""
    seen = view(replace(broker(epoch=0), supported={"group.version": SupportedRange(0, 1)}))
    assert texts(evaluate(seen, GROUP)) == [
        "the finalized level is 0 (absent) at epoch 0",
        "broker 1 (b1:9092) says 0 (absent) at epoch 0, can run 0..1",
    ]


def test_brokers_without_an_epoch_are_explained() -> None:
    """The reasons say why the level is unknown."""
    old = replace(broker(3, epoch=-1), asked_version=2)
    decision = evaluate(view(broker(2, epoch=-1, metadata_version=7), broker(1, epoch=-1), old), GROUP)
    why = "Kafka before 2.7, or no feature was ever finalized"
    bogus = "(epoch -1) (what it lists without an epoch means nothing)"
    assert texts(decision) == [
        "the finalized level is unknown: no broker reports any finalized features",
        f"broker 1 (b1:9092) reports no finalized features (epoch -1): {why}",
        f"broker 2 (b2:9092) reports no finalized features {bogus}: {why}",
        "broker 3 (b3:9092) was asked at ApiVersions v2, which knows no features: Kafka before 2.4",
    ]


def test_a_stale_broker_is_shown_as_stale() -> None:
    """The reason says that the broker still reports the older level."""
    wanted = Feature("group.version") >= 2
    decision = evaluate(view(broker(3, epoch=500, group_version=1), broker(1, epoch=5613, group_version=2)), wanted)
    assert decision.verdict == "open"
    assert texts(decision) == [
        "the finalized level is 2 at epoch 5613",
        "broker 1 (b1:9092) says 2 at epoch 5613, without a supported range",
        "broker 3 (b3:9092) still says 1 at epoch 500, without a supported range",
    ]


def test_a_level_that_no_broker_reports_any_more_is_said_to_be_kept() -> None:
    """The reason says that an earlier view has the level."""
    before = view(broker(1, epoch=10, group_version=1))
    decision = evaluate(view(broker(1, epoch=9), previous=before), GROUP)
    assert texts(decision)[0] == "the finalized level is 1 at epoch 10, kept from an earlier view"
    assert texts(decision)[1].startswith("broker 1 (b1:9092) still says 0 (absent) at epoch 9")


def test_a_silent_broker_is_shown_with_its_failure() -> None:
    """The reasons have its failure also where it decides nothing."""
    decision = evaluate(view(broker(1, group_version=1), deaf(2)), GROUP)
    assert texts(decision)[1:] == [
        "broker 1 (b1:9092) says 1 at epoch 10, without a supported range",
        "broker 2 (b2:9092) did not answer: TimedOut: said nothing for 5 s",
    ]


def test_brokers_that_could_not_run_the_level_come_first() -> None:
    """Because of them the controller cannot finalize it yet."""
    able = replace(broker(1), supported={"group.version": SupportedRange(0, 1)})
    hiding = replace(broker(2), asked_version=3)
    decision = evaluate(view(able, hiding), GROUP)
    hides = "may hide what it can run (ApiVersions v3 leaves out features that start at 0)"
    assert texts(decision)[1:] == [
        f"broker 2 (b2:9092) says 0 (absent) at epoch 10, {hides}",
        "broker 1 (b1:9092) says 0 (absent) at epoch 10, can run 0..1",
    ]


def test_levels_of_metadata_version_have_names() -> None:
    """Operators know 3.9-IV0, not 21."""
    decision = evaluate(view(broker(1, metadata_version=21)), Feature("metadata.version") >= 25)
    assert texts(decision)[0] == "the finalized level is 21 (3.9-IV0) at epoch 10"


def test_an_unknown_feature_is_called_a_likely_mistake() -> None:
    """A misspelled one keeps a gate closed for ever."""
    misspelled = evaluate(view(broker(1)), Feature("grop.version") >= 1)
    assert texts(misspelled)[0].endswith("and we know of no such feature; did you mean group.version?")
    unheard = evaluate(view(broker(1)), Feature("xyzzy") >= 1)
    assert texts(unheard)[0].endswith("and we know of no such feature")


def test_a_new_feature_that_brokers_support_is_no_mistake() -> None:
    """The brokers are newer than the table of features."""
    new = replace(broker(1), supported={"brand.new.version": SupportedRange(0, 1)})
    decision = evaluate(view(new), Feature("brand.new.version") >= 1)
    assert texts(decision)[0] == "the finalized level is 0 (absent) at epoch 10"


# ---------------------------------------------------------------- releases


def captured_broker(release: str, node_id: int = 1, **more: object) -> BrokerAnswer:
    """Say what the captured broker of a release said."""
    row = catalog.captured()[release]
    return BrokerAnswer(
        node_id=node_id,
        host=f"b{node_id}",
        port=9092,
        api_ranges={key: ApiRange(*said) for key, said in row.apis.items()},
        supported={name: SupportedRange(*said) for name, said in row.features.items()},
        **more,
    )


@pytest.mark.parametrize("release", catalog.captured_releases())
def test_a_captured_broker_is_of_its_release_and_of_older_ones(release: str) -> None:
    """The broker meets the conditions of all of these releases."""
    seen = view(captured_broker(release))
    older = catalog.captured_releases()[: catalog.captured_releases().index(release) + 1]
    assert {verdict(seen, Release(each)) for each in older} == {"open"}


@pytest.mark.parametrize(("release", "lowest"), [("2.4", 0), ("3.9", 0), ("4.2", 3), ("4.3", 3)])
def test_real_brokers_show_the_produce_quirk_since_4(release: str, lowest: int) -> None:
    """All of them advertise Produce from 0; Kafka 4 rejects what is below 3 (KAFKA-18659)."""
    seen = captured_broker(release)
    assert seen.api_ranges[0].min == 0
    assert seen.serves(0).min == lowest


def test_a_release_opens_with_the_last_broker() -> None:
    """The condition opens when the last broker runs 4.2."""
    mixed = view(captured_broker("3.9", 1), captured_broker("4.2", 2))
    decision = evaluate(mixed, Release("4.2"))
    assert decision.verdict == "closed"
    first = decision.sorted_reasons[0]
    assert first.node_id == 1
    assert first.text.startswith("broker 1 (b1:9092) lacks what 4.2 has: ")
    assert first.text.endswith(" more")
    assert verdict(mixed, Release("3.9")) == "open"
    assert verdict(view(captured_broker("4.2", 1), captured_broker("4.2", 2)), Release("4.2")) == "open"
    assert verdict(view(captured_broker("4.2", 1), deaf(2)), Release("4.2")) == "unknown"


def test_a_release_is_told_by_metadata_version_where_apis_do_not_tell() -> None:
    """A broker that can run no more than 3.9-IV0 is no 4.2, whatever its APIs."""
    disguised = replace(captured_broker("4.2"), supported={"metadata.version": SupportedRange(1, 21)})
    decision = evaluate(view(disguised), Release("4.2"))
    assert decision.reasons[0].text == "broker 1 (b1:9092) lacks what 4.2 has: metadata.version 4.2-IV1"


def test_releases_are_judged_of_brokers_only() -> None:
    """A controller lists the APIs of another listener, so its release is unknown."""
    controller = replace(captured_broker("4.2"), role="controller")
    seen = merge([controller], cluster_id="c", role="controller", seen_at=1)
    decision = evaluate(seen, Release("3.9"))
    assert (decision.verdict, decision.reasons[0].text) == (
        "unknown",
        "releases are known of brokers, not of controllers",
    )


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
    """A condition of somebody else's."""

    def __str__(self) -> str:
        return "tuesday"


def test_a_kind_of_requirement_that_no_view_decides_is_refused_before_there_is_a_view() -> None:
    """So it makes no gate, and spoils no poll."""
    with pytest.raises(TypeError, match="is not a requirement"):
        Decision.unseen((Feature("group.version") >= 1) & OnTuesdays())


# ---------------------------------------------------------------- what a decision tells


def test_a_decision_shows_who_lacks_it_first() -> None:
    """The whole text, as an operator reads it."""
    decision = evaluate(view(broker(1), broker(2, txn=2), deaf(3)), TXN)
    assert str(decision).splitlines() == [
        "closed: TxnOffsetCommit>=3 (cluster c, epoch 10)",
        "  closed   TxnOffsetCommit>=3: broker 2 (b2:9092) serves TxnOffsetCommit 0..2",
        "  unknown  TxnOffsetCommit>=3: broker 3 (b3:9092) did not answer: TimedOut: said nothing for 5 s",
        "  open     TxnOffsetCommit>=3: broker 1 (b1:9092) serves TxnOffsetCommit 0..3",
    ]


def test_a_broker_without_the_api_is_told_so() -> None:
    """The reason names the broker and the API."""
    assert texts(evaluate(view(broker(1, txn=None)), TXN)) == ["broker 1 (b1:9092) does not serve TxnOffsetCommit"]


def test_a_decision_of_many_brokers_stays_readable() -> None:
    """It ends up in an exception and in logs."""
    brokers = (broker(at, txn=2 if at == 7 else 3) for at in range(1, 101))
    assert str(evaluate(view(*brokers), TXN)).splitlines() == [
        "closed: TxnOffsetCommit>=3 (cluster c, epoch 10)",
        "  closed   TxnOffsetCommit>=3: broker 7 (b7:9092) serves TxnOffsetCommit 0..2",
        "  open     TxnOffsetCommit>=3: 99 brokers (1-6,8-100) serve TxnOffsetCommit 0..3",
    ]


def test_a_decision_for_many_causes_fits_a_page() -> None:
    """Each of 100 brokers has a cause of its own."""
    lines = str(evaluate(view(*(broker(at, txn=at) for at in range(100))), Api("TxnOffsetCommit") >= 100)).splitlines()
    assert len(lines) == 22
    assert lines[-1] == "  and 80 more reasons"


def test_each_condition_has_its_share_of_the_page() -> None:
    """A condition with many causes does not push the others out."""
    same = {0: ApiRange(0, 3), 1: ApiRange(0, 3)}
    brokers = (replace(broker(at, txn=at), api_ranges={28: ApiRange(0, at), **same}) for at in range(100))
    lines = str(evaluate(view(*brokers), "TxnOffsetCommit>=100 & Produce>=5 & Fetch>=2")).splitlines()
    assert len(lines) == 22
    assert "  closed   Produce>=5: 100 brokers (0-99) serve Produce 0..3" in lines
    assert "  open     Fetch>=2: 100 brokers (0-99) serve Fetch 0..3" in lines


def test_silent_brokers_share_a_line_with_some_addresses() -> None:
    """A rack of 30 brokers that lost its power is one fact."""
    brokers = (deaf(at) if at <= 30 else broker(at) for at in range(1, 101))
    assert str(evaluate(view(*brokers), TXN)).splitlines() == [
        "unknown: TxnOffsetCommit>=3 (cluster c, epoch 10)",
        (
            "  unknown  TxnOffsetCommit>=3: 30 brokers (1-30: b1:9092, b2:9092, b3:9092, 27 more) did not answer: "
            "TimedOut: said nothing for 5 s"
        ),
        "  open     TxnOffsetCommit>=3: 70 brokers (31-100) serve TxnOffsetCommit 0..3",
    ]


def test_brokers_without_an_id_share_a_line_by_their_addresses() -> None:
    """A bootstrap list has no ids."""
    brokers = (replace(broker(at), node_id=None) for at in (1, 2))
    assert str(evaluate(view(*brokers), TXN)).splitlines()[1:] == [
        "  open     TxnOffsetCommit>=3: 2 brokers (b1:9092, b2:9092) serve TxnOffsetCommit 0..3"
    ]


def test_a_condition_that_a_requirement_names_twice_has_one_line_for_the_cluster() -> None:
    """The same fact of the cluster is there once for each place."""
    decision = evaluate(view(broker(1)), (GROUP & TXN) | GROUP)
    lines = str(decision).splitlines()[1:]
    assert len(lines) == len(set(lines)) < len(decision.reasons)


def test_the_summary_is_the_first_reason_for_the_verdict() -> None:
    """The summary fits in one line of a log."""
    seen = view(broker(1, txn=2, group_version=1), broker(2, txn=1, group_version=1), deaf(3))
    assert evaluate(seen, GROUP & TXN).summary == (
        "closed: TxnOffsetCommit>=3: broker 1 (b1:9092) serves TxnOffsetCommit 0..2 (and 1 more)"
    )
    assert evaluate(view(broker(1)), TXN).summary == "open: TxnOffsetCommit>=3"
    assert evaluate(view(), TXN).summary == "unknown: TxnOffsetCommit>=3: no broker is known"


def test_invariant_2_a_held_decision_is_open_and_says_why() -> None:
    """Loudly: first in the text and in the summary."""
    held = replace(evaluate(view(broker(1)), GROUP), held="held open: finalized level fell to 0", policy="sticky")
    assert held.open
    assert held.verdict == "closed"
    assert held.summary == "held open: finalized level fell to 0"
    assert str(held).startswith(
        "held open: finalized level fell to 0: group.version>=1 (cluster c, epoch 10, sticky gate)"
    )


def test_before_any_view_a_decision_is_unknown() -> None:
    """The reason says that there is no view yet."""
    unseen = Decision.unseen(TXN, policy="live")
    assert (unseen.verdict, unseen.open, unseen.policy, unseen.epoch) == ("unknown", False, "live", -1)
    assert unseen.summary == "unknown: TxnOffsetCommit>=3: no broker has answered yet"


@pytest.mark.parametrize(
    ("seen", "doubted"), [(broker(1), "unknown"), (deaf(1), "unknown"), (broker(1, txn=2), "closed")]
)
def test_doubt_opens_nothing(seen: BrokerAnswer, doubted: GateVerdict) -> None:
    """It takes an open verdict back, and leaves others as they are."""
    decision = as_unknown(evaluate(view(seen), TXN), "the view is fresh", "no broker has answered for 90 s")
    assert (decision.verdict, decision.open) == (doubted, False)
    assert decision.reasons[0] == ("the view is fresh", None, None, "unknown", "no broker has answered for 90 s")


def test_doubt_about_a_held_decision_takes_the_hold_back() -> None:
    """What is doubted is not held."""
    held = replace(evaluate(view(broker(1)), TXN), held="held open")
    assert not as_unknown(held, "the view is fresh", "no").open


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
