"""The nodes of a fake cluster, their finalized levels and their controller, without sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from featuregate.admin import outcomes
from featuregate.catalog import METADATA_VERSION
from featuregate.sources.brokers import broker_answer
from featuregate.testing.fakes.answers import NO_CONTROLLER, ClusterMembers, NodeState
from featuregate.testing.fakes.controllers import answer_update, elected, not_controller, rules_controller
from featuregate.testing.fakes.releases import forwarded
from featuregate.view.merging import merge

if TYPE_CHECKING:
    from featuregate.admin.updates import Update
    from featuregate.roles import Role
    from featuregate.testing.fakes.broker import FakeBroker
    from featuregate.testing.fakes.session import Controller
    from featuregate.view.cluster_view import View
    from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


class FakeNodes:
    """Brokers and controllers of one cluster, and what they agree on. A :class:`FakeCluster` serves them.

    Attributes
    ----------
    cluster_id : str
        The cluster id.
    finalized, epoch : Mapping, int
        The finalized levels above 0, and their epoch.
    voters : Sequence or None
        The ids of the controllers that vote; ``None``: all of them. Others are registered, as one that has gone.
    changed : Condition
        Guards all of this.
    """

    def __init__(
        self, cluster_id: str, finalized: Mapping[str, int], epoch: int, passwords: Mapping[str, str] | None
    ) -> None:
        self.cluster_id = cluster_id
        self.finalized: Mapping[str, int] = MappingProxyType(dict(finalized))
        self.epoch = epoch
        self.voters: Sequence[int] | None = None
        self.changed = threading.Condition(threading.RLock())
        self._passwords = passwords
        self._brokers: dict[int, FakeBroker] = {}
        self._controllers: dict[int, FakeBroker] = {}
        self._active: int | None = None
        self._waiting = False
        """Whether a request waits for a controller."""

    # ------------------------------------------------------------------ nodes

    @property
    def brokers(self) -> tuple[FakeBroker, ...]:
        """The registered brokers, by node id."""
        with self.changed:
            return tuple(self._brokers.values())

    @property
    def controllers(self) -> tuple[FakeBroker, ...]:
        """The controllers, by node id."""
        with self.changed:
            return tuple(self._controllers.values())

    def broker(self, node_id: int) -> FakeBroker:
        """Return the handle of a broker or a controller."""
        with self.changed:
            return {**self._controllers, **self._brokers}[node_id]

    def _all_nodes(self) -> list[FakeBroker]:
        return [*self._brokers.values(), *self._controllers.values()]

    # ------------------------------------------------------------------ finalized levels

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Finalize these levels, 0 for none, at a higher epoch. Brokers that do not lag report them at once.

        Nothing is checked: levels may rise or fall, and brokers need not support them, so that tests can have wrong
        clusters too.
        """
        with self.changed:
            merged = {**self.finalized, **levels}
            self.finalized = MappingProxyType({name: level for name, level in merged.items() if level > 0})
            self.advance_epoch()
            for controller in self._controllers.values():
                controller.follow_cluster()

    def advance_epoch(self, by: int = 1) -> None:
        """Raise the epoch and change nothing else, as KRaft does twice a second.

        The epoch of controllers stays: it is that of the last change of levels.
        """
        with self.changed:
            self.epoch += by
            for node in self._brokers.values():
                node.follow_cluster()

    def update(
        self, updates: Iterable[Update], *, dry_run: bool = False, version: int = 1
    ) -> UpdateFeaturesResponse | None:
        """Ask the active controller for other levels, and return its answer; ``None`` where no controller is active.

        It decides as Kafka's controller of its release does, with its error codes and words: by the rules of
        :func:`featuregate.admin.plans.plan`. ``version`` is that of UpdateFeatures.
        """
        request = outcomes.request(tuple(updates), 0, dry_run=dry_run)
        with self.changed:
            return self._answer_update(None, request, version)

    # ------------------------------------------------------------------ controllers

    @property
    def controller_id(self) -> int | None:
        """The active controller; ``None`` where none is: no majority of the voters runs."""
        with self.changed:
            nodes = self._controllers or self._brokers
            voters = [node for node in nodes.values() if self.voters is None or node.node_id in self.voters]
            self._active = elected(voters, self._active, combined=not self._controllers)
            return self._active

    def elect(self, node_id: int) -> None:
        """Make a node the active controller, which it stays while it runs."""
        with self.changed:
            self._active = self.broker(node_id).node_id

    def view(self, role: Role = "broker", *, previous: View | None = None, now: float = 0.0) -> View:
        """Return the view of one poll, without a network: for a cluster that was not started, and in milliseconds.

        ``previous`` is the view of the poll before, and ``now`` the time of the answers, in seconds since the Unix
        epoch. Faults of one answer wait for a request.
        """
        with self.changed:
            nodes = self.controllers if role == "controller" else self.brokers
            return merge(
                [broker_answer(node.probed(), answered_at=now) for node in nodes],
                cluster_id=self.cluster_id,
                controller_id=self.controller_id,
                role=role,
                previous=previous,
                seen_at=now,
            )

    # ------------------------------------------------------------------ called by the brokers

    def members(self) -> ClusterMembers:
        """Return the nodes of the cluster. Called by the brokers."""
        active = NO_CONTROLLER if self.controller_id is None else self.controller_id
        return ClusterMembers(
            brokers=tuple(broker.node for broker in self._brokers.values()),
            controllers=tuple(controller.node for controller in self._controllers.values()),
            passwords=self._passwords,
            controller_id=active if self._controllers else None,
            voters=None if self.voters is None else tuple(self.voters),
        )

    def controller(self, node_id: int, role: Role) -> Controller | None:
        """Return what answers UpdateFeatures at a node; ``None`` before KRaft. Called by the brokers."""
        if METADATA_VERSION not in self.broker(node_id).supported:
            return None
        return partial(self._answer_update, node_id if role == "controller" else None)

    def _answer_update(
        self, asked: int | None, request: UpdateFeaturesRequest, version: int
    ) -> UpdateFeaturesResponse | None:
        """Answer at a controller, or where a broker forwards the request; ``None``: when there is a controller."""
        active = self.controller_id
        if asked not in {None, active}:
            return not_controller(active)
        if active is None:
            self._waiting = True
            return None
        nodes = self._controllers or self._brokers
        controller = rules_controller(nodes[active], self.brokers, nodes.values(), self.finalized)
        voters = [node for node in nodes.values() if self.voters is None or node.node_id in self.voters]
        others = [node for node in voters if node.node_id != active]
        response, levels = answer_update(controller, others, request, version)
        if levels:
            self.finalize(levels)
        return response

    def seen_by_clients(self, state: NodeState) -> NodeState:
        """Return what a node reports while this controller is active. Brokers call it with the ranges of a release."""
        active = self.controller_id if self._controllers and state.role == "broker" else None
        if active is None:
            return state
        return replace(state, api_ranges=forwarded(state.api_ranges, self._controllers[active].state.api_ranges))
