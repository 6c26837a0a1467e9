"""A Kafka cluster as a value: brokers, controllers and finalized features, and the events that change them.

There are no sockets, threads or clocks. A script is a cluster with a tuple of events, and
:func:`featuregate.testing.upgrades` draws random ones.
"""

from __future__ import annotations

from featuregate.testing.simulator.builds import Build, release_build
from featuregate.testing.simulator.client import SimulatedBrokers, view_of
from featuregate.testing.simulator.cluster import apply
from featuregate.testing.simulator.events import (
    CatchUp,
    Heal,
    HoldRegistrations,
    Join,
    Kill,
    Lag,
    Leave,
    Partition,
    Pause,
    Rebuild,
    ReleaseRegistrations,
    Restore,
    Resume,
    Roll,
    ScriptError,
    Start,
    Stop,
    Tick,
    UpdateFeatures,
    downgrade,
    upgrade,
)
from featuregate.testing.simulator.kraft.cluster import KRaft
from featuregate.testing.simulator.script import Script, run
from featuregate.testing.simulator.zookeeper.cluster import ZooKeeper

__all__ = [
    "Build",
    "CatchUp",
    "Heal",
    "HoldRegistrations",
    "Join",
    "KRaft",
    "Kill",
    "Lag",
    "Leave",
    "Partition",
    "Pause",
    "Rebuild",
    "ReleaseRegistrations",
    "Restore",
    "Resume",
    "Roll",
    "Script",
    "ScriptError",
    "SimulatedBrokers",
    "Start",
    "Stop",
    "Tick",
    "UpdateFeatures",
    "ZooKeeper",
    "apply",
    "downgrade",
    "release_build",
    "run",
    "upgrade",
    "view_of",
]
