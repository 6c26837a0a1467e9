"""The pin of a micro-batch: how it is decided, and what stays latched over the batches of a query."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate import Discoverer, Gate, View
from featuregate.errors import ClosedError, ConfigError
from featuregate.gating.latch_store import FileLatchStore
from featuregate.gating.latches import LatchedGate, LatchKey, LatchState, Policy
from featuregate.testing import FakeCluster, StaticFeatures, release_view
from featuregate_spark import PinCorrupt, Snapshot
from featuregate_spark.pins.pin import BatchPin, next_pin
from featuregate_spark.watch import Watch

BOUND = 30.0
TV2 = "transaction.version>=2"
HIGH = release_view("4.2")
LOW = release_view("4.2", finalized={"transaction.version": 1}, epoch=HIGH.epoch + 1)
OTHER = release_view("4.2", finalized={"transaction.version": 1}, cluster_id="another")


def seen(view: View | None, policy: Policy = "sticky", requirement: str = TV2) -> list[Gate]:
    """Return the gate of a process that has just started with this view."""
    return [StaticFeatures(view).gate("tv2", requirement, policy=policy)]


def after(*views: View | None, policy: Policy = "sticky") -> BatchPin:
    """Return the newest pin of a query that saw one of these views in each batch, with a restart before each."""
    pin = None
    for batch_id, view in enumerate(views):
        written = next_pin(pin, batch_id, view, seen(view, policy), at=100.0 + batch_id)
        pin = BatchPin.from_json(written.to_json())
        assert pin == written
    assert pin is not None
    return pin


def watching(bootstrap: str, **more: Any) -> Watch:
    return Watch(config=bootstrap, interval=60.0, wait=BOUND, **more)


def test_the_app_may_change_its_properties_for_another_cluster() -> None:
    """A sink that is made afterwards writes to the cluster whose gates it has."""
    own = {"bootstrap.servers": "a:1"}
    watch = Watch(config=own, interval=60.0, wait=0.0)
    own["bootstrap.servers"] = "b:1"
    assert watch.config == {"bootstrap.servers": "a:1"}


def test_the_first_pin_has_the_decisions_of_now() -> None:
    """The pin carries the latch to the next process."""
    pin = after(HIGH)
    assert (pin.batch_id, pin.snapshot.opened, pin.snapshot.held) == (0, {"tv2": True}, ())
    kept = pin.latch_states[HIGH.cluster_id or ""]
    assert kept.gates[LatchKey("tv2", TV2)].opened_at == 100.0
    assert kept.levels["transaction.version"] == 2


def test_a_sticky_gate_stays_open_when_the_level_falls() -> None:
    """Each pin carries the latches of earlier pins, and the decision says that a latch holds the gate."""
    pin = after(HIGH, LOW, LOW)
    assert pin.snapshot.opened == {"tv2": True}
    assert pin.snapshot.held == ("tv2",)
    assert "transaction.version was 2" in str(pin.snapshot["tv2"].decision.held)
    assert pin.latch_states[HIGH.cluster_id or ""].gates[LatchKey("tv2", TV2)].opened_at == 100.0


def test_a_live_gate_follows_the_view() -> None:
    """A live gate is pinned for its batch, and makes no latch."""
    pin = after(HIGH, LOW, policy="live")
    assert (pin.snapshot.opened, pin.snapshot.held) == ({"tv2": False}, ())
    assert pin.latch_states[HIGH.cluster_id or ""].gates == {}


def test_a_live_gate_of_a_stale_view_stays_closed() -> None:
    """The process knows the age of its view, and the view does not."""
    features = StaticFeatures(HIGH)
    gate = features.gate("tv2", TV2, policy="live")
    features.force_closed("tv2")
    assert next_pin(None, 0, HIGH, [gate], at=1.0).snapshot.opened == {"tv2": False}


def test_another_cluster_begins_afresh_and_the_first_is_not_forgotten() -> None:
    """The bootstrap servers of a query were changed to another cluster, and back."""
    assert after(HIGH, OTHER).snapshot.opened == {"tv2": False}
    back = after(HIGH, OTHER, LOW)
    assert back.snapshot.opened == {"tv2": True}
    assert {*back.latch_states} == {HIGH.cluster_id, "another"}


def test_a_cluster_without_an_id_is_refused() -> None:
    """A latch would hold for any cluster; the error names the parameter to pass."""
    with pytest.raises(ConfigError, match=r"^cluster_id: is missing: .* FeatureSession\(\.\.\., cluster_id=\.\.\.\)"):
        after(release_view("4.2", cluster_id=None))


def test_listed_brokers_keep_their_latch_by_the_name_of_the_cluster() -> None:
    """The latch holds over a restart and a downgrade, as with a cluster id."""
    pin = None
    with FakeCluster() as kafka:
        for batch_id, level in enumerate((2, 1)):
            kafka.finalize({"transaction.version": level})
            watch = watching(kafka.bootstrap, broker_list="bootstrap", cluster_id="orders")
            gate = watch.gate("tv2", TV2, "sticky")
            pin = next_pin(pin, batch_id, watch.observe()[0], [gate], at=1.0)
            watch.close()
            pin = BatchPin.from_json(pin.to_json())
            assert (pin.snapshot.cluster_id, pin.snapshot.opened) == ("orders", {"tv2": True})
    assert pin is not None
    assert pin.snapshot.held == ("tv2",)


def test_pins_of_listed_brokers_need_the_name_of_the_cluster() -> None:
    """The error is raised before a query starts."""
    with pytest.raises(
        ConfigError, match=r"^cluster_id: is missing: brokers of the bootstrap list report no cluster id"
    ):
        watching("127.0.0.1:1", broker_list="bootstrap").require_cluster_id()
    watching("127.0.0.1:1", broker_list="bootstrap", cluster_id="orders").require_cluster_id()
    watching("127.0.0.1:1").require_cluster_id()


@pytest.fixture
def day_old() -> Iterator[Discoverer]:
    now = [0.0]
    with FakeCluster(finalized={"transaction.version": 2}) as kafka:
        features = Discoverer(kafka.bootstrap, interval=3600, stale_after=10, clock=lambda: now[0])
        assert features.wait(BOUND)  # refresh() asks for a second poll, which might end on the next day
    now[0] = 86_400.0
    yield features
    features.close()


@pytest.mark.parametrize("policy", ["sticky", "live"])
def test_an_old_view_opens_no_new_gate(day_old: Discoverer, policy: Policy) -> None:
    """The app makes a gate when no broker has answered for a day, so that the view is too old to open it."""
    view = day_old.view
    assert view is not None
    pin = next_pin(None, 0, view, [day_old.gate("tv2", TV2, policy=policy)], at=1.0)
    assert pin.snapshot.opened == {"tv2": False}
    assert "no broker has answered for 86400 s" in str(pin.snapshot["tv2"].decision)
    assert pin.latch_states[str(view.cluster_id)].gates == {}


def test_an_old_view_holds_a_latch_of_the_query_open(day_old: Discoverer) -> None:
    """The gate is new in the process, and the query has latched it."""
    view = day_old.view
    before = next_pin(None, 0, view, seen(view), at=1.0)
    pin = next_pin(before, 1, view, [day_old.gate("tv2", TV2)], at=1.0)
    assert pin.snapshot.opened == {"tv2": True}
    assert pin.snapshot.held == ("tv2",)
    assert "no broker has answered for 86400 s" in str(pin.snapshot["tv2"].decision)


def test_a_batch_of_a_closed_session_is_refused() -> None:
    """A closed session does not poll, and its last view may be old."""
    with FakeCluster() as kafka:
        watch = watching(kafka.bootstrap)
        watch.observe()
        watch.close()
        with pytest.raises(ClosedError, match="make a new FeatureSession"):
            watch.observe()


def test_a_latch_belongs_to_the_requirement_too() -> None:
    """A new version of the app has another requirement, so that the latch does not count."""
    more = next_pin(after(HIGH), 1, HIGH, seen(HIGH, requirement="transaction.version>=3"), at=1.0)
    assert more.snapshot.opened == {"tv2": False}


def test_before_a_broker_has_answered_gates_stay_as_they_were() -> None:
    """Only a sticky gate with the same requirement keeps its decision."""
    before = after(HIGH)
    assert next_pin(before, 1, None, seen(None), at=1.0).snapshot["tv2"] == before.snapshot["tv2"]
    assert after(HIGH, None, None).snapshot.opened == {"tv2": True}
    assert after(HIGH, None).latch_states == before.latch_states
    assert next_pin(before, 1, None, seen(None, policy="live"), at=1.0).snapshot.opened == {"tv2": False}
    assert next_pin(before, 1, None, seen(None, requirement="Fetch>=1"), at=1.0).snapshot.opened == {"tv2": False}
    assert after(None).snapshot == Snapshot(gates=after(None).snapshot.gates)
    assert after(None).snapshot.opened == {"tv2": False}


def test_a_start_from_latches_counts_before_a_broker_has_answered(tmp_path: Path) -> None:
    """The first batch of a restarted job, while all brokers are down."""
    latched = LatchedGate(gate="tv2", requirement=TV2, opened_at=0.0, epoch=1)
    FileLatchStore(tmp_path).save(LatchState(cluster_id="c", gates={latched.key: latched}))
    with Discoverer("localhost:1", cluster_id="c", latch_store=tmp_path) as features:
        pin = next_pin(None, 0, None, [features.gate("tv2", TV2)], at=1.0)
    assert pin.snapshot.held == ("tv2",)


def test_a_gate_that_the_app_dropped_is_in_no_later_pin() -> None:
    """The latch stays, because the app may make the gate again."""
    without = next_pin(after(HIGH), 1, LOW, [], at=1.0)
    assert without.snapshot.opened == {}
    assert next_pin(without, 2, LOW, seen(LOW), at=1.0).snapshot.opened == {"tv2": True}


class Sight(NamedTuple):
    """What the driver of a batch may find."""

    view: View | None
    forgets: bool
    """Whether the process was restarted before the batch."""
    late: bool
    """Whether the process is new, and made its gate when the view proved nothing any more."""


LEVELS = [
    release_view("4.2", finalized={"transaction.version": level}, epoch=50 + epoch, cluster_id=cluster)
    for cluster in ("one", "two")
    for epoch, level in enumerate((0, 1, 2, 3))
]


@given(st.lists(st.builds(Sight, st.sampled_from([None, *LEVELS]), st.booleans(), st.booleans()), max_size=12))
def test_no_batch_of_a_cluster_is_below_an_earlier_one_or_above_what_was_proved(sights: list[Sight]) -> None:
    """This holds for any sequence of levels, outages, restarts, clusters and stale views (P5)."""
    pin, opened = None, set()
    features = StaticFeatures()
    for batch_id, sight in zip(count(), sights, strict=False):
        if sight.forgets or sight.late:
            features = StaticFeatures()
        if sight.late:
            if sight.view is not None:
                features.show(sight.view)
            features.close()
        gate = features.gate("tv2", TV2)
        if sight.view is not None and not sight.late:
            features.show(sight.view)
        pin = next_pin(pin, batch_id, features.view, [gate], at=float(batch_id))
        cluster, is_open = pin.snapshot.cluster_id, pin.snapshot["tv2"].open
        assert is_open or cluster not in opened
        if is_open and cluster not in opened:
            assert sight.view is not None
            assert not sight.late
            assert sight.view.finalized["transaction.version"] >= 2
            opened.add(cluster)
        pin = BatchPin.from_json(pin.to_json())
        if sight.late:
            features = StaticFeatures()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "[" * 10_000, '{"schema_version": 2}', '{"schema_version": 1}']
)
def test_a_pin_that_does_not_parse_is_corrupt(text: str) -> None:
    with pytest.raises(PinCorrupt):
        BatchPin.from_json(text)


@given(st.data())
def test_half_a_pin_is_corrupt(data: st.DataObject) -> None:
    whole = after(HIGH).to_json()
    with pytest.raises(PinCorrupt):
        BatchPin.from_json(whole[: data.draw(st.integers(0, len(whole) - 2))])


def test_a_latch_without_a_cluster_is_corrupt() -> None:
    """Such a latch would hold for any cluster."""
    document = json.loads(after(HIGH).to_json())
    document["latch_states"][0]["cluster_id"] = None
    with pytest.raises(PinCorrupt, match=r"^pin\.latch_states\[0\]\.cluster_id: expected a string, not None$"):
        BatchPin.from_json(json.dumps(document))


def test_a_corrupt_pin_says_where() -> None:
    with pytest.raises(PinCorrupt, match=r"^pin\.batch_id: this is missing$"):
        BatchPin.from_json('{"schema_version": 1}')


def test_an_opening_keeps_its_time_when_the_clock_is_set_back() -> None:
    """A gate that is latched does not open again."""
    pin = next_pin(after(HIGH), 1, HIGH, seen(HIGH), at=50.0)
    assert pin.latch_states[HIGH.cluster_id or ""].gates[LatchKey("tv2", TV2)].opened_at == 100.0


def test_a_pin_explains_its_purpose() -> None:
    """The file has a text for an operator who finds it."""
    text = next_pin(None, 0, HIGH, [StaticFeatures(HIGH).gate("größe", TV2)], at=1.0).to_json()
    assert text.startswith('{\n "about": "The decisions of featuregate for one micro-batch, ')
    assert text.endswith("\n}\n")
    assert '"größe"' in text
    document = json.loads(text)
    assert document["about"].endswith("delete this file only with the whole checkpoint.")
    assert document["snapshot"]["gates"][0]["open"] is True
