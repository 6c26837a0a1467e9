"""Levels that a cluster has deprecated by raising the lowest finalized one (KIP-584), from answers to decisions."""

from dataclasses import replace

import pytest
from builders import deaf, view
from hypothesis import given
from hypothesis import strategies as st
from strategies import broker_answers, views

import featuregate as fg
from featuregate.admin.plans import plan
from featuregate.admin.updates import Update
from featuregate.errors import ConfigError
from featuregate.gating.decisions import evaluate
from featuregate.requirements import Feature, FeatureAtLeast, FeatureServes, parse
from featuregate.testing import FakeCluster, StaticFeatures
from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange
from featuregate.view.changes import differences
from featuregate.view.cluster_view import View
from featuregate.view.merging import merge


def answer(node_id: int = 1, *, epoch: int = 5, supported: tuple[int, int] | None = None, **levels: tuple[int, int]):
    """One answer: each feature with its lowest and highest finalized level."""
    named = {name.replace("__", "."): pair for name, pair in levels.items()}
    return BrokerAnswer(
        node_id=node_id,
        host=f"b{node_id}",
        port=9092,
        epoch=epoch,
        asked_version=4,
        finalized={name: highest for name, (_, highest) in named.items()},
        finalized_min={name: lowest for name, (lowest, _) in named.items()},
        supported={} if supported is None else dict.fromkeys(named, SupportedRange(*supported)),
    )


def verdict(seen: View, text: str) -> str:
    return evaluate(seen, parse(text)).verdict


# ---------------------------------------------------------------- the controllers of KRaft


def test_controllers_of_kraft_deprecate_nothing() -> None:
    """They have one level, and send it as the lowest and the highest; at every level the lower ones are served on."""
    seen = FakeCluster(release="4.2", finalized={"metadata.version": 29, "transaction.version": 2}).view()
    for broker in seen.brokers:
        assert broker.finalized_min == broker.finalized
        assert broker.finalized["transaction.version"] == 2
        assert broker.deprecated_below == {}
    assert seen.finalized_min == {}
    assert verdict(seen, "transaction.version serves 1") == "open"
    assert verdict(seen, "transaction.version serves 3") == "closed"


@pytest.mark.parametrize("release", ["3.3", "3.9", "4.0", "4.3"])
def test_no_release_with_kraft_is_taken_for_one_that_deprecates(release: str) -> None:
    """Each has finalized metadata.version."""
    assert FakeCluster(1, release=release).view().finalized_min == {}


# ---------------------------------------------------------------- what tells the two apart


@pytest.mark.parametrize(
    ("levels", "deprecated"),
    [
        ({"x": (1, 2)}, {}),
        ({"x": (2, 2)}, {"x": 2}),  # KIP-584's, though KRaft would send the same: nothing else was finalized
        ({"x": (2, 3), "metadata__version": (7, 7)}, {"x": 2, "metadata.version": 7}),
        ({"x": (2, 2), "metadata__version": (7, 7)}, {}),
        ({"x": (0, 2), "y": (-3, 1)}, {}),
        ({"x": (5, 2)}, {"x": 5}),
        ({}, {}),
    ],
)
def test_a_lowest_level_counts_unless_the_answer_is_one_of_kraft(levels: dict, deprecated: dict) -> None:
    """metadata.version with only equal levels is KRaft; anything else is believed, so that nothing opens too early."""
    assert answer(**levels).deprecated_below == deprecated
    assert view(answer(**levels)).finalized_min == deprecated


# ---------------------------------------------------------------- merging


@given(st.lists(broker_answers(), max_size=5), st.none() | views(), st.randoms())
def test_invariant_1_both_ends_of_a_level_come_from_the_same_answer(answers, before, random) -> None:
    """The one of the highest epoch, in any order."""
    seen = merge(answers, cluster_id="c", previous=before, seen_at=1.0)
    shuffled = random.sample(answers, len(answers))
    assert merge(shuffled, cluster_id="c", previous=before, seen_at=1.0).finalized_min == seen.finalized_min
    if seen.epoch < 0:
        assert seen.finalized_min == {}
        return
    said = [(each.epoch, each.finalized, each.deprecated_below) for each in seen.answering]
    if before is not None and before.cluster_id == "c":
        said.append((before.epoch, before.finalized, before.finalized_min))
    assert (seen.epoch, seen.finalized, seen.finalized_min) in said
    assert seen.epoch == max(epoch for epoch, _, _ in said)


