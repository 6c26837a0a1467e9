"""A Kafka cluster as a value: brokers, controllers and finalized features, and the events that change them.

There are no sockets, threads or clocks. A script is a cluster with a tuple of events. The explorer generates random
scripts, and shrinks a failing one.
"""

from __future__ import annotations

from featuregate.testing.simulator.app import App
from featuregate.testing.simulator.builds import Build, release_build
from featuregate.testing.simulator.client import SimulatedBrokers, probe, view_of
from featuregate.testing.simulator.cluster import Cluster, EventResult, apply, update_features
from featuregate.testing.simulator.events import (
    CatchUp,
    ClusterEvent,
    Heal,
    HoldRegistrations,
    Join,
    JumpClock,
    Kill,
    Lag,
    Leave,
    Partition,
    Pause,
    Poll,
    Rebuild,
    ReleaseRegistrations,
    RestartApp,
    Restore,
    Resume,
    Roll,
    ScriptError,
    Start,
    Stop,
    Tick,
    TruncateAnswer,
    UpdateFeatures,
    downgrade,
    upgrade,
)
from featuregate.testing.simulator.kraft.cluster import KRaftCluster
from featuregate.testing.simulator.kraft.spec import KRaft
from featuregate.testing.simulator.nodes import SimulatedNode
from featuregate.testing.simulator.requirements import AppRequirements
from featuregate.testing.simulator.scripts.expectations import InvariantBroken
from featuregate.testing.simulator.scripts.explorer import (
    ScriptChoices,
    ScriptFailed,
    as_code,
    explore,
    random_script,
    shrink,
)
from featuregate.testing.simulator.scripts.script import Script, ScriptStep, check_invariants, run
from featuregate.testing.simulator.zookeeper.cluster import FeaturesNode, ZooKeeperCluster
from featuregate.testing.simulator.zookeeper.spec import ZooKeeper

__all__ = [
    "App",
    "AppRequirements",
    "Build",
    "CatchUp",
    "Cluster",
    "ClusterEvent",
    "EventResult",
    "FeaturesNode",
    "Heal",
    "HoldRegistrations",
    "InvariantBroken",
    "Join",
    "JumpClock",
    "KRaft",
    "KRaftCluster",
    "Kill",
    "Lag",
    "Leave",
    "Partition",
    "Pause",
    "Poll",
    "Rebuild",
    "ReleaseRegistrations",
    "RestartApp",
    "Restore",
    "Resume",
    "Roll",
    "Script",
    "ScriptChoices",
    "ScriptError",
    "ScriptFailed",
    "ScriptStep",
    "SimulatedBrokers",
    "SimulatedNode",
    "Start",
    "Stop",
    "Tick",
    "TruncateAnswer",
    "UpdateFeatures",
    "ZooKeeper",
    "ZooKeeperCluster",
    "apply",
    "as_code",
    "check_invariants",
    "downgrade",
    "explore",
    "probe",
    "random_script",
    "release_build",
    "run",
    "shrink",
    "update_features",
    "upgrade",
    "view_of",
]
