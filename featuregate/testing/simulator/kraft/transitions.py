"""What happens to a cluster with KRaft, event by event. Pure: each step makes another cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.admin.kraft_rules import CONTROLLERS_REGISTER_FROM
from featuregate.catalog import METADATA_VERSION
from featuregate.testing.simulator.events import (
    CatchUp,
    ClusterEvent,
    Heal,
    Join,
    Kill,
    Lag,
    Leave,
    Partition,
    Pause,
    Rebuild,
    Restore,
    Resume,
    Roll,
    ScriptError,
    Start,
    Stop,
    Tick,
)
from featuregate.testing.simulator.kraft.cluster import KRaftCluster, Levels
from featuregate.testing.simulator.kraft.controller import judge
from featuregate.testing.simulator.nodes import Node, NodeState
from featuregate.wire.update_features import UpdateFeaturesResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.roles import Role
    from featuregate.wire.update_features import UpdateFeaturesRequest

__all__ = ["step", "update"]

_SESSION_TICKS: Final = 18
"""``broker.session.timeout.ms`` of nine seconds."""
_PATIENCE_TICKS: Final = 120
"""``initial.broker.registration.timeout.ms`` of a minute, after which a broker that is not let in ends."""
_NO_OP_FROM: Final = 5
"""``metadata.version`` 3.3-IV1, the first with records that say nothing."""
_UNREGISTERED: Final = "Shutting down because we were unable to register with the controller quorum."
_NOT_CONTROLLER: Final = 41


class _Change(NamedTuple):
    """What an event makes of a node, where it is in one of these states; of others nothing."""

    states: tuple[str, ...]
    to: Mapping[str, Any]


_CHANGES: Final[Mapping[type[ClusterEvent], _Change]] = {
    Pause: _Change(("running",), {"state": "paused"}),
    Resume: _Change(("paused",), {"state": "running"}),
    Lag: _Change(("running", "paused"), {"lagging": True}),
    CatchUp: _Change(("running", "paused"), {"lagging": False}),
}


def step(cluster: KRaftCluster, event: ClusterEvent) -> KRaftCluster:
    """Let an event other than an update happen.

    Raises
    ------
    ScriptError
        It cannot happen to this cluster.
    """
    return _settled(cluster, _happened(cluster, event))


def update(
    cluster: KRaftCluster,
    request: UpdateFeaturesRequest,
    version: int,
    *,
    asked: int | None = None,
    role: Role | None = None,
) -> tuple[KRaftCluster, UpdateFeaturesResponse | None]:
    """Answer UpdateFeatures, asked at this listener of a node or, with ``None``, at the active controller.

    A broker forwards it; where there is no controller to forward it to, nobody answers.
    """
    if asked is not None:
        node = cluster.node(asked)
        forwards = node.is_broker if role is None else role == "broker"
        if not node.alive or (forwards and not cluster.reaches_controller(node)):
            return cluster, None
        if not forwards and asked != cluster.active:
            return cluster, _wrong_controller(cluster, node)
    if cluster.active is None:
        return cluster, None
    judged = judge(cluster.registry, request, version)
    written = cluster
    for name, level in judged.records.items():
        written = _finalized(written, name, level)
    if judged.kraft_version is not None:
        # Not a change of the levels in the log: the epoch of controllers stays as it was.
        written = replace(written, kraft_version=judged.kraft_version, offset=written.offset + 2)
    return _settled(cluster, written), judged.response


def _wrong_controller(cluster: KRaftCluster, node: Node) -> UpdateFeaturesResponse:
    known = cluster.reaches_controller(node)
    text = f"The active controller appears to be node {cluster.active}." if known else None
    return UpdateFeaturesResponse(
        error_code=_NOT_CONTROLLER, error_message=text or "No controller appears to be active."
    )


def _finalized(cluster: KRaftCluster, name: str, level: int) -> KRaftCluster:
    levels = {**cluster.history[-1].levels, name: level}
    offset = cluster.offset + 1
    change = Levels(offset, {name: level for name, level in levels.items() if level > 0})
    return replace(cluster, offset=offset, history=(*cluster.history, change))


# ------------------------------------------------------------------ what happens


def _happened(cluster: KRaftCluster, event: ClusterEvent) -> KRaftCluster:  # noqa: C901, PLR0911 - one line an event
    match event:
        case Tick(ticks):
            return _ticked(cluster, ticks)
        case Partition(node_ids):
            return replace(cluster, cut_off=frozenset(cluster.node(node_id).node_id for node_id in node_ids))
        case Heal():
            return replace(cluster, cut_off=frozenset())
        case Join(node_id, binary):
            return _joined(cluster, node_id, binary)
        case Leave(node_id):
            return _left(cluster, node_id)
        case Rebuild() | Restore():
            return cluster.plan.begin(number=cluster.number + isinstance(event, Rebuild))
        case Roll(node_id, binary):
            cluster.plan.find(binary)
            # The quorum notices that it is gone before it is back.
            return _started(_settled(cluster, _ended(cluster, node_id, fenced=True)), node_id, binary)
        case Start(node_id, named):
            return _started(cluster, node_id, named)
        case Stop(node_id):
            return _ended(cluster, node_id, fenced=True)
        case Kill(node_id):
            return _ended(cluster, node_id, fenced=False)
        case Pause(node_id) | Resume(node_id) | Lag(node_id) | CatchUp(node_id):
            return _changed(cluster, node_id, _CHANGES[type(event)])
        case _:
            raise ScriptError(f"{event!r} does not happen to a cluster with KRaft")


def _changed(cluster: KRaftCluster, node_id: int, change: _Change) -> KRaftCluster:
    node = cluster.node(node_id)
    return _with(cluster, replace(node, **change.to)) if node.state in change.states else cluster


def _with(cluster: KRaftCluster, *nodes: Node) -> KRaftCluster:
    return replace(cluster, nodes={**cluster.nodes, **{node.node_id: node for node in nodes}})


def _ended(cluster: KRaftCluster, node_id: int, *, fenced: bool) -> KRaftCluster:
    node = cluster.node(node_id)
    if node.state in ("stopped", "died"):
        return cluster
    # Only a controller that hears of the end can fence it at once.
    fenced = node.fenced or (fenced and node.is_broker and cluster.reaches_controller(node))
    return _with(cluster, replace(node, state="stopped", why="", lagging=False, fenced=fenced))


def _started(cluster: KRaftCluster, node_id: int, binary: str | None) -> KRaftCluster:
    node = cluster.node(node_id)
    if node.state not in ("stopped", "died"):
        return cluster
    name = binary or node.binary
    cluster.plan.find(name)
    state: NodeState = "starting" if node.is_broker else "running"
    started = replace(node, binary=name, state=state, why="", loaded=False)
    return _with(cluster, replace(started, starts=node.starts + 1, started_at=cluster.ticks))


def _joined(cluster: KRaftCluster, node_id: int, binary: str) -> KRaftCluster:
    if node_id in cluster.nodes:
        raise ScriptError(f"there is a node {node_id} already")
    cluster.plan.find(binary)
    return _with(cluster, Node(node_id=node_id, binary=binary, state="starting", heard=0, started_at=cluster.ticks))


def _left(cluster: KRaftCluster, node_id: int) -> KRaftCluster:
    if cluster.node(node_id).is_controller:
        raise ScriptError(f"node {node_id} is a voter: only brokers leave")
    if cluster.active is None:
        return cluster  # nobody is there to unregister it
    return replace(
        cluster,
        nodes={other: node for other, node in cluster.nodes.items() if other != node_id},
        registered={other: said for other, said in cluster.registered.items() if other != node_id},
        offset=cluster.offset + 1,
    )


def _ticked(cluster: KRaftCluster, ticks: int) -> KRaftCluster:
    if ticks < 0:
        raise ScriptError(f"time does not go back: {ticks} ticks")
    writes = cluster.active is not None and cluster.history[-1].levels[METADATA_VERSION] >= _NO_OP_FROM
    later = replace(cluster, ticks=cluster.ticks + ticks, offset=cluster.offset + ticks * writes)
    impatient = [node for node in later.nodes.values() if _has_waited_enough(later, node)]
    later = _with(later, *(replace(node, state="died", why=node.why or _UNREGISTERED) for node in impatient))
    if cluster.active is None:
        return later
    over = [node for node in later.nodes.values() if _session_is_over(later, node)]
    return _with(replace(later, offset=later.offset + len(over)), *(replace(node, fenced=True) for node in over))


def _has_waited_enough(cluster: KRaftCluster, node: Node) -> bool:
    return node.state in ("starting", "refused") and cluster.ticks - node.started_at >= _PATIENCE_TICKS


def _session_is_over(cluster: KRaftCluster, node: Node) -> bool:
    gone = node.is_broker and not node.fenced and node.away_since is not None
    return gone and cluster.ticks - (node.away_since or 0) >= _SESSION_TICKS


# ------------------------------------------------------------------ what follows by itself


def _settled(before: KRaftCluster, cluster: KRaftCluster) -> KRaftCluster:
    """Let everything that follows from an event happen: elections, ends, registrations, news."""
    elected = _elected(cluster)
    heard = _heard(before, elected)
    if elected.active != cluster.active and elected.active is not None:
        heard = replace(heard, offset=heard.offset + 1)
    return _brokers_registered(_controllers_registered(heard))


def _elected(cluster: KRaftCluster) -> KRaftCluster:
    """Elect a controller where there is a majority for it; voters that cannot read the log have died before."""
    voters = [cluster.nodes[voter] for voter in cluster.voters]
    dead = [
        replace(node, state="died", why=problem)
        for node in voters
        if node.alive and (problem := _unreadable(cluster, node)) is not None
    ]
    cluster = _with(cluster, *dead) if dead else cluster
    alive = [voter for voter in cluster.voters if cluster.nodes[voter].alive]
    for side in (True, False):
        there = [voter for voter in alive if (voter in cluster.cut_off) is side]
        if 2 * len(there) > len(cluster.voters):
            return replace(cluster, active=cluster.active if cluster.active in there else there[0])
    return replace(cluster, active=None)


def _unreadable(cluster: KRaftCluster, node: Node) -> str | None:
    """Say which record a controller cannot replay (``FeatureControlManager.replay``)."""
    if node.loaded and node.heard is not None and not cluster.reaches_controller(node):
        return None  # it runs, and has not met the record yet
    supported = cluster.binary(node.node_id).supported
    for name, level in cluster.history[-1].levels.items():
        lowest, highest = supported.get(name, (0, 0))
        if not lowest <= level <= highest:
            return f"it cannot replay level {level} of {name}: it supports {lowest}-{highest}"
    return None


def _heard(before: KRaftCluster, cluster: KRaftCluster) -> KRaftCluster:
    """Freeze what nodes have heard that hear nothing new any more, and let the others hear everything."""
    nodes, moved = list(cluster.nodes.values()), []
    if (before.active, before.cut_off) == (cluster.active, cluster.cut_off):
        nodes = [node for node in nodes if before.nodes.get(node.node_id) is not node]
    for node in nodes:
        reaches = cluster.reaches_controller(node)
        follows = reaches and not node.lagging and node.state == "running"
        present = reaches and node.state == "running"
        heard = None if follows else cluster.offset if node.heard is None else node.heard
        away = None if present else cluster.ticks if node.away_since is None else node.away_since
        fenced, loaded = node.fenced and not present, node.loaded or follows
        if (heard, away, fenced, loaded) != (node.heard, node.away_since, node.fenced, node.loaded):
            moved.append(replace(node, heard=heard, away_since=away, fenced=fenced, loaded=loaded))
    return _with(cluster, *moved) if moved else cluster


def _controllers_registered(cluster: KRaftCluster) -> KRaftCluster:
    if cluster.active is None or cluster.history[-1].levels[METADATA_VERSION] < CONTROLLERS_REGISTER_FROM:
        return cluster
    present = [voter for voter in cluster.voters if cluster.reaches_controller(cluster.nodes[voter])]
    said = {voter: cluster.binary(voter).supported for voter in present}
    new = [voter for voter in present if cluster.controllers.get(voter) != said[voter]]
    if not new:
        return cluster
    return replace(cluster, controllers={**cluster.controllers, **said}, offset=cluster.offset + len(new))


def _brokers_registered(cluster: KRaftCluster) -> KRaftCluster:
    for node in cluster.nodes.values():
        # One that was refused tries again and again.
        if node.state in ("starting", "refused") and cluster.reaches_controller(node):
            cluster = _registered(cluster, node)
    return cluster


def _registered(cluster: KRaftCluster, node: Node) -> KRaftCluster:
    """Let a broker in, or refuse it (``ClusterControlManager.registerBroker``)."""
    supported, levels = cluster.binary(node.node_id).supported, cluster.history[-1].levels
    lowest, highest = supported[METADATA_VERSION]
    if not lowest <= levels[METADATA_VERSION] <= highest:
        # It is refused, too; but before it can try again, reading the log ends its process.
        why = f"No MetadataVersion with feature level {levels[METADATA_VERSION]}"
        return _with(cluster, replace(node, state="died", why=why))
    problem = _registration_problem(levels, supported)
    if problem is not None:
        return _with(cluster, replace(node, state="refused", why=problem))
    let_in = replace(node, state="running", heard=None, loaded=True, away_since=None, fenced=False)
    registered = {**cluster.registered, node.node_id: supported}
    return replace(_with(cluster, let_in), registered=registered, offset=cluster.offset + 2)


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
