"""What one build of Kafka brings to a node: the APIs that it serves and the feature levels that it can run."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from featuregate.testing.fakes.releases import release_facts
from featuregate.testing.simulator.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Binary", "binary_of"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Binary(Value):
    """One build of Kafka, as a simulated node runs it.

    Nodes name their binary by a text such as ``"3.9"``. What is known of releases comes from the catalog, captured
    from real ones; a test makes the others itself, and names them in the ``binaries`` of its cluster.
    """

    release: str
    """Whose rules its controller follows: ``"3.9"`` judges updates one by one, ``"4.0"`` and newer all or nothing."""
    broker_apis: Mapping[int, tuple[int, int]]
    """API key to lowest and highest version, as a broker advertises beside controllers of the same build."""
    controller_apis: Mapping[int, tuple[int, int]]
    """The same of a controller; empty for a build that knows only ZooKeeper."""
    supported: Mapping[str, tuple[int, int]]
    """Feature name to the lowest and the highest level."""
    feature_versioning: bool = True
    """With ZooKeeper: whether ``inter.broker.protocol.version`` is 2.7-IV0 or newer, the least that KIP-584 needs."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The release as numbers, to compare."""
        return tuple(map(int, self.release.split(".")))


@functools.cache
def binary_of(release: str) -> Binary:
    """Look a release up, such as ``"3.9"`` or ``"4.2.0"``.

    Raises
    ------
    ValueError
        No broker of this release was captured.
    """
    facts = release_facts(release)
    return Binary(
        release=facts.release,
        broker_apis=facts.api_ranges["broker"],
        controller_apis=facts.api_ranges.get("controller", {}),
        supported=facts.supported,
    )
