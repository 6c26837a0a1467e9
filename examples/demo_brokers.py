"""The brokers of a demo: they are rolled one by one, and the timeline shows the release of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from featuregate.testing.local_kafka.probe import serves

if TYPE_CHECKING:
    from demo_timeline import Timeline

    from featuregate.testing import LocalKafka
    from featuregate.testing.local_kafka.cluster import NodeInfo


class Brokers:
    """Rolls brokers, and says so."""

    def __init__(self, kafka: LocalKafka, timeline: Timeline) -> None:
        self.kafka, self.timeline = kafka, timeline
        self._coming: NodeInfo | None = None

    def show(self) -> None:
        """Show the release that all have at the beginning."""
        for node in self.kafka.nodes:
            self.timeline.show(f"broker {node}", self.kafka.node(node).version)

    def watch(self) -> None:
        """Show when a broker that is rolled is back."""
        coming = self._coming
        if coming and serves(coming.host, coming.port):
            self.timeline.show(f"broker {coming.node_id}", coming.version)

    def roll(self, node: int, version: str) -> None:
        """Stop one broker, and start it with the new release."""
        self.timeline.say(f"broker {node} is stopped, and comes back with {version}")
        self.timeline.show(f"broker {node}", "down")
        self.kafka.stop(node)
        self._coming = replace(self.kafka.node(node), version=version)
        self.kafka.roll(node, version)
        self._coming = None
        self.timeline.show(f"broker {node}", version)
