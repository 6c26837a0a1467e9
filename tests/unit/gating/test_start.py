"""Starting from latches: what counts before the first answer, and what a broker of another cluster takes back."""

from pathlib import Path

import pytest
from builders import broker, update, view

from featuregate.errors import LatchStoreError
from featuregate.gating.durable_latches import FROM_ANSWERS, LatchStart
from featuregate.gating.gates import Gate
from featuregate.gating.latch_store import FileLatchStore, LatchStore
from featuregate.gating.latches import Policy
from featuregate.gating.store import Store
from featuregate.requirements import Api, Requirement
from featuregate.testing import StaticFeatures

TXN = Api("TxnOffsetCommit") >= 3
SOURCE = LatchStart(source="b1:9092")


def started(latch_store: LatchStore | None, start: LatchStart = SOURCE) -> Store:
    return Store(latch_store=latch_store, wall=lambda: 7.0, start=start)


def add(store: Store, requirement: Requirement = TXN, *, name: str = "eos", policy: Policy = "sticky") -> Gate:
    return store.add_gate(name, lambda: Gate(name, requirement, policy=policy, owner=StaticFeatures()))


@pytest.fixture
def latch_store(tmp_path: Path) -> FileLatchStore:
    """Return a latch store in which an earlier process has latched "eos", in cluster "c" at epoch 10."""
    there = FileLatchStore(tmp_path)
    store = started(there)
    add(store)
    update(store, view(broker(txn=3)))
    return there


@pytest.mark.parametrize("start", [SOURCE, LatchStart(cluster_id="c")], ids=["as it was last", "named"])
def test_invariant_2_a_latched_gate_is_open_before_the_first_answer(
    latch_store: FileLatchStore, start: LatchStart
) -> None:
    """A restart during an outage takes nothing back, and both the decision and health say so."""
    store = started(latch_store, start)
    gate = add(store)
    assert gate.open
    assert gate.decision.cluster_id == "c"
    assert gate.decision.held == "held open: latched at epoch 10, and no broker has answered since the start"
    assert store.latch_state.gates
    assert store.troubles() == ["no broker has answered since the start: eos open by the latches of cluster c"]
    update(store, view(broker(txn=3)))
    assert (gate.open, gate.decision.held, store.troubles()) == (True, None, [])


def test_a_start_from_latches_proves_nothing_new(latch_store: FileLatchStore) -> None:
    """Live gates, gates without a latch, and the same name with another requirement stay closed."""
    store = started(latch_store)
    assert add(store).open
    assert not add(store, name="live", policy="live").open
    assert not add(store, name="new").open
    assert not add(started(latch_store), Api("TxnOffsetCommit") >= 4).open
    assert store.evaluate(TXN).verdict == "unknown"


def test_without_a_known_cluster_gates_wait_for_an_answer(latch_store: FileLatchStore) -> None:
    """By default, for a source that was never seen, and without a latch store."""
    stores = [started(latch_store, FROM_ANSWERS), started(latch_store, LatchStart(source="b2:9092")), started(None)]
    for store in stores:
        assert not add(store).open
        assert store.latches.error is None


def test_another_cluster_takes_the_start_back(latch_store: FileLatchStore, caplog: pytest.LogCaptureFixture) -> None:
    """The bootstrap list leads elsewhere since: the gates close, loudly, and the next start knows the new cluster."""
    store = started(latch_store)
    gate = add(store)
    update(store, view(broker(txn=2), cluster_id="other"))
    assert not gate.open
    said = "cluster other answers, and not cluster c, from whose latches these gates had started open: eos; they start"
    assert said in caplog.text
    assert said in store.troubles()[0]
    assert not add(started(latch_store)).open


def test_a_broker_of_another_cluster_that_is_refused_takes_the_start_back(latch_store: FileLatchStore) -> None:
    """The app names the cluster, so there is no view of the other one; the right one opens the gate again."""
    store = started(latch_store, LatchStart(cluster_id="c"))
    gate, live = add(store), add(store, name="live", policy="live")
    store.answered_by("c")
    assert gate.open
    for _ in range(2):
        store.answered_by("other")
    assert (gate.open, live.open) == (False, False)
    assert len(store.troubles()) == 1
    update(store, view(broker(txn=2)))
    assert gate.open
    store.answered_by("other")
    assert gate.open


def test_no_gate_was_open_so_nothing_is_taken_back(latch_store: FileLatchStore) -> None:
    """The levels of the other cluster are all that the start had."""
    store = started(latch_store)
    add(store, name="new")
    update(store, view(broker(txn=2), cluster_id="other"))
    assert store.troubles() == []


class NoSources(FileLatchStore):
    def last_cluster(self, source: str) -> str | None:
        raise LatchStoreError("/latches", f"nothing is known of {source}")

    def note_cluster(self, source: str, cluster_id: str) -> None:
        raise OSError(f"no place for {source} and {cluster_id}")


def test_a_latch_store_that_fails_at_the_start_opens_nothing(
    latch_store: FileLatchStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The first answer reads the latches all the same."""
    store = started(NoSources(latch_store.folder))
    gate = add(store)
    assert not gate.open
    assert "no gate starts from its latch: /latches: nothing is known of b1:9092" in caplog.text
    update(store, view(broker(txn=2)))
    assert gate.open


def test_a_source_that_cannot_be_kept_costs_no_latch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The gate opens and is durable; only the next start in an outage would not find it, and health says so."""
    store = started(NoSources(tmp_path))
    gate = add(store)
    update(store, view(broker(txn=3)))
    assert gate.open
    assert "the next start will not find its latches: the latch store failed: OSError" in caplog.text
    assert store.latches.error is not None
