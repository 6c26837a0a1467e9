"""What never goes back: a grow-only record, and decisions in its light."""

from typing import Any

import pytest
from builders import broker, deaf, view
from hypothesis import given
from hypothesis import strategies as st
from strategies import latch_states

from featuregate.excluded_apis import excluded_apis
from featuregate.gating.decisions import BURN_IN, HOLD, Staleness
from featuregate.gating.latches import LatchedGate, LatchState, Policy, advance, decide, join
from featuregate.requirements import Api, Feature, Requirement
from featuregate.view.answers import BrokerAnswer

TV2 = Feature("transaction.version") >= 2
TXN = Api("TxnOffsetCommit") >= 3


def latch(name: str, requirement: Requirement, *, opened_at: float = 5.0, epoch: int = 9) -> LatchedGate:
    return LatchedGate(gate=name, requirement=str(requirement), opened_at=opened_at, epoch=epoch)


def latched(name: str, requirement: Requirement, **levels: int) -> LatchState:
    gate = latch(name, requirement)
    return LatchState(
        cluster_id="c", levels={k.replace("_", "."): v for k, v in levels.items()}, gates={gate.key: gate}
    )


names = st.sampled_from(["a", "b", "c"])
records = latch_states(st.sampled_from(["a", "b"]), st.just("x>=1"), st.sampled_from([0.0, 1.0, 2.0]))


@given(records, records, records)
def test_joining_knows_neither_order_nor_grouping_nor_number(
    one: LatchState, two: LatchState, three: LatchState
) -> None:
    """Any process may write first, any number may pass states on, and a record may be read again."""
    assert join(one, two) == join(two, one)
    assert join(join(one, two), three) == join(one, join(two, three))
    assert join(one, one) == join(one, join(one, one)) == one


@given(st.lists(st.tuples(st.integers(0, 9), st.dictionaries(names, st.integers(1, 9))), max_size=12))
def test_invariant_2_levels_never_fall_over_any_sequence_of_views(seen: list[tuple[int, dict[str, int]]]) -> None:
    """Stale, downgraded or absent: what was highest stays."""
    kept = LatchState(cluster_id="c")
    for epoch, levels in seen:
        after = advance(kept, view(broker(epoch=epoch, **levels)))
        for name, level in kept.levels.items():
            assert after.levels[name] >= level
        for name, level in levels.items():
            assert after.levels[name] >= level
        kept = after


def test_invariant_1_another_cluster_starts_afresh() -> None:
    """What one cluster has shown says nothing of another."""
    after = advance(latched("eos", TV2, transaction_version=2), view(broker(group_version=1), cluster_id="d"))
    assert after == LatchState(cluster_id="d", levels={"group.version": 1})


def test_records_of_two_clusters_do_not_join() -> None:
    """A join would open the gates of one cluster by the brokers of the other."""
    with pytest.raises(ValueError, match="two clusters: c and d"):
        join(LatchState(cluster_id="c"), LatchState(cluster_id="d"))


def test_the_earlier_opening_stays() -> None:
    """Two processes may open a gate; the record says since when it has been open."""
    early, late = latch("eos", TV2, opened_at=1), latch("eos", TV2, opened_at=2)
    for pair in ((early, late), (late, early)):
        one, other = (LatchState(cluster_id="c", gates={gate.key: gate}) for gate in pair)
        assert list(join(one, other).gates.values()) == [early]


def test_a_live_gate_is_what_the_view_proves() -> None:
    """Also where a latch of its name exists."""
    kept = latched("eos", TV2, transaction_version=2)
    decision = decide(kept, view(broker(transaction_version=1)), name="eos", requirement=TV2, policy="live")
    assert (decision.open, decision.policy, decision.held) == (False, "live", None)


NOT_PROVED = "held open: latched at epoch 9, and not proved now"


@pytest.mark.parametrize(
    ("requirement", "kept", "seen", "verdict", "held"),
    [
        (
            TV2,
            {"transaction_version": 2},
            broker(epoch=5613, transaction_version=1),
            "closed",
            "fell to 1 at epoch 5613",
        ),
        (TV2, {"transaction_version": 2}, broker(epoch=6, group_version=1), "closed", "fell to 0 at epoch 6"),
        (TV2, {"transaction_version": 2}, broker(epoch=-1), "unknown", NOT_PROVED),  # reports no levels
        (TV2, {}, broker(epoch=12), "closed", NOT_PROVED),  # level 0 may be all that it ever had
        (TXN, {}, deaf(), "unknown", NOT_PROVED),
        (TXN, {}, broker(txn=3), "open", None),
    ],
)
def test_invariant_2_a_latched_gate_is_held_open_and_says_why(
    requirement: Requirement, kept: dict[str, int], seen: BrokerAnswer, verdict: str, held: str | None
) -> None:
    """An operator's downgrade is reported loudly, and a deleted feature has level 0. What is proved is not held."""
    decision = decide(
        latched("eos", requirement, **kept), view(seen), name="eos", requirement=requirement, policy="sticky"
    )
    assert (decision.open, decision.verdict) == (True, verdict)
    assert decision.held is None if held is None else held in str(decision.held)