def test_a_lower_epoch_does_not_bring_a_deprecated_level_back() -> None:
    """A broker that lags says what was."""
    now = view(answer(1, epoch=6, x=(2, 2)))
    seen = view(answer(2, epoch=5, x=(1, 2)), deaf(1), previous=now)
    assert seen.finalized_min == {"x": 2}
    assert verdict(seen, "feature:x serves 1") == "closed"
    assert "broker 2 (b2:9092) still says 2 at epoch 5" in str(evaluate(seen, Feature("x").serves(1)))


def test_invariant_4_a_deprecation_alone_is_a_change() -> None:
    """All brokers have heard of it, and nothing else is another."""
    before, after = view(answer(x=(1, 2))), view(answer(epoch=6, x=(2, 2)))
    assert not before.same_content(after)
    assert [str(each) for each in differences(before, after)] == ["x is served from level 2 on (was 1)"]
    assert [str(each) for each in differences(after, before)] == ["x is served from level 1 on (was 2)"]


def test_invariant_4_a_broker_that_has_heard_of_it_is_content() -> None:
    """Its lag ends, though the cluster's levels stay."""
    news = answer(1, epoch=6, x=(2, 2))
    lags, heard = view(news, answer(2, epoch=5, x=(1, 2))), view(news, answer(2, epoch=6, x=(2, 2)))
    assert not lags.same_content(heard)
    assert [str(each) for each in differences(lags, heard)] == ["broker 2 (b2:9092) has caught up"]
    assert [str(each) for each in differences(heard, lags)] == ["broker 2 (b2:9092) still says x from 1 on"]


@given(views())
def test_a_view_says_the_same_after_json(seen: View) -> None:
    """Both what brokers said, and what it means."""
    assert View.from_json(seen.to_json()).finalized_min == seen.finalized_min


# ---------------------------------------------------------------- deciding


@given(views(), st.sampled_from(["group.version", "metadata.version", "brand.new.version"]), st.integers(1, 6))
def test_a_served_level_lies_between_both_ends_of_every_view(seen: View, feature: str, level: int) -> None:
    """Between the lowest and the highest finalized, and it implies ``>=``."""
    serves = evaluate(seen, FeatureServes(feature, level)).verdict
    at_least = evaluate(seen, FeatureAtLeast(feature, level)).verdict
    lowest, highest = seen.lowest_level(feature), seen.level(feature)
    assert (serves == "unknown") is (highest is None)
    if serves == "open":
        assert at_least == "open"
        assert lowest <= level <= highest


def test_nothing_is_known_of_a_level_without_an_epoch() -> None:
    """Brokers before 2.7 report no epoch."""
    assert verdict(view(answer(epoch=-1, x=(1, 2))), "feature:x serves 1") == "unknown"


def test_a_level_that_a_broker_dropped_is_closed_before_the_controller_says_so() -> None:
    """A KRaft controller does not say so at all: a broker that supports 2 to 3 does not serve 1."""
    kraft = {"x": (3, 3), "metadata__version": (25, 25)}
    seen = view(answer(1, supported=(1, 3), **kraft), answer(2, supported=(2, 3), **kraft))
    assert verdict(seen, "feature:x serves 1") == "closed"
    assert "broker 2 (b2:9092) cannot run it any more" in evaluate(seen, Feature("x").serves(1)).summary
    assert verdict(seen, "feature:x serves 2") == "open"


def test_the_reason_names_what_is_deprecated() -> None:
    """The summary and the reason of each broker name the levels."""
    decision = evaluate(view(answer(x=(2, 3))), Feature("x").serves(1))
    assert decision.summary.startswith(
        "closed: feature:x serves 1: levels below 2 are deprecated: the finalized level is 3"
    )
    assert "says 3 at epoch 5, with levels below 2 deprecated" in str(decision)


