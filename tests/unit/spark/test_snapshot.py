"""A snapshot: the decisions of gates at one moment, as a value that travels."""

import json
import pickle
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate import Decision, GateClosed, Pin
from featuregate.errors import NotPicklable, UnknownApi
from featuregate.gating.decisions import Reason
from featuregate.testing import StaticFeatures, release_view
from featuregate.view.answers import ApiRange, FrozenMap
from featuregate_spark import PinCorrupt, Snapshot
from featuregate_spark.snapshot import REASONS

TV2 = "transaction.version>=2"
NEW = release_view("4.2")


def taken(features: StaticFeatures, **gates: str) -> Snapshot:
    made = {name: features.gate(name, requirement) for name, requirement in gates.items()}
    return Snapshot.of(features.view, {name: gate.decision for name, gate in made.items()})


texts = st.text(max_size=12)
verdicts = st.sampled_from(["open", "closed", "unknown"])
decisions = st.builds(
    Decision,
    verdict=verdicts,
    requirement=texts,
    reasons=st.lists(
        st.builds(Reason, texts, st.none() | st.integers(0, 2**31 - 1), st.none() | texts, verdicts, texts), max_size=3
    ).map(tuple),
    cluster_id=st.none() | texts,
    epoch=st.integers(-1, 2**40),
    policy=st.sampled_from(["sticky", "live"]),
    held=st.none() | texts,
)
snapshots = st.builds(
    lambda named, **rest: Snapshot(gates=FrozenMap({n: Pin(gate=n, decision=d) for n, d in named.items()}), **rest),
    st.dictionaries(texts, decisions, max_size=3),
    cluster_id=st.none() | texts,
    epoch=st.integers(-1, 2**40),
    finalized=st.dictionaries(texts, st.integers(0, 99), max_size=3).map(FrozenMap),
    api_ranges=st.dictionaries(st.integers(0, 99), st.builds(ApiRange, st.integers(0, 9), st.integers(0, 99))).map(
        FrozenMap
    ),
    incomplete=st.booleans(),
    seen_at=st.floats(0, 1e12),
)


@given(snapshots)
def test_a_snapshot_survives_json_and_pickle(snapshot: Snapshot) -> None:
    """Snapshots travel in files and in closures."""
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot
    assert "\n" not in snapshot.to_json()


@given(snapshots, st.data())
def test_a_truncated_snapshot_is_corrupt(snapshot: Snapshot, data: st.DataObject) -> None:
    whole = snapshot.to_json()
    with pytest.raises(PinCorrupt):
        Snapshot.from_json(whole[: data.draw(st.integers(0, len(whole) - 1))])


GATE = {"gate": "g", "verdict": "open", "requirement": "Fetch>=1"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema_version", 2),
        ("epoch", "many"),
        ("finalized", []),
        ("api_ranges", {"1": [1]}),
        ("gates", [{"gate": "g"}]),
        ("gates", [{"gate": "g", "verdict": "perhaps"}]),
        ("gates", [{**GATE, "reasons": [["a condition without the rest"]]}]),
        ("gates", None),
    ],
)
def test_a_snapshot_of_another_shape_is_corrupt(key: str, value: object) -> None:
    document = {**json.loads(Snapshot().to_json()), key: value}
    with pytest.raises(PinCorrupt, match="upgrade featuregate" if key == "schema_version" else "is not a snapshot"):
        Snapshot.from_json(json.dumps(document))


def test_a_level_is_unknown_before_the_first_answer() -> None:
    assert Snapshot().level("transaction.version") is None
    seen = Snapshot.of(NEW, {})
    assert (seen.level("transaction.version"), seen.level("no.such")) == (2, 0)
    assert seen.cluster_id == NEW.cluster_id


def test_an_api_has_a_name_and_a_key() -> None:
    """A snapshot takes either, as a view does."""
    seen = Snapshot.of(NEW, {})
    assert seen.api("Fetch") == seen.api(1) == NEW.api_ranges[1]
    assert seen.api("Fetch") is not None
    assert Snapshot().api("Fetch") is None
    with pytest.raises(UnknownApi):
        seen.api("Fetsch")


def test_an_unknown_gate_is_named_with_the_known_ones() -> None:
    """The driver raises the error for a misspelled name, where it builds the plan."""
    snapshot = taken(StaticFeatures(NEW), tv2=TV2, zstd="Produce>=7")
    with pytest.raises(KeyError, match="there is no gate 'tv'; this snapshot has: tv2, zstd"):
        _ = snapshot["tv"]
    with pytest.raises(KeyError, match="there is no gate 'tv'"):
        snapshot.guard("tv")


def test_a_snapshot_shows_open_and_held_gates() -> None:
    features = StaticFeatures(NEW)
    gate = features.gate("tv2", TV2)
    features.show(release_view("4.2", finalized={"transaction.version": 1}, epoch=NEW.epoch + 1))
    snapshot = Snapshot.of(features.view, {"tv2": gate.decision, "new": features.gate("new", "Fetch>=99").decision})
    assert snapshot.opened == {"tv2": True, "new": False}
    assert snapshot.held == ("tv2",)
    head, *rest = str(snapshot).splitlines()
    assert head == f"cluster {features.view.cluster_id}, epoch {NEW.epoch + 1}, all brokers answered"
    assert [line.split(":")[0] for line in rest if not line.startswith(" ")] == ["new closed", "tv2 held open"]
    assert unescape(snapshot._repr_html_()) == f"<pre>{snapshot}</pre>"


def test_the_most_important_reasons_travel() -> None:
    """A hundred brokers give a hundred reasons, and a closure must stay small."""
    old = release_view(*["2.4"] * 20)
    snapshot = taken(StaticFeatures(old), tv2=TV2, all="TxnOffsetCommit>=4")
    assert len(snapshot["all"].decision.reasons) == REASONS
    assert len(pickle.dumps(snapshot)) < 8_000


def double(number: int) -> int:
    return 2 * number


def same(number: int) -> int:
    return number


def test_the_guard_chooses_when_it_decorates() -> None:
    """The closure contains the chosen function, so that the guard costs nothing for each row."""
    snapshot = taken(StaticFeatures(NEW), tv2=TV2, no="Fetch>=99")
    assert snapshot.guard("tv2", fallback=same)(double) is double
    assert snapshot.guard("no", fallback=same)(double) is same


def test_a_guard_without_a_fallback_raises_where_the_plan_is_built() -> None:
    """No task has to fail for it an hour later."""
    snapshot = taken(StaticFeatures(NEW), no="Fetch>=99")
    with pytest.raises(GateClosed, match="no"):
        snapshot.guard("no")(double)


def test_a_snapshot_does_not_change_with_the_cluster() -> None:
    """A live gate changes with the cluster, and cannot be pickled."""
    features = StaticFeatures(NEW)
    gate = features.gate("tv2", TV2, policy="live")
    snapshot = Snapshot.of(features.view, {"tv2": gate.decision})
    features.show(release_view("4.2", finalized={"transaction.version": 1}, epoch=NEW.epoch + 1))
    assert (gate.open, snapshot["tv2"].open) == (False, True)
    with pytest.raises(NotPicklable):
        pickle.dumps(gate)
