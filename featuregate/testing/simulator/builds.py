"""Builds of Kafka: the APIs that a node with this build serves, and the feature levels that it supports. Pure."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from featuregate.testing.fakes.releases import release_facts
from featuregate.testing.simulator.values import CodeValue


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Build(CodeValue):
    """One build of Kafka, as a simulated node runs it.

    Nodes refer to their build by name, such as ``"3.9"``. The builds of releases come from the catalog, where they
    were captured from real nodes. A test creates other builds itself, and names them in the ``builds`` of its cluster.
    """

    release: str
    """The release whose rules the controller follows: ``"3.9"`` decides each update by itself, ``"4.0"`` and newer
    accept all updates of a request or none."""
    broker_apis: Mapping[int, tuple[int, int]]
    """API key to lowest and highest version, as a broker advertises beside controllers of the same build."""
    controller_apis: Mapping[int, tuple[int, int]]
    """The same for a controller; empty for a build without KRaft."""
    supported: Mapping[str, tuple[int, int]]
    """Feature name to lowest and highest supported level."""
    feature_versioning: bool = True
    """With ZooKeeper: whether ``inter.broker.protocol.version`` is at least 2.7-IV0, which KIP-584 needs."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The release as numbers, for comparisons."""
        return tuple(map(int, self.release.split(".")))


@functools.cache
def release_build(release: str) -> Build:
    """Return the build of a release, such as ``"3.9"`` or ``"4.2.0"``.

    Raises
    ------
    ValueError
        No broker of this release was captured.
    """
    facts = release_facts(release)
    return Build(
        release=facts.release,
        broker_apis=facts.api_ranges["broker"],
        controller_apis=facts.api_ranges.get("controller", {}),
        supported=facts.supported,
    )