@pytest.mark.parametrize(
    ("kept", "cluster_id"), [(latched("other", TXN), "c"), (latched("eos", TV2), "c"), (latched("eos", TXN), "d")]
)
def test_invariant_2_a_latch_belongs_to_a_name_a_requirement_and_a_cluster(kept: LatchState, cluster_id: str) -> None:
    """The same name with another requirement is another promise; the record at hand may still be the old cluster's."""
    seen = view(broker(txn=2), cluster_id=cluster_id)
    assert not decide(kept, seen, name="eos", requirement=TXN, policy="sticky").open


def test_a_sticky_gate_that_is_proved_but_not_kept_stays_shut() -> None:
    """What a restart would forget must not be relied upon."""
    decision = decide(LatchState(cluster_id="c"), view(broker(txn=3)), name="eos", requirement=TXN, policy="sticky")
    assert not decision.open
    assert "durable" in str(decision)
    assert [reason.text for reason in decision.reasons if reason.condition == "the latch is durable"] == ["it is not"]


def test_a_view_adds_the_gates_that_opened_with_it() -> None:
    """A level 0 is that of a feature that is not in use: it is no record."""
    opened = latch("eos", TV2)
    after = advance(LatchState(cluster_id="c"), view(broker(transaction_version=2, group_version=0)), [opened])
    assert after == LatchState(cluster_id="c", levels={"transaction.version": 2}, gates={opened.key: opened})


@pytest.mark.parametrize(
    "given",
    [
        {"staleness": Staleness(view="no broker has answered for 900 s")},
        {"exclude_apis": excluded_apis("TxnOffsetCommit")},
    ],
)
def test_what_proves_nothing_opens_nothing(given: dict[str, Any]) -> None:
    """A view that is too old, and versions that this client must not use."""
    seen = view(broker(txn=3))
    assert decide(LatchState(cluster_id="c"), seen, name="a", requirement=TXN, policy="live").open
    assert not decide(LatchState(cluster_id="c"), seen, name="a", requirement=TXN, policy="live", **given).open


def test_only_excluded_versions_that_the_gate_needs_are_named() -> None:
    """A latched gate is held against an exclusion that came later, and says which."""
    excluded = excluded_apis("TxnOffsetCommit=3,Fetch")
    decision = decide(
        latched("eos", TXN), view(broker(txn=3)), name="eos", requirement=TXN, policy="sticky", exclude_apis=excluded
    )
    assert decision.held == (
        "held open: latched at epoch 9, and not proved now;"
        " versions of what it needs are excluded by configuration (TxnOffsetCommit=3)"
    )


@pytest.mark.parametrize(
    ("kept", "held"),
    [
        ({"transaction_version": 2, "group_version": 1}, "fell to 1 at epoch 12 (transaction.version was 2)"),
        ({"transaction_version": 1, "group_version": 1}, "latched at epoch 9, and not proved now"),
        ({}, "latched at epoch 9, and not proved now"),
        (
            {"transaction_version": 2, "group_version": 2},
            (
                "fell to 1 at epoch 12 (transaction.version was 2); finalized level fell to 1 at epoch 12"
                " (group.version was 2)"
            ),
        ),
    ],
)
def test_invariant_2_each_level_that_fell_is_named_and_no_other(kept: dict[str, int], held: str) -> None:
    """A level that is as high as ever, or of which nothing was recorded, did not fall."""
    both = TV2 & (Feature("group.version") >= 2)
    seen = view(broker(epoch=12, transaction_version=1, group_version=1))
    decision = decide(latched("eos", both, **kept), seen, name="eos", requirement=both, policy="sticky")
    assert str(decision.held).endswith(held)


def test_before_the_first_answer_a_latch_is_for_sticky_gates_alone() -> None:
    """A live gate follows the cluster, of which nothing is known yet."""
    kept = latched("eos", TV2)
    assert decide(kept, None, name="eos", requirement=TV2, policy="sticky").open
    assert not decide(kept, None, name="eos", requirement=TV2, policy="live").open


def test_a_hold_that_comes_after_the_latch_is_named_before_the_first_answer() -> None:
    """The operator learns that it is too late, and of which hold that is said."""
    waits = {HOLD: "the file says so"}
    decision = decide(latched("eos", TV2), None, name="eos", requirement=TV2, policy="sticky", waits=waits)
    assert decision.open
    assert decision.reasons[-1].text == "comes too late, because the gate latched at epoch 9: the file says so"


@pytest.mark.parametrize(
    ("policy", "txn", "waits", "summary"),
    [
        ("sticky", 3, {HOLD: "held", BURN_IN: "burns in"}, "closed: hold: held"),
        ("sticky", 3, {BURN_IN: "burns in"}, "closed: burn-in: burns in"),
        ("sticky", 3, {}, "unknown: the latch is durable: it is not"),
        ("sticky", 2, {HOLD: "held"}, "closed: hold: held (and 1 more)"),
        ("sticky", 2, {BURN_IN: "burns in"}, "closed: TxnOffsetCommit>=3: broker 1 (b1:9092) serves"),
        ("live", 3, {HOLD: "held"}, "closed: hold: held"),
        ("live", 3, {}, "open: TxnOffsetCommit>=3"),
    ],
)
def test_the_first_reason_to_wait_keeps_a_gate_closed_that_has_not_latched(
    policy: Policy, txn: int, waits: dict[str, str], summary: str
) -> None:
    """A hold is said in any case; the burn-in, and a latch that is not durable, only where the view proves it."""
    seen = view(broker(txn=txn))
    decision = decide(LatchState(cluster_id="c"), seen, name="a", requirement=TXN, policy=policy, waits=waits)
    assert decision.summary.startswith(summary)
