"""The watch of a FeatureSession and the API versions that its client must not use."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from featuregate_spark.watch import Watch

if TYPE_CHECKING:
    from featuregate.testing import FakeCluster


def test_the_gates_of_a_session_do_not_count_them(fake_kafka: FakeCluster) -> None:
    """Nor do its snapshots and pins, which hold the gates' decisions."""
    with closing(Watch(config=fake_kafka.bootstrap, interval=60, wait=30, exclude_apis="Produce=9-")) as watch:
        gate = watch.gate("produce", "Produce>=9", "live")
        assert watch.observe().view is not None
        assert "are excluded by configuration" in gate.decision.summary
