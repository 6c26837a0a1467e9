"""What can happen to a simulated cluster and to the app beside it, as plain values.

A script is a tuple of them. They compare, pickle, and print as the code that makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from featuregate.testing.simulator.values import Value
from featuregate.wire.update_features import UpgradeType

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "TICK_SECONDS",
    "AppEvent",
    "AppRestarts",
    "CatchUp",
    "ClockJumps",
    "ClusterEvent",
    "Event",
    "Garble",
    "Heal",
    "HoldRegistrations",
    "Join",
    "Kill",
    "Lag",
    "Leave",
    "Look",
    "Partition",
    "Pause",
    "Rebuild",
    "ReleaseRegistrations",
    "Restore",
    "Resume",
    "Roll",
    "ScriptError",
    "Start",
    "Stop",
    "Tick",
    "UpdateFeatures",
    "downgrade",
    "upgrade",
]


TICK_SECONDS: Final = 0.5
"""What one tick stands for: the ``metadata.max.idle.interval.ms`` after which KRaft writes a record."""


class ScriptError(ValueError):
    """An event cannot happen to this cluster: it names a node or a build that there is not."""


class Event(Value):
    """Something that happens."""

    __slots__ = ()


class ClusterEvent(Event):
    """Something that happens to the cluster."""

    __slots__ = ()


class AppEvent(Event):
    """Something that happens to the app, or on its way to the cluster."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class Tick(ClusterEvent):
    """Time goes by, for the cluster and for the app: half a second each (:data:`TICK_SECONDS`)."""

    ticks: int = 1


@dataclass(frozen=True, slots=True, repr=False)
class Stop(ClusterEvent):
    """A node ends as in a rolling restart; a broker is fenced at once."""

    node_id: int


@dataclass(frozen=True, slots=True, repr=False)
class Kill(ClusterEvent):
    """A node ends without a word; a broker is fenced when its session is over, after nine seconds."""

    node_id: int


@dataclass(frozen=True, slots=True, repr=False)
class Start(ClusterEvent):
    """A node that ended starts again, with another build where one is named."""

    node_id: int
    binary: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Roll(ClusterEvent):
    """A node stops, and starts with another build."""

    node_id: int
    binary: str


@dataclass(frozen=True, slots=True, repr=False)
class Pause(ClusterEvent):
    """A node hangs: it accepts connections and says nothing."""

    node_id: int


@dataclass(frozen=True, slots=True, repr=False)
class Resume(ClusterEvent):
    """A node that hung goes on."""

    node_id: int


@dataclass(frozen=True, slots=True, repr=False)
class Lag(ClusterEvent):
    """A broker hears nothing new of the cluster, and goes on telling what it knows."""

    node_id: int


@dataclass(frozen=True, slots=True, repr=False)
class CatchUp(ClusterEvent):
    """A broker that lagged hears of everything at once."""

    node_id: int


@dataclass(frozen=True, slots=True, repr=False)
class Partition(ClusterEvent):
    """These nodes and all others do not reach each other; clients reach them all. It replaces the one before."""

    node_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Heal(ClusterEvent):
    """All nodes reach each other again."""


@dataclass(frozen=True, slots=True, repr=False)
class Join(ClusterEvent):
    """A new broker starts."""

    node_id: int
    binary: str


@dataclass(frozen=True, slots=True, repr=False)
class Leave(ClusterEvent):
    """A broker ends for good and is unregistered: the cluster does not know it any more."""

    node_id: int


@dataclass(frozen=True, slots=True, repr=False)
class UpdateFeatures(ClusterEvent):
    """An operator asks for other levels; :func:`upgrade` and :func:`downgrade` make it."""

    levels: Mapping[str, int]
    upgrade_type: int = 1
    validate_only: bool = False
    version: int = 1
    """Of the request. v0 has no upgrade type but a flag, which counts with ZooKeeper and not in KRaft."""
    node_id: int | None = None
    """Who is asked: ``None`` for the controller."""


@dataclass(frozen=True, slots=True, repr=False)
class HoldRegistrations(ClusterEvent):
    """With ZooKeeper: news of brokers that start queue up at the controller, as in the race that KIP-584 tells of."""


@dataclass(frozen=True, slots=True, repr=False)
class ReleaseRegistrations(ClusterEvent):
    """With ZooKeeper: the controller works through the news of brokers that queued up."""


@dataclass(frozen=True, slots=True, repr=False)
class Rebuild(ClusterEvent):
    """Another cluster, as the script's first one was, takes over the addresses."""


@dataclass(frozen=True, slots=True, repr=False)
class Restore(ClusterEvent):
    """The cluster is restored to how the script began, under the same id: its epochs start low again."""


@dataclass(frozen=True, slots=True, repr=False)
class Look(AppEvent):
    """The app asks every broker, as its next poll would."""


@dataclass(frozen=True, slots=True, repr=False)
class Garble(AppEvent):
    """The next answer of a node reaches the app cut after so many bytes."""

    node_id: int
    after: int


@dataclass(frozen=True, slots=True, repr=False)
class AppRestarts(AppEvent):
    """The app's process ends and begins again, with the same latch store of latches."""


@dataclass(frozen=True, slots=True, repr=False)
class ClockJumps(AppEvent):
    """The app's wall clock jumps by so many seconds, back if negative."""

    seconds: float


def upgrade(levels: Mapping[str, int], *, dry_run: bool = False, version: int = 1) -> UpdateFeatures:
    """Ask for higher levels, as ``kafka-features upgrade`` does."""
    return UpdateFeatures(dict(levels), validate_only=dry_run, version=version)


def downgrade(
    levels: Mapping[str, int], *, unsafe: bool = False, dry_run: bool = False, version: int = 1
) -> UpdateFeatures:
    """Ask for lower levels, 0 to disable, as ``kafka-features downgrade`` and ``disable`` do."""
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    return UpdateFeatures(dict(levels), upgrade_type=int(kind), validate_only=dry_run, version=version)
