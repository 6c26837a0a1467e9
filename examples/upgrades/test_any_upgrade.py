"""Does my app survive any upgrade? Hypothesis draws upgrades until one fails, and shrinks it.

``python -m pytest examples/upgrades`` runs it.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings

import featuregate as fg
from featuregate.testing import StaticFeatures, Upgrade, upgrades

TXN_OFFSET_COMMIT, WANTED = 28, 5


class HastyWorker:
    """An app that asks one broker, as most clients do, and switches when that one has the new API."""

    def __init__(self) -> None:
        self.new = False

    def poll(self, view: fg.View) -> None:
        """Ask the first broker that answers."""
        first = next((answer for answer in view.brokers if answer.answered), None)
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

    def poll(self, view: fg.View) -> None:
        """Take in the view of every broker."""
        self.features.show(view)


def check_worker(upgrade: Upgrade, worker: HastyWorker | GatedWorker) -> None:
    """Fail if the worker switches while a registered broker cannot serve it."""
    for step, cluster in upgrade:
        before = worker.new
        worker.poll(cluster.view())
        if worker.new and not before:
            for broker in cluster.brokers:
                able = broker.state.api_ranges[TXN_OFFSET_COMMIT][1] >= WANTED
                assert able, f"switched after {step} while broker {broker.node_id} cannot"


@settings(max_examples=20, derandomize=True, phases=[Phase.generate])
@given(upgrade=upgrades())
def any_upgrade(upgrade: Upgrade) -> None:
    """Check the hasty worker; with all phases, hypothesis would print the shortest upgrade that fails."""
    check_worker(upgrade, HastyWorker())


def test_the_hasty_worker_fails() -> None:
    """One broker is paused or rolled before the others, and the worker has switched."""
    with pytest.raises(AssertionError, match=r"switched after .* while broker \d cannot"):
        any_upgrade()


@settings(max_examples=20, deadline=None)
@given(upgrade=upgrades())
def test_the_gated_worker_survives_all_upgrades(upgrade: Upgrade) -> None:
    """They make any change and any fault of a cluster."""
    check_worker(upgrade, GatedWorker())
