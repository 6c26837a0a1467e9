"""Does my app survive any upgrade? Generate random scripts until one fails.

``python -m pytest examples/upgrades`` runs it.
"""

from __future__ import annotations

import pytest

import featuregate as fg
from featuregate.testing import StaticFeatures
from featuregate.testing.simulator import (
    Cluster,
    ClusterEvent,
    KRaft,
    Script,
    ScriptFailed,
    explore,
    probe,
    run,
    view_of,
)

TXN_OFFSET_COMMIT, WANTED = 28, 5


class HastyWorker:
    """An app that asks one broker, as most clients do, and switches when that one has the new API."""

    def __init__(self) -> None:
        self.new = False

    def poll(self, cluster: Cluster) -> None:
        """Ask the first broker that answers."""
        answers = (probe(cluster, node_id) for node_id in cluster.listed_brokers)
        first = next((answer for answer in answers if answer.answered), None)
        serves = first.serves(TXN_OFFSET_COMMIT) if first is not None else None
        self.new = self.new or (serves is not None and serves.max >= WANTED)


class GatedWorker:
    """The same app with a gate."""

    def __init__(self) -> None:
        self.features = StaticFeatures()
        self.gate = self.features.gate("newer", fg.Api(TXN_OFFSET_COMMIT) >= WANTED)

    @property
    def new(self) -> bool:
        """Whether it has switched."""
        return self.gate.open

    def poll(self, cluster: Cluster) -> None:
        """Poll every broker."""
        self.features.show(view_of(cluster, previous=self.features.view))


def check_worker(script: Script, worker: HastyWorker | GatedWorker) -> None:
    """Fail if the worker switches while a registered broker cannot serve it."""
    for step in run(script):
        if not isinstance(step.event, ClusterEvent):
            continue
        before = worker.new
        worker.poll(step.cluster)
        if worker.new and not before:
            for node_id in step.cluster.listed_brokers:
                able = step.cluster.node_state(node_id).api_ranges[TXN_OFFSET_COMMIT][1] >= WANTED
                assert able, f"switched while broker {node_id} cannot"


def hasty_worker_waits(script: Script) -> None:
    """Check the hasty worker."""
    check_worker(script, HastyWorker())


def gated_worker_waits(script: Script) -> None:
    """Check the gated worker."""
    check_worker(script, GatedWorker())


def test_the_hasty_worker_fails_and_the_script_is_printed() -> None:
    """The script passes without any one of its events: a broker is paused, one is rolled, and one is stopped."""
    with pytest.raises(ScriptFailed, match=r"Roll\(\d, '4\.\d'\)") as failed:
        explore(KRaft("3.9"), seed=1, check=hasty_worker_waits)
    print(failed.value)
    with pytest.raises(AssertionError, match="switched while broker"):
        hasty_worker_waits(failed.value.script)


def test_the_gated_worker_survives_all_scripts() -> None:
    """The scripts make any change and any fault of a cluster."""
    explore(KRaft("3.9"), seed=1, scripts=20, check=gated_worker_waits)
