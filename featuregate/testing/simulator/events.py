"""The events that can happen to a simulated cluster. Pure.

A script is a tuple of events. Events are values: they compare, pickle, and print as the code that creates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from featuregate.testing.simulator.values import CodeValue
from featuregate.wire.update_features import UpgradeType

TICK_SECONDS: Final = 0.5
"""The length of one tick: ``metadata.max.idle.interval.ms``, after which an idle KRaft cluster writes a record."""


class ScriptError(ValueError):
    """An event cannot happen to this cluster, for example because it names a node or a build that does not exist."""


@dataclass(frozen=True, repr=False)
class ClusterEvent(CodeValue):
    """An event that happens to the cluster."""


@dataclass(frozen=True, repr=False)
class NodeEvent(ClusterEvent):
    """An event that happens to one node."""

    node_id: int


@dataclass(frozen=True, repr=False)
class Tick(ClusterEvent):
    """Time passes: half a second for each tick (:data:`TICK_SECONDS`)."""

    ticks: int = 1


class Stop(NodeEvent):
    """Stop a node as a rolling restart does. The controller fences a broker at once."""


class Kill(NodeEvent):
    """Kill a node. The controller fences a broker when its session expires, after nine seconds."""


@dataclass(frozen=True, repr=False)
class Start(NodeEvent):
    """Start a node that was stopped or has died, with another build if one is given."""

    build: str | None = None


@dataclass(frozen=True, repr=False)
class Roll(NodeEvent):
    """Stop a node, and start it with another build."""

    build: str


class Pause(NodeEvent):
    """Pause a node: it accepts connections, and answers nothing."""


class Resume(NodeEvent):
    """Resume a paused node."""


class Lag(NodeEvent):
    """A broker stops to read news of the cluster, and goes on to report what it has read."""


class CatchUp(NodeEvent):
    """A lagging broker reads all news at once."""


@dataclass(frozen=True, repr=False)
class Partition(ClusterEvent):
    """Separate these nodes from all others. Clients reach all nodes. A new partition replaces the previous one."""

    node_ids: tuple[int, ...]


class Heal(ClusterEvent):
    """End the partition."""


@dataclass(frozen=True, repr=False)
class Join(NodeEvent):
    """Start a new broker."""

    build: str


class Leave(NodeEvent):
    """Stop a broker for good and unregister it."""


@dataclass(frozen=True, repr=False)
class UpdateFeatures(ClusterEvent):
    """An operator sends UpdateFeatures; :func:`upgrade` and :func:`downgrade` create this event."""

    levels: Mapping[str, int]
    upgrade_type: int = 1
    validate_only: bool = False
    version: int = 1
    """The version of the request. v0 has a flag instead of the upgrade type, which only ZooKeeper controllers read."""
    node_id: int | None = None
    """The node that receives the request; ``None``: the controller."""


class HoldRegistrations(ClusterEvent):
    """With ZooKeeper: the controller queues registrations of brokers, as in the race that KIP-584 describes."""


class ReleaseRegistrations(ClusterEvent):
    """With ZooKeeper: the controller processes the queued registrations."""


class Rebuild(ClusterEvent):
    """Another cluster takes over the addresses: the first state of the script, with another cluster id."""


class Restore(ClusterEvent):
    """Restore the cluster to its first state, under the same cluster id, so that its epochs start low again."""


def upgrade(levels: Mapping[str, int], *, dry_run: bool = False, version: int = 1) -> UpdateFeatures:
    """Request higher levels, as ``kafka-features upgrade`` does."""
    return UpdateFeatures(dict(levels), validate_only=dry_run, version=version)


def downgrade(
    levels: Mapping[str, int], *, unsafe: bool = False, dry_run: bool = False, version: int = 1
) -> UpdateFeatures:
    """Request lower levels, 0 to disable a feature, as ``kafka-features downgrade`` and ``disable`` do."""
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    return UpdateFeatures(dict(levels), upgrade_type=int(kind), validate_only=dry_run, version=version)
