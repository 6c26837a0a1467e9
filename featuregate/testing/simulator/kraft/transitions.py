"""How events change a cluster with KRaft. Pure: each event gives another cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from featuregate.admin.kraft_rules import CONTROLLERS_REGISTER_FROM
from featuregate.catalog import METADATA_VERSION
from featuregate.testing.simulator.events import ClusterEvent, Join, Kill, Leave, Roll, ScriptError, Start, Stop, Tick
from featuregate.testing.simulator.kraft.cluster import KRaftCluster, LevelsChange
from featuregate.testing.simulator.kraft.controller import answer_update
from featuregate.testing.simulator.nodes import NodeStatus, SimulatedNode
from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from featuregate.roles import Role

_SESSION_TICKS: Final = 18
"""``broker.session.timeout.ms`` of nine seconds."""
_REGISTRATION_TICKS: Final = 120
"""``initial.broker.registration.timeout.ms`` of a minute, after which a broker that is not registered ends."""
_NO_OP_RECORDS_FROM: Final = 5
"""``metadata.version`` 3.3-IV1, the first with NoOpRecord."""
_UNREGISTERED: Final = "Shutting down because we were unable to register with the controller quorum."
_NOT_CONTROLLER: Final = 41


def apply(cluster: KRaftCluster, event: ClusterEvent) -> KRaftCluster:
    """Apply an event other than an update.

    Raises
    ------
    ScriptError
        The event cannot happen to this cluster.
    """
    return _with_consequences(cluster, _apply_event(cluster, event))


def update(
    cluster: KRaftCluster,
    request: UpdateFeaturesRequest,
    version: int,
    *,
    node_id: int | None = None,
    role: Role | None = None,
) -> tuple[KRaftCluster, UpdateFeaturesResponse | None]:
    """Answer UpdateFeatures at a node's listener of this role or, without a ``node_id``, at the active controller.

    A broker forwards the request to the active controller. Without one, the answer is ``None``.
    """
    if node_id is not None:
        node = cluster.node(node_id)
        forwards = node.is_broker if role is None else role == "broker"
        if not node.alive or (forwards and not cluster.reaches_controller(node)):
            return cluster, None
        if not forwards and node_id != cluster.active:
            return cluster, _not_controller(cluster, node)
    if cluster.active is None:
        return cluster, None
    answer = answer_update(cluster, request, version)
    written = cluster
    for name, level in answer.records.items():
        written = _finalize(written, name, level)
    if answer.kraft_version is not None:
        # This does not change the levels in the log, so the epoch of controllers stays the same.
        written = replace(written, kraft_version=answer.kraft_version, offset=written.offset + 2)
    return _with_consequences(cluster, written), answer.response


def _not_controller(cluster: KRaftCluster, node: SimulatedNode) -> UpdateFeaturesResponse:
    known = cluster.reaches_controller(node)
    text = f"The active controller appears to be node {cluster.active}." if known else None
    return UpdateFeaturesResponse(
        error_code=_NOT_CONTROLLER, error_message=text or "No controller appears to be active."
    )


def _finalize(cluster: KRaftCluster, name: str, level: int) -> KRaftCluster:
    levels = {**cluster.history[-1].levels, name: level}
    offset = cluster.offset + 1
    change = LevelsChange(offset, {name: level for name, level in levels.items() if level > 0})
    return replace(cluster, offset=offset, history=(*cluster.history, change))


# ------------------------------------------------------------------ events


def _apply_event(cluster: KRaftCluster, event: ClusterEvent) -> KRaftCluster:  # noqa: PLR0911 - one line an event
    match event:
        case Tick(ticks):
            return _advance(cluster, ticks)
        case Join(node_id, build):
            cluster.check_new(node_id, build)
            node = SimulatedNode(
                node_id=node_id, build=build, status="starting", read_up_to=0, started_at=cluster.ticks
            )
            return cluster.with_nodes(node)
        case Leave(node_id):
            return _unregister(cluster, node_id)
        case Roll(node_id, build):
            cluster.spec.find_build(build)
            # The quorum notices the end of the node before the node is back.
            return _start(_with_consequences(cluster, _end(cluster, node_id, fenced=True)), node_id, build)
        case Start(node_id, build):
            return _start(cluster, node_id, build)
        case Stop(node_id) | Kill(node_id):
            return _end(cluster, node_id, fenced=isinstance(event, Stop))
        case _:
            return cluster.apply_common(event)


def _end(cluster: KRaftCluster, node_id: int, *, fenced: bool) -> KRaftCluster:
    node = cluster.node(node_id)
    if node.ended:
        return cluster
    # A controller fences the broker at once only if the broker can tell it that it stops.
    fenced = node.fenced or (fenced and node.is_broker and cluster.reaches_controller(node))
    return cluster.with_nodes(replace(node, status="stopped", reason="", lagging=False, fenced=fenced))


def _start(cluster: KRaftCluster, node_id: int, build: str | None) -> KRaftCluster:
    node = cluster.node(node_id)
    if not node.ended:
        return cluster
    name = build or node.build
    cluster.spec.find_build(name)
    status: NodeStatus = "starting" if node.is_broker else "running"
    started = replace(node, build=name, status=status, reason="", loaded=False)
    return cluster.with_nodes(replace(started, start_count=node.start_count + 1, started_at=cluster.ticks))


def _unregister(cluster: KRaftCluster, node_id: int) -> KRaftCluster:
    if cluster.node(node_id).is_controller:
        raise ScriptError(f"node {node_id} is a voter: only brokers leave")
    if cluster.active is None:
        return cluster  # no controller can unregister it
    registered = {other: supported for other, supported in cluster.registered.items() if other != node_id}
    return replace(cluster.without_node(node_id), registered=registered, offset=cluster.offset + 1)


def _advance(cluster: KRaftCluster, ticks: int) -> KRaftCluster:
    writes = cluster.active is not None and cluster.history[-1].levels[METADATA_VERSION] >= _NO_OP_RECORDS_FROM
    later = cluster.advance(ticks)
    later = replace(later, offset=cluster.offset + ticks * writes)
    timed_out = [node for node in later.nodes.values() if _registration_timed_out(later, node)]
    later = later.with_nodes(*(replace(node, status="died", reason=node.reason or _UNREGISTERED) for node in timed_out))
    if cluster.active is None:
        return later
    expired = [node for node in later.nodes.values() if _session_expired(later, node)]
    later = replace(later, offset=later.offset + len(expired))
    return later.with_nodes(*(replace(node, fenced=True) for node in expired))


def _registration_timed_out(cluster: KRaftCluster, node: SimulatedNode) -> bool:
    return node.status in ("starting", "refused") and cluster.ticks - node.started_at >= _REGISTRATION_TICKS


def _session_expired(cluster: KRaftCluster, node: SimulatedNode) -> bool:
    disconnected = node.is_broker and not node.fenced and node.disconnected_since is not None
    return disconnected and cluster.ticks - (node.disconnected_since or 0) >= _SESSION_TICKS


# ------------------------------------------------------------------ consequences of an event


def _with_consequences(before: KRaftCluster, cluster: KRaftCluster) -> KRaftCluster:
    """Apply what follows from an event: elections, deaths of controllers, reading of the log, registrations."""
    elected = _elect(cluster)
    after = _read_log(before, elected)
    if elected.active != cluster.active and elected.active is not None:
        after = replace(after, offset=after.offset + 1)
    return _register_brokers(_register_controllers(after))


def _elect(cluster: KRaftCluster) -> KRaftCluster:
    """Elect a controller where a majority of the voters is. Voters that cannot read the log die before."""
    dead = [
        replace(node, status="died", reason=problem)
        for node in (cluster.nodes[voter] for voter in cluster.voters)
        if node.alive and (problem := _unreadable_record(cluster, node)) is not None
    ]
    cluster = cluster.with_nodes(*dead)
    alive = [voter for voter in cluster.voters if cluster.nodes[voter].alive]
    for side in (True, False):
        there = [voter for voter in alive if (voter in cluster.partition) is side]
        if 2 * len(there) > len(cluster.voters):
            return replace(cluster, active=cluster.active if cluster.active in there else there[0])
    return replace(cluster, active=None)


def _unreadable_record(cluster: KRaftCluster, node: SimulatedNode) -> str | None:
    """Return the record that a controller cannot replay (``FeatureControlManager.replay``), if there is one."""
    if node.loaded and node.read_up_to is not None and not cluster.reaches_controller(node):
        return None  # the node runs, and has not read the record yet
    supported = cluster.build(node.node_id).supported
    for name, level in cluster.history[-1].levels.items():
        lowest, highest = supported.get(name, (0, 0))
        if not lowest <= level <= highest:
            return f"it cannot replay level {level} of {name}: it supports {lowest}-{highest}"
    return None


def _read_log(before: KRaftCluster, cluster: KRaftCluster) -> KRaftCluster:
    """Let connected nodes read the log to its end. Other nodes keep the offset that they had reached."""
    nodes, changed = list(cluster.nodes.values()), []
    if (before.active, before.partition) == (cluster.active, cluster.partition):
        nodes = [node for node in nodes if before.nodes.get(node.node_id) is not node]
    for node in nodes:
        connected = cluster.reaches_controller(node) and node.status == "running"
        follows = connected and not node.lagging
        read_up_to = None if follows else cluster.offset if node.read_up_to is None else node.read_up_to
        since = None if connected else cluster.ticks if node.disconnected_since is None else node.disconnected_since
        fenced, loaded = node.fenced and not connected, node.loaded or follows
        if (read_up_to, since, fenced, loaded) != (
            node.read_up_to,
            node.disconnected_since,
            node.fenced,
            node.loaded,
        ):
            changed.append(replace(node, read_up_to=read_up_to, disconnected_since=since, fenced=fenced, loaded=loaded))
    return cluster.with_nodes(*changed)


def _register_controllers(cluster: KRaftCluster) -> KRaftCluster:
    if cluster.active is None or cluster.history[-1].levels[METADATA_VERSION] < CONTROLLERS_REGISTER_FROM:
        return cluster
    present = [voter for voter in cluster.voters if cluster.reaches_controller(cluster.nodes[voter])]
    supported = {voter: cluster.build(voter).supported for voter in present}
    new = [voter for voter in present if cluster.controllers.get(voter) != supported[voter]]
    if not new:
        return cluster
    return replace(cluster, controllers={**cluster.controllers, **supported}, offset=cluster.offset + len(new))


def _register_brokers(cluster: KRaftCluster) -> KRaftCluster:
    for node in cluster.nodes.values():
        # A refused broker repeats its request.
        if node.status in ("starting", "refused") and cluster.reaches_controller(node):
            cluster = _register(cluster, node)
    return cluster


def _register(cluster: KRaftCluster, node: SimulatedNode) -> KRaftCluster:
    """Register a broker, or refuse it (``ClusterControlManager.registerBroker``)."""
    supported, levels = cluster.build(node.node_id).supported, cluster.history[-1].levels
    lowest, highest = supported[METADATA_VERSION]
    if not lowest <= levels[METADATA_VERSION] <= highest:
        # The controller refuses it too, but reading the log ends the process before it can repeat its request.
        reason = f"No MetadataVersion with feature level {levels[METADATA_VERSION]}"
        return cluster.with_nodes(replace(node, status="died", reason=reason))
    problem = _registration_problem(levels, supported)
    if problem is not None:
        return cluster.with_nodes(replace(node, status="refused", reason=problem))
    running = replace(node, status="running", read_up_to=None, loaded=True, disconnected_since=None, fenced=False)
    registered = {**cluster.registered, node.node_id: supported}
    return replace(cluster.with_nodes(running), registered=registered, offset=cluster.offset + 2)


def _registration_problem(levels: Mapping[str, int], supported: Mapping[str, tuple[int, int]]) -> str | None:
    for name in (*supported, *(name for name in levels if name not in supported)):
        lowest, highest = supported.get(name, (0, 0))
        level = levels.get(name, 1 if name == METADATA_VERSION else 0)
        if not lowest <= level <= highest:
            return (
                f"Unable to register because the broker does not support finalized version {level} of {name}. The "
                f"broker wants a version between {lowest} and {highest}, inclusive."
            )
    return None
