"""What happens to a cluster with ZooKeeper, event by event (KIP-584). Pure: each step makes another cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from featuregate.testing.simulator.events import (
    CatchUp,
    ClusterEvent,
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
)
from featuregate.testing.simulator.nodes import Node
from featuregate.testing.simulator.zookeeper.cluster import FeaturesNode, ZooKeeperCluster, compatible
from featuregate.testing.simulator.zookeeper.controller import DISABLED, WRONG_CONTROLLER, failed, judge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

__all__ = ["step", "update"]

_SESSION_TICKS: Final = 36
"""``zookeeper.session.timeout.ms`` of eighteen seconds."""


def step(cluster: ZooKeeperCluster, event: ClusterEvent) -> ZooKeeperCluster:
    """Let an event other than an update happen.

    Raises
    ------
    ScriptError
        It cannot happen to this cluster.
    """
    return _settled(_happened(cluster, event))


def update(
    cluster: ZooKeeperCluster, request: UpdateFeaturesRequest, *, asked: int | None = None
) -> tuple[ZooKeeperCluster, UpdateFeaturesResponse | None]:
    """Answer UpdateFeatures, asked at this broker or at the controller: brokers do not forward it.

    The controller takes one request at a time, judges it by what it has read itself, writes, and waits until it has
    read back what it wrote.
    """
    asked = cluster.controller_id if asked is None else asked
    if asked is None or not cluster.node(asked).alive:
        return cluster, None
    if asked != cluster.controller_id:
        return cluster, WRONG_CONTROLLER
    node, binary = cluster.node(asked), cluster.binary(asked)
    if not binary.feature_versioning:
        return cluster, DISABLED
    read = cluster.cached(node)
    existing = read.levels if read is not None else {}
    brokers = [cluster.advertised[node_id] for node_id in cluster.known]
    judged = judge(request, existing=existing, own=binary.supported, brokers=brokers)
    if judged.levels == existing:
        return cluster, judged.response
    written = _settled(_written(cluster, levels=judged.levels))
    # A controller that hears nothing never reads it back, and says that it failed: it has not.
    return written, failed(judged.response) if node.lagging else judged.response


# ------------------------------------------------------------------ what happens


def _happened(cluster: ZooKeeperCluster, event: ClusterEvent) -> ZooKeeperCluster:  # noqa: C901, PLR0911, PLR0912 - one line an event
    match event:
        case Tick(ticks):
            if ticks < 0:
                raise ScriptError(f"time does not go back: {ticks} ticks")
            return replace(cluster, ticks=cluster.ticks + ticks)
        case Partition(node_ids):
            return replace(cluster, cut_off=frozenset(cluster.node(node_id).node_id for node_id in node_ids))
        case Heal():
            return replace(cluster, cut_off=frozenset())
        case HoldRegistrations():
            return replace(cluster, held=True)
        case ReleaseRegistrations():
            return _released(cluster)
        case Join(node_id, binary):
            return _joined(cluster, node_id, binary)
        case Leave(node_id):
            return _left(_unlisted(cluster, cluster.node(node_id).node_id), node_id)
        case Rebuild() | Restore():
            return cluster.plan.begin(number=cluster.number + isinstance(event, Rebuild))
        case Roll(node_id, binary):
            cluster.plan.find(binary)
            return _started(_settled(_stopped(cluster, node_id)), node_id, binary)
        case Start(node_id, named):
            return _started(cluster, node_id, named)
        case Stop(node_id):
            return _stopped(cluster, node_id)
        case Kill(node_id):
            return _changed(cluster, node_id, state="stopped", why="", lagging=False)
        case Pause(node_id) | Resume(node_id):
            was, becomes = ("running", "paused") if isinstance(event, Pause) else ("paused", "running")
            return _changed(cluster, node_id, state=becomes) if cluster.node(node_id).state == was else cluster
        case Lag(node_id) | CatchUp(node_id):
            return _changed(cluster, node_id, lagging=isinstance(event, Lag))
        case _:
            raise ScriptError(f"{event!r} does not happen to a cluster with ZooKeeper")


def _changed(cluster: ZooKeeperCluster, node_id: int, **changes: Any) -> ZooKeeperCluster:
    """Change a node whose process runs, paused or not."""
    node = cluster.node(node_id)
    if node.state in ("stopped", "died"):
        return cluster
    return _with(cluster, replace(node, **changes))


def _with(cluster: ZooKeeperCluster, node: Node) -> ZooKeeperCluster:
    return replace(cluster, nodes={**cluster.nodes, node.node_id: node})


def _stopped(cluster: ZooKeeperCluster, node_id: int) -> ZooKeeperCluster:
    if cluster.node(node_id).state in ("stopped", "died"):
        return cluster
    return _unlisted(_changed(cluster, node_id, state="stopped", why="", lagging=False), node_id)


def _unlisted(cluster: ZooKeeperCluster, node_id: int) -> ZooKeeperCluster:
    """Let ZooKeeper forget a broker, and everybody with it."""
    return replace(
        cluster,
        advertised={other: said for other, said in cluster.advertised.items() if other != node_id},
        queued=tuple(other for other in cluster.queued if other != node_id),
        ignored=cluster.ignored - {node_id},
    )


def _left(cluster: ZooKeeperCluster, node_id: int) -> ZooKeeperCluster:
    return replace(cluster, nodes={other: node for other, node in cluster.nodes.items() if other != node_id})


def _joined(cluster: ZooKeeperCluster, node_id: int, binary: str) -> ZooKeeperCluster:
    if node_id in cluster.nodes:
        raise ScriptError(f"there is a node {node_id} already")
    return _started(_with(cluster, Node(node_id=node_id, binary=binary, state="stopped", starts=0)), node_id, binary)


def _started(cluster: ZooKeeperCluster, node_id: int, named: str | None) -> ZooKeeperCluster:
    """Start a broker: it reads ``/features`` before it lists itself, and ends if it does not support what is there."""
    node = cluster.node(node_id)
    if node.state not in ("stopped", "died"):
        return cluster
    name = named or node.binary
    cluster.plan.find(name)
    cluster = _unlisted(cluster, node_id)  # a session of its last life is over
    started = replace(node, binary=name, state="starting", why="", heard=None, away_since=None, starts=node.starts + 1)
    return _with(cluster, started)


def _released(cluster: ZooKeeperCluster) -> ZooKeeperCluster:
    waiting = cluster.queued
    cluster = replace(cluster, held=False, queued=())
    for node_id in waiting:
        cluster = _noticed(cluster, node_id)
    return cluster


# ------------------------------------------------------------------ what follows by itself


def _settled(cluster: ZooKeeperCluster) -> ZooKeeperCluster:
    """Let everything that follows from an event happen; one thing may lead to another, until nothing moves."""
    while True:
        before = cluster
        for node_id in sorted(cluster.nodes):
            cluster = _lived(cluster, cluster.nodes[node_id])
        cluster = _deprecated(_elected(cluster))
        if cluster == before:
            return cluster


def _lived(cluster: ZooKeeperCluster, node: Node) -> ZooKeeperCluster:
    """Let one broker lose its session, start, or read what is new in ``/features``."""
    reaches = node.alive and node.node_id not in cluster.cut_off
    away = None if reaches else cluster.ticks if node.away_since is None else node.away_since
    if away != node.away_since:
        node = replace(node, away_since=away)
        cluster = _with(cluster, node)
    if away is not None:
        over = cluster.ticks - away >= _SESSION_TICKS
        cluster = _unlisted(cluster, node.node_id) if over and node.node_id in cluster.advertised else cluster
    if not reaches or node.lagging:
        kept = len(cluster.history) - 1 if node.heard is None else node.heard
        return cluster if node.heard == kept else _with(cluster, replace(node, heard=kept))
    if (problem := _broken_by(cluster, node)) is not None:
        # The process ends by itself, and its session with it.
        return _unlisted(_with(cluster, replace(node, state="died", why=problem)), node.node_id)
    read = replace(node, heard=None, state="running")
    cluster = cluster if read == node else _with(cluster, read)
    return cluster if node.node_id in cluster.advertised else _listed(cluster, node.node_id)


def _broken_by(cluster: ZooKeeperCluster, node: Node) -> str | None:
    """Say what a broker that reads ``/features`` now cannot live with ("Broker protections")."""
    binary, features = cluster.binary(node.node_id), cluster.features
    if not binary.feature_versioning or not features.enabled:
        return None
    name = compatible(binary.supported, features.levels)
    if name is None:
        return None
    level, supported = features.levels[name][1], binary.supported.get(name)
    said = f"supports {supported[0]}-{supported[1]}" if supported else "does not know it"
    return f"level {level} of {name} is finalized, and this broker {said}"


def _listed(cluster: ZooKeeperCluster, node_id: int) -> ZooKeeperCluster:
    binary = cluster.binary(node_id)
    said = binary.supported if binary.feature_versioning else {}
    cluster = replace(cluster, advertised={**cluster.advertised, node_id: said})
    if cluster.held and cluster.controller_id is not None:
        return replace(cluster, queued=(*cluster.queued, node_id))
    return _noticed(cluster, node_id)


def _noticed(cluster: ZooKeeperCluster, node_id: int) -> ZooKeeperCluster:
    """Let the controller hear of a broker; it skips one that does not support what is finalized."""
    skips = cluster.features.enabled and compatible(cluster.advertised[node_id], cluster.features.levels) is not None
    return replace(cluster, ignored=cluster.ignored | {node_id}) if skips else cluster


def _elected(cluster: ZooKeeperCluster) -> ZooKeeperCluster:
    candidates = [node_id for node_id in sorted(cluster.advertised) if _can_lead(cluster, node_id)]
    if cluster.controller_id in candidates:
        return cluster
    if not candidates:
        return replace(cluster, controller_id=None)
    # A new controller has no queue: it reads the list of brokers anew.
    elected = replace(cluster, controller_id=candidates[0], held=False, queued=(), ignored=frozenset())
    elected = _set_up(elected)
    for node_id in sorted(elected.advertised):
        elected = _noticed(elected, node_id)
    return elected


def _can_lead(cluster: ZooKeeperCluster, node_id: int) -> bool:
    node = cluster.nodes.get(node_id)
    return node is not None and node.state == "running" and node_id not in cluster.cut_off


def _set_up(cluster: ZooKeeperCluster) -> ZooKeeperCluster:
    """Let a new controller see to the status of ``/features`` ("Feature ZK node status")."""
    assert cluster.controller_id is not None
    enabled, there = cluster.binary(cluster.controller_id).feature_versioning, cluster.features
    levels = there.levels if enabled and there.enabled else {}
    return cluster if (there.enabled, there.levels) == (enabled, levels) else _written(cluster, levels, enabled=enabled)


def _deprecated(cluster: ZooKeeperCluster) -> ZooKeeperCluster:
    """Raise the lowest finalized levels to the highest minimum that a broker supports ("version deprecation")."""
    if cluster.controller_id is None or not cluster.features.enabled:
        return cluster
    if not cluster.binary(cluster.controller_id).feature_versioning:
        return cluster
    said = [cluster.advertised[node_id] for node_id in cluster.known]
    levels = {
        name: (min(highest, max([lowest, *(each[name][0] for each in said if name in each)])), highest)
        for name, (lowest, highest) in cluster.features.levels.items()
    }
    return cluster if levels == cluster.features.levels else _written(cluster, levels)


def _written(
    cluster: ZooKeeperCluster, levels: Mapping[str, tuple[int, int]], *, enabled: bool = True
) -> ZooKeeperCluster:
    return replace(cluster, history=(*cluster.history, FeaturesNode(cluster.features.version + 1, enabled, levels)))
