"""A simulated cluster over real sockets, for any client."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from featuregate.testing.fakes.answers import NO_CONTROLLER, ClusterMembers
from featuregate.testing.fakes.broker import FakeBroker
from featuregate.testing.fakes.cluster import FakeCluster
from featuregate.testing.simulator.cluster import Cluster, ClusterSpec, apply, update_features

if TYPE_CHECKING:
    import asyncio
    import ssl

    from featuregate.roles import Role
    from featuregate.testing.fakes.session import Controller
    from featuregate.testing.simulator.events import ClusterEvent
    from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


class SimulatedCluster(FakeCluster):
    """A fake cluster whose nodes answer as those of a simulated cluster, and whose controller answers UpdateFeatures.

    Faults of single answers work as on any :class:`~featuregate.testing.FakeCluster`. The simulation decides what nodes
    report and whether they accept connections: other changes through the handle of a broker last until the next event.
    Time passes only by events.

    Parameters
    ----------
    spec
        The new cluster, such as ``KRaft("3.9")``.
    passwords, tls
        As for a fake cluster.
    """

    def __init__(
        self, spec: ClusterSpec, *, passwords: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._current: Cluster = spec.create()
        super().__init__(0, release=spec.find_build(spec.build).release, cluster_id=self._current.cluster_id)
        self._passwords, self._tls = passwords, tls
        self._moving: set[asyncio.Task[None]] = set()

    @property
    def current(self) -> Cluster:
        """The simulated cluster as it is now: a value."""
        return self._current

    def apply(self, *events: ClusterEvent) -> UpdateFeaturesResponse | None:
        """Apply events. Return when all nodes answer accordingly, with the answer to a last event that is an update.

        Raises
        ------
        ScriptError
            An event cannot happen. The events before it have happened.
        """
        loop, response = self.loop, None
        for event in events:
            with self.changed:
                before, (self._current, response) = self._current, apply(self._current, event)
                moves = self._follow(before)
            loop.run_all(moves)
        return response

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Raise TypeError: only the controller of a simulated cluster finalizes levels."""
        raise _use(f"apply(upgrade({dict(levels)!r}))")

    def advance_epoch(self, by: int = 1) -> None:
        """Raise TypeError: the epoch of a simulated cluster rises with time."""
        raise _use(f"apply(Tick({by}))")

    def add_broker(self, node_id: int | None = None, *, release: str | None = None) -> FakeBroker:
        """Raise TypeError: a broker joins a simulated cluster by an event."""
        raise _use(f"apply(Join({node_id}, {release!r}))")

    def remove_broker(self, node_id: int) -> None:
        """Raise TypeError: a broker leaves a simulated cluster by an event."""
        raise _use(f"apply(Leave({node_id}))")

    def rebuild(self, *, cluster_id: str | None = None) -> None:  # noqa: ARG002 - a fake cluster's signature
        """Raise TypeError: a simulated cluster is rebuilt by an event."""
        raise _use("apply(Rebuild())")

    # ------------------------------------------------------------------ the brokers' side

    def members(self) -> ClusterMembers:
        """Return the nodes of the cluster. Called by the brokers."""
        registered = [
            broker.node for node_id, broker in self._brokers.items() if node_id in self._current.listed_brokers
        ]
        active = self._current.controller_id
        return replace(
            super().members(),
            brokers=tuple(registered),
            controller_id=NO_CONTROLLER if active is None else active,
            voters=getattr(self._current, "voters", ()),
        )

    def controller(self, node_id: int, role: Role) -> Controller:
        """Return what answers UpdateFeatures at this node's listener. Called by the brokers, in the loop's thread."""

        def answer(request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse | None:
            before = self._current
            self._current, response = update_features(before, request, version, node_id=node_id, role=role)
            if response is None:  # the request waits until an event makes an answer possible
                return None
            for move in self._follow(before):
                task = self.loop.loop.create_task(move)
                self._moving.add(task)
                task.add_done_callback(self._moving.discard)
            return response

        return answer

    def _listen(self) -> None:
        with self.changed:
            moves = self._follow(None)
        self.loop.run_all(moves)

    def _follow(self, before: Cluster | None) -> list[Coroutine[Any, Any, None]]:
        """Update what every node answers. Return the coroutines that open and shut listeners, for the loop."""
        self.cluster_id = self._current.cluster_id
        self.finalized, self.epoch = self._current.levels, self._current.node_state(min(self._current.nodes)).epoch
        moves = self._gone()
        moves += self._follow_role("broker", self._brokers, before)
        return moves + self._follow_role("controller", self._controllers, before)

    def _gone(self) -> list[Coroutine[Any, Any, None]]:
        gone = [node_id for node_id in self._brokers if node_id not in self._current.nodes]
        return [self._brokers.pop(node_id).listener.release() for node_id in gone]

    def _follow_role(
        self, role: Role, kept: dict[int, FakeBroker], before: Cluster | None
    ) -> list[Coroutine[Any, Any, None]]:
        moves: list[Coroutine[Any, Any, None]] = []
        for node_id, node in sorted(self._current.nodes.items()):
            if not (node.is_broker if role == "broker" else node.is_controller):
                continue
            state = self._current.node_state(node_id, role)
            served = kept.get(node_id)
            if served is None:
                served = kept[node_id] = FakeBroker(self, state, tls=self._tls)
            served.set_state(state, fenced=role == "broker" and node.fenced, paused=node.status == "paused")
            if not node.accepts_connections(role):
                moves += [served.listener.shut()] if served.listener.is_open else []
            elif not served.listener.is_open:
                moves.append(served.listener.open())
            elif before is not None and _restarted(before, self._current, node_id):
                moves.append(served.listener.hang_up())
            else:
                moves.append(served.listener.go_on())
        return moves


def _use(instead: str) -> TypeError:
    return TypeError(f"this cluster is simulated: use {instead}, with the names of featuregate.testing.simulator")


def _restarted(before: Cluster, now: Cluster, node_id: int) -> bool:
    """Return whether the node runs in another process than before, so that its connections have ended."""
    then = before.nodes.get(node_id)
    return before.number != now.number or then is None or then.start_count != now.nodes[node_id].start_count
