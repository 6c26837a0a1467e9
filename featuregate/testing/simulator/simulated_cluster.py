"""A simulated cluster over real sockets, for any client."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from featuregate.testing.fakes.answers import NOBODY
from featuregate.testing.fakes.broker import FakeBroker
from featuregate.testing.fakes.cluster import FakeCluster
from featuregate.testing.simulator.cluster import apply, update_features

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Coroutine, Mapping
    from typing import Any

    from featuregate.roles import Role
    from featuregate.testing.fakes.answers import Controller, Listing
    from featuregate.testing.simulator.cluster import Beginning, Cluster
    from featuregate.testing.simulator.events import ClusterEvent
    from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

__all__ = ["SimulatedCluster"]


class SimulatedCluster(FakeCluster):
    """A fake cluster whose nodes tell what those of a simulated one do, and whose controller judges UpdateFeatures.

    Faults of single answers work as on any :class:`~featuregate.testing.FakeCluster`. What nodes tell and whether they
    listen goes by the simulation: whatever else the handle of a broker changes lasts until the next event. Time passes
    only when the test says so.

    Parameters
    ----------
    start
        How the cluster begins, such as ``KRaft("3.9")``.
    passwords, tls
        As of a fake cluster.
    """

    def __init__(
        self, start: Beginning, *, passwords: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._now: Cluster = start.begin()
        super().__init__(0, release=start.find(start.binary).release, cluster_id=self._now.cluster_id)
        self._passwords, self._tls = passwords, tls
        self._moving: set[asyncio.Task[None]] = set()

    @property
    def now(self) -> Cluster:
        """The simulated cluster as it is now: a value."""
        return self._now

    def happen(self, *events: ClusterEvent) -> UpdateFeaturesResponse | None:
        """Let events happen; returns when every node tells what follows, with what an operator was told at last.

        Raises
        ------
        ScriptError
            One cannot happen; those before it have.
        """
        loop, response = self.loop, None
        for event in events:
            with self.changed:
                before, (self._now, response) = self._now, apply(self._now, event)
                moves = self._follow(before)
            loop.run(_all(moves))
        return response

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Refuse: what a simulated cluster agrees on is its controller's to say."""
        raise _not_so(f"happen(upgrade({dict(levels)!r}))")

    def advance_epoch(self, by: int = 1) -> None:
        """Refuse: time makes the epoch rise."""
        raise _not_so(f"happen(Tick({by}))")

    def add_broker(self, node_id: int | None = None, *, release: str | None = None) -> FakeBroker:
        """Refuse: a broker joins."""
        raise _not_so(f"happen(Join({node_id}, {release!r}))")

    def remove_broker(self, node_id: int) -> None:
        """Refuse: a broker leaves."""
        raise _not_so(f"happen(Leave({node_id}))")

    def rebuild(self, *, cluster_id: str | None = None) -> None:  # noqa: ARG002 - a fake cluster's signature
        """Refuse: it is an event."""
        raise _not_so("happen(Rebuild())")

    # ------------------------------------------------------------------ the brokers' side

    def listing(self) -> Listing:
        """Say which nodes there are. For the brokers."""
        registered = [broker.node for node_id, broker in self._brokers.items() if node_id in self._now.known]
        active = self._now.controller_id
        return replace(super().listing(), brokers=tuple(registered), controller_id=NOBODY if active is None else active)

    def controller(self, node_id: int, role: Role) -> Controller:
        """Give what answers UpdateFeatures at this node's listener. For the brokers, in the loop's thread."""

        def judge(request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse | None:
            before = self._now
            self._now, response = update_features(before, request, version, asked=node_id, role=role)
            if response is None:  # the request waits at the broker, until something happens
                return None
            for move in self._follow(before):
                task = self.loop.loop.create_task(move)
                self._moving.add(task)
                task.add_done_callback(self._moving.discard)
            return response

        return judge

    def _listen(self) -> None:
        with self.changed:
            moves = self._follow(None)
        self.loop.run(_all(moves))

    def _follow(self, before: Cluster | None) -> list[Coroutine[Any, Any, None]]:
        """Let every node tell what it does now; what opens and shuts listeners is left to the loop."""
        self.cluster_id = self._now.cluster_id
        self.finalized, self.epoch = self._now.levels, self._now.tells(min(self._now.nodes)).epoch
        moves = self._gone()
        moves += self._follow_role("broker", self._brokers, before)
        return moves + self._follow_role("controller", self._controllers, before)

    def _gone(self) -> list[Coroutine[Any, Any, None]]:
        gone = [node_id for node_id in self._brokers if node_id not in self._now.nodes]
        return [self._brokers.pop(node_id).listener.release() for node_id in gone]

    def _follow_role(
        self, role: Role, kept: dict[int, FakeBroker], before: Cluster | None
    ) -> list[Coroutine[Any, Any, None]]:
        moves: list[Coroutine[Any, Any, None]] = []
        for node_id, node in sorted(self._now.nodes.items()):
            if not (node.is_broker if role == "broker" else node.is_controller):
                continue
            tells = self._now.tells(node_id, role)
            served = kept.get(node_id)
            if served is None:
                served = kept[node_id] = FakeBroker(self, tells, tls=self._tls)
            served.become(tells, fenced=role == "broker" and node.fenced, silent=node.state == "paused")
            if not node.listens(role):
                moves += [served.listener.shut()] if served.listener.is_open else []
            elif not served.listener.is_open:
                moves.append(served.listener.open())
            elif before is not None and _is_another(before, self._now, node_id):
                moves.append(served.listener.hang_up())
            else:
                moves.append(served.listener.go_on())
        return moves


def _not_so(instead: str) -> TypeError:
    return TypeError(f"this cluster is simulated: use {instead}, with the names of featuregate.testing.simulator")


def _is_another(before: Cluster, now: Cluster, node_id: int) -> bool:
    """Say whether this is another process than before, so that connections to it have ended."""
    then = before.nodes.get(node_id)
    return before.number != now.number or then is None or then.starts != now.nodes[node_id].starts


async def _all(moves: list[Coroutine[Any, Any, None]]) -> None:
    for move in moves:
        await move
