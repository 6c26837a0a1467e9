"""Both branches of an app can be tested without a network, with the production code for decisions."""

import threading
from datetime import timedelta

import pytest

import featuregate as fg
from featuregate.errors import ClosedError, DiscoveryError, GateClosed
from featuregate.testing import StaticFeatures, release_view

# ---------------------------------------------------------------------- views of releases


def test_a_release_view_is_what_brokers_of_the_release_say() -> None:
    view = release_view("3.9", "4.2")
    assert [broker.node_id for broker in view.brokers] == [1, 2]
    assert view.api("TxnOffsetCommit") == (0, 4)
    assert view.mixed
    assert view.level("metadata.version") == 21


def test_a_release_view_has_the_levels_that_are_given() -> None:
    """Levels need an epoch, which old clusters do not have."""
    assert release_view("4.2", finalized={"group.version": 1}, epoch=7).level("group.version") == 1
    assert release_view("4.2", finalized={}).level("group.version") == 0
    assert release_view("2.4").level("group.version") is None


def test_a_release_view_can_have_silent_brokers() -> None:
    view = release_view("4.2", "4.2", "4.2", silent=[2])
    assert [broker.node_id for broker in view.missing] == [2]
    assert view.incomplete


# ---------------------------------------------------------------------- features


def test_gates_decide_as_in_production() -> None:
    features = StaticFeatures(release_view("4.2", "2.4"))
    gate = features.gate("eos-v2", fg.presets.kip447)
    assert not gate.open
    assert "broker 2" in str(gate.decision)
    features.show(release_view("4.2", "4.2"))
    assert gate.open
    features.show(release_view("2.4", "2.4"))
    assert gate.open
    assert gate.decision.held


def test_before_the_first_answer_there_is_no_view() -> None:
    features = StaticFeatures()
    assert features.view is None
    assert not features.gate("eos-v2", fg.presets.kip447).open
    assert features.health()["status"] == "starting"
    with pytest.raises(DiscoveryError):
        features.refresh()
    features.show(release_view("4.2"))
    assert features.gate("eos-v2", fg.presets.kip447).open
    assert features.health()["status"] == "ok"


@pytest.mark.parametrize("view", [None, release_view("2.4"), release_view("4.2")], ids=["none", "old", "new"])
def test_a_gate_can_be_forced(view: fg.View | None) -> None:
    """The test decides for existing and for new gates, and the decision gives the reason."""
    features = StaticFeatures(view)
    early = features.gate("early", fg.presets.kip447)
    features.force_open("early", "late")
    late = features.gate("late", fg.presets.kip447)
    assert (early.open, late.open) == (True, True)
    assert "the test: holds this gate open" in str(early.decision)
    features.force_closed("early")
    assert (early.open, late.open) == (False, True)
    with pytest.raises(GateClosed, match="holds this gate closed"):
        early.require()


def test_a_forced_gate_stays_as_it_is_when_views_come() -> None:
    features = StaticFeatures(release_view("4.2"))
    features.force_closed("forced")
    forced, free = (features.gate(name, fg.presets.kip447, policy="live") for name in ("forced", "free"))
    moved = []
    features.on_change(lambda _: moved.append((forced.open, free.open)))
    features.show(release_view("2.4", epoch=101, cluster_id="other"))
    features.show(release_view("4.2", epoch=102, cluster_id="other"))
    assert moved == [(False, False), (False, True)]


def test_waiting_returns_at_once() -> None:
    """A unit test never waits for a timeout."""
    features = StaticFeatures(release_view("2.4"))
    assert features.wait(timeout=3600)
    assert not features.gate("eos-v2", fg.presets.kip447).wait(timeout=3600)


def test_nothing_starts_and_nothing_is_left() -> None:
    """No method starts a thread, inside or outside a with block."""
    before = threading.active_count()
    with StaticFeatures(release_view("4.2")) as features:
        assert features.gate("eos-v2", fg.presets.kip447).open
        assert features.refresh() is features.view
        assert threading.active_count() == before
    with pytest.raises(ClosedError):
        features.refresh()


def test_a_burn_in_counts_the_time_that_a_test_lets_pass() -> None:
    """As with polls that all show the same view; a view that does not meet the requirement begins it anew."""
    features = StaticFeatures(release_view("4.2"))
    gate = features.gate("eos", "TxnOffsetCommit>=3", open_after=timedelta(days=7))
    features.advance(timedelta(days=6))
    assert (gate.open, features.health()["waits"]["eos"]["for"]) == (False, "burn-in")
    assert "counted 6 days, 0:00:00 of 7 days" in gate.decision.summary
    features.show(release_view("2.4"))
    features.show(release_view("4.2"))
    features.advance(timedelta(days=6))
    assert not gate.open
    features.advance(timedelta(days=1))
    assert gate.open
    assert features.health()["status"] == "ok"


def test_time_without_a_view_counts_for_nothing() -> None:
    """And it does not go back."""
    features = StaticFeatures()
    gate = features.gate("eos", "TxnOffsetCommit>=3", open_after=timedelta(seconds=1))
    features.advance(timedelta(days=1))
    features.show(release_view("4.2"))
    assert not gate.open
    with pytest.raises(ValueError, match="not back by 0:00:01"):
        features.advance(timedelta(seconds=-1))
