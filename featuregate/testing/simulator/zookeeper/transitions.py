"""How events change a cluster with ZooKeeper (KIP-584). Pure: each event gives another cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from featuregate.testing.simulator import events
from featuregate.testing.simulator.nodes import SimulatedNode
from featuregate.testing.simulator.zookeeper.cluster import FeaturesNode, ZooKeeperCluster, first_unsupported
from featuregate.testing.simulator.zookeeper.controller import DISABLED, WRONG_CONTROLLER, answer_update, as_failed

if TYPE_CHECKING:
    from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

_SESSION_TICKS: Final = 36
"""``zookeeper.session.timeout.ms`` of eighteen seconds."""


def apply(cluster: ZooKeeperCluster, event: events.ClusterEvent) -> ZooKeeperCluster:
    """Apply an event other than an update.

    Raises
    ------
    ScriptError
        The event cannot happen to this cluster.
    """
    return _with_consequences(_apply_event(cluster, event))


def update(
    cluster: ZooKeeperCluster, request: UpdateFeaturesRequest, *, node_id: int | None = None
) -> tuple[ZooKeeperCluster, UpdateFeaturesResponse | None]:
    """Answer UpdateFeatures at a broker or, without a ``node_id``, at the controller. Brokers do not forward it.

    The controller decides by what it has read of ``/features``, writes, and waits until it has read its own change.
    """
    node_id = cluster.controller_id if node_id is None else node_id
    if node_id is None or not cluster.node(node_id).alive:
        return cluster, None
    if node_id != cluster.controller_id:
        return cluster, WRONG_CONTROLLER
    if not cluster.build(node_id).feature_versioning:
        return cluster, DISABLED
    answer = answer_update(cluster, request)
    if answer.levels == cluster.cached_levels(node_id):
        return cluster, answer.response
    written = _with_consequences(_write(cluster, answer.levels))
    # A lagging controller never reads its change, and reports a failure although the change was made.
    return written, as_failed(answer.response) if cluster.node(node_id).lagging else answer.response


# ------------------------------------------------------------------ events


def _apply_event(cluster: ZooKeeperCluster, event: events.ClusterEvent) -> ZooKeeperCluster:  # noqa: PLR0911 - one line an event
    match event:
        case events.Tick(ticks):
            return cluster.advance(ticks)
        case events.HoldRegistrations():
            return replace(cluster, held=True)
        case events.ReleaseRegistrations():
            return _release(cluster)
        case events.Join(node_id, build):
            cluster.check_new(node_id, build)
            node = SimulatedNode(node_id=node_id, build=build, status="stopped", start_count=0)
            return _start(cluster.with_nodes(node), node_id, build)
        case events.Leave(node_id):
            return _end_session(cluster, cluster.node(node_id).node_id).without_node(node_id)
        case events.Roll(node_id, build):
            cluster.spec.find_build(build)
            return _start(_with_consequences(_stop(cluster, node_id)), node_id, build)
        case events.Start(node_id, build):
            return _start(cluster, node_id, build)
        case events.Stop(node_id):
            return _stop(cluster, node_id)
        case events.Kill(node_id):
            return _kill(cluster, node_id)
        case _:
            return cluster.apply_common(event)


def _kill(cluster: ZooKeeperCluster, node_id: int) -> ZooKeeperCluster:
    node = cluster.node(node_id)
    return cluster if node.ended else cluster.with_nodes(replace(node, status="stopped", reason="", lagging=False))


def _stop(cluster: ZooKeeperCluster, node_id: int) -> ZooKeeperCluster:
    return cluster if cluster.node(node_id).ended else _end_session(_kill(cluster, node_id), node_id)


def _end_session(cluster: ZooKeeperCluster, node_id: int) -> ZooKeeperCluster:
    """End the session of a broker: ZooKeeper deletes its registration, and the controller notices."""
    return replace(
        cluster,
        advertised={other: supported for other, supported in cluster.advertised.items() if other != node_id},
        queued=tuple(other for other in cluster.queued if other != node_id),
        ignored=cluster.ignored - {node_id},
    )


def _start(cluster: ZooKeeperCluster, node_id: int, build: str | None) -> ZooKeeperCluster:
    """Start a broker: it reads ``/features`` before it registers, and dies if it does not support the levels."""
    node = cluster.node(node_id)
    if not node.ended:
        return cluster
    name = build or node.build
    cluster.spec.find_build(name)
    started = replace(
        node,
        build=name,
        status="starting",
        reason="",
        read_up_to=None,
        disconnected_since=None,
        start_count=node.start_count + 1,
    )
    return _end_session(cluster, node_id).with_nodes(started)  # the session before the start, if it is still open


def _release(cluster: ZooKeeperCluster) -> ZooKeeperCluster:
    waiting = cluster.queued
    cluster = replace(cluster, held=False, queued=())
    for node_id in waiting:
        cluster = _process_registration(cluster, node_id)
    return cluster


# ------------------------------------------------------------------ consequences of an event


def _with_consequences(cluster: ZooKeeperCluster) -> ZooKeeperCluster:
    """Apply what follows from an event. One consequence may lead to another, so repeat until nothing changes."""
    while True:
        before = cluster
        for node_id in sorted(cluster.nodes):
            cluster = _update_broker(cluster, cluster.nodes[node_id])
        cluster = _deprecate_levels(_elect(cluster))
        if cluster == before:
            return cluster


def _update_broker(cluster: ZooKeeperCluster, node: SimulatedNode) -> ZooKeeperCluster:
    """Let one broker lose its session, or read ``/features`` and register."""
    connected = node.alive and node.node_id not in cluster.partition
    since = None if connected else cluster.ticks if node.disconnected_since is None else node.disconnected_since
    if since != node.disconnected_since:
        node = replace(node, disconnected_since=since)
        cluster = cluster.with_nodes(node)
    if since is not None and cluster.ticks - since >= _SESSION_TICKS and node.node_id in cluster.advertised:
        cluster = _end_session(cluster, node.node_id)
    if not connected or node.lagging:
        read_up_to = len(cluster.history) - 1 if node.read_up_to is None else node.read_up_to
        return cluster if node.read_up_to == read_up_to else cluster.with_nodes(replace(node, read_up_to=read_up_to))
    if (problem := _fatal_level(cluster, node)) is not None:
        # The process ends by itself, and so does its session.
        return _end_session(cluster.with_nodes(replace(node, status="died", reason=problem)), node.node_id)
    read = replace(node, read_up_to=None, status="running")
    cluster = cluster if read == node else cluster.with_nodes(read)
    return cluster if node.node_id in cluster.advertised else _register(cluster, node.node_id)


def _fatal_level(cluster: ZooKeeperCluster, node: SimulatedNode) -> str | None:
    """Return the finalized level that ends the process of a broker that reads it ("Broker protections")."""
    build, features = cluster.build(node.node_id), cluster.features
    if not build.feature_versioning or not features.enabled:
        return None
    name = first_unsupported(build.supported, features.levels)
    if name is None:
        return None
    level, supported = features.levels[name][1], build.supported.get(name)
    support = f"supports {supported[0]}-{supported[1]}" if supported else "does not know it"
    return f"level {level} of {name} is finalized, and this broker {support}"


def _register(cluster: ZooKeeperCluster, node_id: int) -> ZooKeeperCluster:
    build = cluster.build(node_id)
    supported = build.supported if build.feature_versioning else {}
    cluster = replace(cluster, advertised={**cluster.advertised, node_id: supported})
    if cluster.held and cluster.controller_id is not None:
        return replace(cluster, queued=(*cluster.queued, node_id))
    return _process_registration(cluster, node_id)


def _process_registration(cluster: ZooKeeperCluster, node_id: int) -> ZooKeeperCluster:
    """Let the controller process a registration. It ignores a broker that does not support the finalized levels."""
    features = cluster.features
    ignores = features.enabled and first_unsupported(cluster.advertised[node_id], features.levels) is not None
    return replace(cluster, ignored=cluster.ignored | {node_id}) if ignores else cluster


def _elect(cluster: ZooKeeperCluster) -> ZooKeeperCluster:
    candidates = [node_id for node_id in sorted(cluster.advertised) if _can_lead(cluster, node_id)]
    if cluster.controller_id in candidates:
        return cluster
    if not candidates:
        return replace(cluster, controller_id=None)
    # A new controller has no queue: it reads the list of brokers.
    elected = replace(cluster, controller_id=candidates[0], held=False, queued=(), ignored=frozenset())
    elected = _set_status(elected)
    for node_id in sorted(elected.advertised):
        elected = _process_registration(elected, node_id)
    return elected


def _can_lead(cluster: ZooKeeperCluster, node_id: int) -> bool:
    node = cluster.nodes.get(node_id)
    return node is not None and node.status == "running" and node_id not in cluster.partition


def _set_status(cluster: ZooKeeperCluster) -> ZooKeeperCluster:
    """Let a new controller set the status of ``/features`` ("Feature ZK node status")."""
    assert cluster.controller_id is not None
    enabled, before = cluster.build(cluster.controller_id).feature_versioning, cluster.features
    levels = before.levels if enabled and before.enabled else {}
    unchanged = (before.enabled, before.levels) == (enabled, levels)
    return cluster if unchanged else _write(cluster, levels, enabled=enabled)


def _deprecate_levels(cluster: ZooKeeperCluster) -> ZooKeeperCluster:
    """Raise the lowest finalized levels to the highest minimum that a broker supports ("version deprecation")."""
    if cluster.controller_id is None or not cluster.features.enabled:
        return cluster
    if not cluster.build(cluster.controller_id).feature_versioning:
        return cluster
    supported = [cluster.advertised[node_id] for node_id in cluster.listed_brokers]
    levels = {
        name: (min(highest, max([lowest, *(each[name][0] for each in supported if name in each)])), highest)
        for name, (lowest, highest) in cluster.features.levels.items()
    }
    return cluster if levels == cluster.features.levels else _write(cluster, levels)


def _write(
    cluster: ZooKeeperCluster, levels: Mapping[str, tuple[int, int]], *, enabled: bool = True
) -> ZooKeeperCluster:
    return replace(cluster, history=(*cluster.history, FeaturesNode(cluster.features.version + 1, enabled, levels)))