def test_a_level_that_is_not_there_yet_is_closed() -> None:
    """Higher than what is finalized, or not finalized at all."""
    assert verdict(view(answer(x=(1, 2))), "feature:x serves 3") == "closed"
    assert verdict(view(answer(y=(1, 2))), "feature:x serves 1") == "closed"


# ---------------------------------------------------------------- the text


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("group.version serves 1", FeatureServes("group.version", 1)),
        ("feature:serves serves 2 & Fetch>=4", Feature("serves").serves(2) & (fg.Api("Fetch") >= 4)),
        ("metadata.version serves 3.3-IV3", FeatureServes("metadata.version", 7)),
    ],
)
def test_it_reads(text: str, means: fg.Requirement) -> None:
    """The parser reads a feature and one level."""
    assert parse(text) == means
    assert parse(str(means)) == means


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("group.version serves", 20, "expected a number"),
        ("group.version serves 0", 21, "a finalized level is from 1 to 32767 here"),
        ("group.version serves >= 1", 21, "expected a number, not '>='"),
        ("Fetch serves 4", 6, "expected '>=', not 'serves'"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, position: int, problem: str) -> None:
    """At its place; APIs have ranges, ``Fetch in 4..11``."""
    with pytest.raises(fg.FeatureGateError) as caught:
        parse(text)
    assert (caught.value.position, caught.value.problem) == (position, problem)


# ---------------------------------------------------------------- gates and latches


def test_a_sticky_gate_of_a_served_level_is_refused() -> None:
    """A latch would hide just what the requirement is there to tell: that the level ends."""
    features = StaticFeatures(view(answer(x=(1, 2))))
    for text in ("feature:x serves 1", "feature:x>=1 & (Fetch>=4 | feature:x serves 1)"):
        with pytest.raises(ConfigError, match='serves 1 ends: require >= instead of serves, or give policy="live"'):
            features.gate("x", text)
    assert features.gate("x", "feature:x>=1").open


def test_a_live_gate_closes_when_the_level_is_deprecated() -> None:
    """And a sticky gate over the same feature stays."""
    features = StaticFeatures(view(answer(x=(1, 2))))
    speaks_1, at_least_1 = (
        features.gate("old", "feature:x serves 1", policy="live"),
        features.gate("new", "feature:x>=1"),
    )
    assert (speaks_1.open, at_least_1.open) == (True, True)
    features.show(view(answer(epoch=6, x=(2, 2))))
    assert (speaks_1.open, at_least_1.open) == (False, True)
    features.show(view(answer(epoch=5, x=(1, 2))))  # a broker that lags
    assert not speaks_1.open


# ---------------------------------------------------------------- plans


def test_a_plan_keeps_what_is_deprecated() -> None:
    """A latched client of level 1 was affected before; the update affects one of a level that goes away."""
    seen = view(replace(answer(x=(2, 3), supported=(1, 3)), api_ranges={57: ApiRange(0, 1)}))
    latched = {"one": parse("feature:x serves 1"), "three": parse("feature:x serves 3")}
    made = plan(seen, [Update("x", 2, upgrade_type="safe_downgrade")], latched=latched)
    assert [affected.gate for affected in made.affected] == ["three"]


def test_a_kraft_plan_deprecates_nothing() -> None:
    """The level that an update brings has no other lowest one."""
    seen = FakeCluster(release="4.2").view()
    latched = {"one": parse("transaction.version serves 1")}
    made = plan(seen, [Update("transaction.version", 2)], latched=latched)
    assert made.affected == ()


def test_a_view_without_the_feature_deprecates_nothing_of_it() -> None:
    """So that a feature that is deleted takes its lowest level along."""
    seen = view(answer(x=(2, 3)))
    assert replace(seen, finalized={}).finalized_min == {}
    assert replace(seen, finalized={}).lowest_level("x") == 0
