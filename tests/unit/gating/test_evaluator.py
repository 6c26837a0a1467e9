"""An app that emulates an older release: its gates see less, and what has latched stays open."""

from pathlib import Path

import pytest

import featuregate as fg
from featuregate.errors import ConfigError
from featuregate.gating.decisions import EMULATION
from featuregate.gating.gates import Gate
from featuregate.gating.store import Store
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate.view.emulation import release_to_emulate

BOUND = 30.0
HOUR = 3600.0
GROUPS = "group.version>=1"


def test_a_gate_stays_closed_that_the_emulated_release_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision says that the emulation is the reason, and the view shows both."""
    monkeypatch.setenv("FEATUREGATE_EMULATE", "3.9")
    features = StaticFeatures(release_view("4.2"))
    gate, live = features.gate("groups", GROUPS), features.gate("live", GROUPS, policy="live")
    assert (gate.open, live.open, features.evaluate(GROUPS).open) == (False, False, False)
    said = "closed: emulation: the app emulates release 3.9, which lacks what the cluster has for the requirement"
    assert gate.decision.summary.startswith(said)
    assert features.health()["waits"]["groups"]["for"] == EMULATION
    assert features.health()["emulates"] == "3.9"
    assert features.view is not None
    assert features.emulated is not None
    assert (features.view.level("group.version"), features.emulated.level("group.version")) == (1, 0)
    assert features.latched["group.version"] == 1


def test_what_the_release_has_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a gate that is closed without emulation says nothing of it first."""
    monkeypatch.setenv("FEATUREGATE_EMULATE", "4.0")
    features = StaticFeatures(release_view("4.2"))
    gate = features.gate("groups", GROUPS)
    assert gate.open
    assert "emulates release 4.0: what is newer in the cluster does not count" in str(gate.decision)
    closed = features.gate("more", "group.version>=2")
    assert closed.decision.waits is None


def test_without_emulation_there_is_one_view() -> None:
    """As for most apps."""
    features = StaticFeatures(release_view("4.2"))
    assert features.emulated is None
    assert features.health()["emulates"] is None
    assert EMULATION not in str(features.gate("groups", GROUPS).decision)


def test_invariant_2_emulation_closes_nothing_that_has_latched(tmp_path: Path) -> None:
    """It comes too late then, and the decision shows it; another gate stays closed."""
    with FakeCluster(1, release="4.2") as cluster:
        with fg.Discoverer(cluster.bootstrap, interval=HOUR, latch_store=tmp_path) as features:
            assert features.gate("groups", GROUPS).wait(BOUND)
        with fg.Discoverer(cluster.bootstrap, interval=HOUR, latch_store=tmp_path, emulate="3.9") as features:
            gate, other = features.gate("groups", GROUPS), features.gate("new", GROUPS)
            features.refresh(BOUND)
    assert (gate.open, other.open) == (True, False)
    assert gate.decision.held is not None
    assert "emulates release 3.9" in str(gate.decision)
    assert gate.decision.waits is None


def test_emulation_does_not_stop_the_burn_in() -> None:
    """The burn-in is about the cluster: a canary that emulates must not begin it again for the others."""
    now = [0.0]
    store = Store(wall=lambda: 7.0, clock=lambda: now[0], longest_gap=30.0, emulates=release_to_emulate("3.9"))
    gate = store.add_gate(
        "eos", lambda: Gate("eos", fg.parse(GROUPS), policy="sticky", owner=StaticFeatures(), open_after=20.0)
    )
    for now[0] in (0.0, 20.0, 40.0):
        store.update(release_view("4.2"))
    assert [counted.seconds for counted in store.latch_state.burn_ins.values()] == [40.0]
    assert not gate.open
    assert gate.decision.waits is not None
    assert gate.decision.waits.condition == EMULATION


def test_a_release_that_is_not_known_is_refused() -> None:
    """When the discoverer is made."""
    with pytest.raises(ConfigError, match=r"emulate: no release '5\.9' is known"):
        fg.Discoverer("localhost:9092", emulate="5.9")
