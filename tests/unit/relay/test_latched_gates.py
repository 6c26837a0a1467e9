"""What a relay has latched, its clients latch too: a set that only grows, whichever replica they meet first."""

from itertools import permutations
from types import SimpleNamespace

import pytest
import responses
from relay_on_socket import serving

import featuregate as fg
from featuregate.errors import RelayError, ViewJsonError
from featuregate.gating.latches import LatchKey
from featuregate.sources.relay_responses import latched_from_json, with_latched
from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.clusters import PolledCluster, ServedCluster
from featuregate_relay.flags.cluster_flags import Flags
from featuregate_relay.states import CurrentState

BOUND = 60.0
HOUR = 3600.0
GROUPS = "group.version>=1"
OPEN = release_view("4.2", finalized={"metadata.version": 25, "group.version": 1}, epoch=5)
DOWNGRADED = release_view("4.2", finalized={"metadata.version": 25}, epoch=6)
KEYS = (LatchKey("groups", GROUPS), LatchKey("new \u201cgate\u201d", "Produce>=9"))


def test_a_client_that_starts_late_has_what_the_relay_has_latched() -> None:
    """As if it had been there before the operator went back; a gate with another requirement has its own latch."""
    relay = StaticFeatures(OPEN)
    latched = relay.gate("groups", GROUPS)
    live = relay.gate("live", GROUPS, policy="live")
    relay.show(DOWNGRADED)
    with (
        serving({"default": relay}, latched, live) as url,
        fg.Discoverer(source=fg.HttpSource(url), interval=HOUR) as features,
    ):
        gates = [features.gate("groups", GROUPS), features.gate("live", GROUPS), features.gate("groups-2", GROUPS)]
        other = features.gate("groups-3", "group.version>=2")
        features.refresh(BOUND)
        assert [gate.open for gate in [*gates, other]] == [True, False, False, False]
        assert "held open" in gates[0].decision.summary
        features.refresh(BOUND)  # 304, or the same again
        assert gates[0].open


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_invariant_10_any_order_of_replicas_gives_the_same(order: tuple[int, ...]) -> None:
    """Each has latched another gate, or none; a gate that is made after the polls has its latch, too."""
    views = [{KEYS[0]}, {KEYS[1]}, set()]
    with responses.RequestsMock() as network:
        for turn, which in enumerate(order):
            network.get(
                "http://relay/v1/clusters/default/view",
                body=with_latched(DOWNGRADED.to_json(), views[which]),
                headers={"ETag": f'"{turn}"', "Featuregate-Age": "0"},
            )
        with fg.Discoverer(source=fg.HttpSource("http://relay"), interval=HOUR) as features:
            early = features.gate(*KEYS[0])
            for _ in order:
                features.refresh(BOUND)
            assert early.open
            assert features.gate(*KEYS[1]).open


def test_a_latch_of_a_relay_is_that_of_its_cluster() -> None:
    """The next cluster under the same URL starts afresh."""
    relay = StaticFeatures(OPEN)
    gate = relay.gate("groups", GROUPS)
    with serving({"default": relay}, gate) as url, fg.Discoverer(source=fg.HttpSource(url), interval=HOUR) as features:
        mine = features.gate("groups", GROUPS)
        features.refresh(BOUND)
        assert mine.open
        relay.show(release_view("4.2", finalized={"metadata.version": 25}, cluster_id="another"))
        features.refresh(BOUND)
        assert not mine.open


def test_latched_gates_are_kept_over_a_restart(tmp_path) -> None:
    with responses.RequestsMock() as network:
        network.get(
            "http://relay/v1/clusters/default/view",
            body=with_latched(DOWNGRADED.to_json(), KEYS[:1]),
            headers={"Featuregate-Age": "0"},
        )
        with fg.Discoverer(source=fg.HttpSource("http://relay"), interval=HOUR, latch_store=tmp_path) as features:
            features.refresh(BOUND)
    assert fg.FileLatchStore(tmp_path).load(DOWNGRADED.cluster_id).gates.keys() == set(KEYS[:1])


def test_invariant_10_a_client_that_starts_again_meets_a_relay_of_before(tmp_path) -> None:
    """It has no floor then, and its latch store keeps what it has latched; the relay has latched nothing."""
    behind = release_view("4.2", finalized={"metadata.version": 25, "group.version": 0}, epoch=3)
    for view, opened in ((behind, False), (OPEN, True), (behind, True)):
        with (
            serving({"default": StaticFeatures(view)}) as url,
            fg.Discoverer(source=fg.HttpSource(url), interval=HOUR, latch_store=tmp_path) as features,
        ):
            gate = features.gate("groups", GROUPS)
            assert features.refresh(BOUND).epoch == view.epoch
            assert gate.open is opened


def test_invariant_1_a_gate_that_opens_for_another_cluster_is_not_latched_in_the_view_before() -> None:
    """A request that came before looks at the view and at the gates one after the other, and a poll ends meanwhile."""
    before = release_view("4.2", finalized={"metadata.version": 25}, cluster_id="blue")
    relay = StaticFeatures(before)
    gate = relay.gate("groups", GROUPS)
    cluster = ServedCluster("default", PolledCluster(relay, (gate,)))
    relay.show(OPEN)
    assert gate.open
    assert (cluster.latched("blue"), cluster.latched(OPEN.cluster_id)) == ((), (gate.key,))
    flags = Flags(cluster, before, (gate.decision,), stale=False, before=None)
    assert flags.all is not None
    assert flags.all.tag.latched == frozenset()
    state = CurrentState(SimpleNamespace(view=before, health=lambda: {"status": "ok"}), (gate,))()
    assert state is not None
    assert state.gates == {"groups": False}


def test_they_are_read_as_they_were_written() -> None:
    """A view stays a view for readers that do not know them."""
    text = with_latched(OPEN.to_json(), KEYS)
    assert latched_from_json(text) == frozenset(KEYS)
    assert fg.View.from_json(text) == OPEN
    assert with_latched(OPEN.to_json(), ()) == OPEN.to_json()
    assert latched_from_json(OPEN.to_json()) == frozenset()
    assert latched_from_json('{"finalized": {"latched": 1}}') == frozenset()  # a feature of this name
    older = with_latched(OPEN.to_json(), [LatchKey("groups", "api:68>=0")])  # a relay whose catalog lacks the name
    assert latched_from_json(older) == {LatchKey("groups", "ConsumerGroupHeartbeat>=0")}


@pytest.mark.parametrize(
    ("latched", "where"),
    [
        ("1", "view.latched: expected an array"),
        ("[1]", r"view.latched\[0\]: expected an object"),
        ('[{"gate": "a"}]', r"view.latched\[0\].requirement: this is missing"),
        ('[{"gate": 1, "requirement": "b"}]', r"view.latched\[0\].gate: expected a string"),
        (f"[{','.join(['{}'] * 1001)}]", "has 1001 gates"),
    ],
)
def test_other_values_are_refused(latched: str, where: str) -> None:
    """And the poll fails, as for any body that is no view."""
    text = f'{OPEN.to_json()[:-1]}, "latched": {latched}}}'
    with pytest.raises(ViewJsonError, match=where):
        latched_from_json(text)
    with responses.RequestsMock() as network:
        network.get("http://relay/v1/clusters/default/view", body=text, headers={"Featuregate-Age": "0"})
        with (
            fg.Discoverer(source=fg.HttpSource("http://relay"), interval=HOUR) as features,
            pytest.raises(RelayError, match="not a view"),
        ):
            features.refresh(BOUND)
