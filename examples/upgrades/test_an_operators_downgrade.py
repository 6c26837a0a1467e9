"""Does my app survive a downgrade? Over real sockets, with its production client.

``python -m pytest examples/upgrades`` runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import featuregate as fg
from featuregate.admin.updates import disable, upgrade

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.testing.plugin import MakeFakeCluster


class Worker:
    """The app: it decides once for each batch, and never in the middle of one."""

    def __init__(self, bootstrap: str, latch_store: Path) -> None:
        self.features = fg.Discoverer(bootstrap, latch_store=latch_store)
        self.gate = self.features.gate("new-groups", "group.version>=1")
        self.features.refresh()

    def batch(self, meanwhile: Callable[[], object] = bool) -> tuple[bool, bool]:
        """Work on one batch; return what it began and what it ended with."""
        pin = self.gate.pin()
        began = pin.open
        meanwhile()
        self.features.refresh()
        return began, pin.open


def test_a_downgrade_in_the_middle_of_a_batch(fake_cluster: MakeFakeCluster, tmp_path: Path) -> None:
    """The batch ends as it began, the next ones go on as before, and so does the worker after its restart."""
    kafka = fake_cluster(3, release="4.2")
    worker = Worker(kafka.bootstrap, tmp_path)
    with worker.features:
        assert worker.batch(lambda: kafka.update(disable("group.version"))) == (True, True)
        assert worker.features.view.level("group.version") == 0
        assert worker.batch() == (True, True)
        assert "fell to 0" in str(worker.gate.decision)
    again = Worker(kafka.bootstrap, tmp_path)
    with again.features:
        assert again.batch() == (True, True)


def test_a_broker_that_has_not_read_the_new_level(fake_cluster: MakeFakeCluster, tmp_path: Path) -> None:
    """The newest epoch counts; a lagging broker revokes nothing."""
    kafka = fake_cluster(3, release="4.2", finalized={"metadata.version": 29})
    worker = Worker(kafka.bootstrap, tmp_path)
    with worker.features:
        assert worker.batch() == (False, False)
        kafka.broker(1).lag()
        assert kafka.update(upgrade({"group.version": 1})).error_code == 0
        worker.features.refresh()
        assert worker.batch() == (True, True)


def test_brokers_are_rolled_back_before_a_level_is_finalized(fake_cluster: MakeFakeCluster, tmp_path: Path) -> None:
    """No level was finalized, so the worker has not switched."""
    kafka = fake_cluster(2, controllers=1, release="3.9")
    worker = Worker(kafka.bootstrap, tmp_path)
    with worker.features:
        for release in ("4.2", "3.9"):
            for node_id in (3000, 1, 2):
                kafka.roll(node_id, release)
                assert worker.batch() == (False, False)
