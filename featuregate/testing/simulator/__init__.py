"""A Kafka cluster as a value: brokers, controllers, finalized features, and what happens to them.

Nothing runs: no socket, thread or clock. What may happen is written as a script of events; the explorer makes scripts
up, and shrinks one that fails.
"""

from __future__ import annotations

from featuregate.testing.simulator.app import App, MemoryLatchStore
from featuregate.testing.simulator.builds import Binary, binary_of
from featuregate.testing.simulator.client import ask, view_of
from featuregate.testing.simulator.cluster import Beginning, Cluster, Happened, apply, update_features
from featuregate.testing.simulator.coordinator import Coordinator, Loaded, LogRecord, NotUnderstood, compact
from featuregate.testing.simulator.events import (
    AppEvent,
    AppRestarts,
    CatchUp,
    ClockJumps,
    ClusterEvent,
    Event,
    Garble,
    Heal,
    HoldRegistrations,
    Join,
    Kill,
    Lag,
    Leave,
    Look,
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
from featuregate.testing.simulator.kraft.cluster import KRaft, KRaftCluster
from featuregate.testing.simulator.nodes import Node
from featuregate.testing.simulator.requirements import Wants
from featuregate.testing.simulator.scripts.explorer import (
    Check,
    ScriptFailed,
    Vocabulary,
    as_code,
    explore,
    make_up,
    shrink,
)
from featuregate.testing.simulator.scripts.invariants import InvariantBroken
from featuregate.testing.simulator.scripts.script import Script, Step, check, run
from featuregate.testing.simulator.zookeeper.cluster import FeaturesNode, ZooKeeper, ZooKeeperCluster

__all__ = [
    "App",
    "AppEvent",
    "AppRestarts",
    "Beginning",
    "Binary",
    "CatchUp",
    "Check",
    "ClockJumps",
    "Cluster",
    "ClusterEvent",
    "Coordinator",
    "Event",
    "FeaturesNode",
    "Garble",
    "Happened",
    "Heal",
    "HoldRegistrations",
    "InvariantBroken",
    "Join",
    "KRaft",
    "KRaftCluster",
    "Kill",
    "Lag",
    "Leave",
    "Loaded",
    "LogRecord",
    "Look",
    "MemoryLatchStore",
    "Node",
    "NotUnderstood",
    "Partition",
    "Pause",
    "Rebuild",
    "ReleaseRegistrations",
    "Restore",
    "Resume",
    "Roll",
    "Script",
    "ScriptError",
    "ScriptFailed",
    "Start",
    "Step",
    "Stop",
    "Tick",
    "UpdateFeatures",
    "Vocabulary",
    "Wants",
    "ZooKeeper",
    "ZooKeeperCluster",
    "apply",
    "as_code",
    "ask",
    "binary_of",
    "check",
    "compact",
    "downgrade",
    "explore",
    "make_up",
    "run",
    "shrink",
    "update_features",
    "upgrade",
    "view_of",
]
