"""The state of a cluster as relays announce it: a revision of the view, its status, and the gates. Pure.

Relays share no counter, so a revision is made of what the brokers say, and each replica computes the same one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from featuregate import Decision, Discoverer, Gate, View

_AT_ONCE: Final = 2000
"""API ranges and features of a view whose state is made at once, in about a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedState:
    """What a cluster is like. A poll that finds nothing new makes no other state."""

    revision: str
    """The revision of the view."""
    cluster_id: str | None
    status: str
    """As `Discoverer.health` has it."""
    gates: Mapping[str, bool]
    view: View = field(compare=False, repr=False)
    """A view of this revision: the first that was seen."""

    def to_dict(self) -> dict[str, Any]:
        """Return what events say of the state."""
        return {
            "revision": self.revision,
            "cluster_id": self.cluster_id,
            "status": self.status,
            "gates": dict(self.gates),
        }


def is_open_in(cluster_id: str | None, decision: Decision) -> bool:
    """Say whether a gate is open by a decision of this cluster: gates decide before another view is shown."""
    return decision.open and decision.cluster_id == cluster_id


class CurrentState:
    """The current state of a cluster: the same object until the state changes. None: no broker has answered yet.

    The revision of a large view is computed ``later``, on another thread. Until then the state before is the current
    one.
    """

    def __init__(
        self, features: Discoverer, gates: Iterable[Gate], later: Callable[[Callable[[], object]], None] | None = None
    ) -> None:
        self._features = features
        self._gates = tuple(gates)
        self._later = later
        self._known: tuple[View, ServedState] | None = None
        """One pair, which is replaced as a whole: while it is made, a poll may end, and another thread may make one."""
        self._announced: View | None = None

    def __call__(self) -> ServedState | None:
        """Return the current state."""
        known, view = self._known, self._features.view
        if view is None:
            return None
        if self._later is not None and self.is_behind and _is_large(view):
            if self._announced is not view:
                self._announced = view
                self._later(lambda: self._state_of(view))
            return None if known is None else known[1]
        return self._state_of(view)

    def made(self) -> ServedState | None:
        """Return the state of the view at hand, on this thread, however large the view is."""
        view = self._features.view
        return None if view is None else self._state_of(view)

    @property
    def is_behind(self) -> bool:
        """Whether the state is not yet that of the view at hand."""
        return self._known is None or self._known[0] is not self._features.view

    def _state_of(self, view: View) -> ServedState:
        before, health = self._known, self._features.health()
        state = ServedState(
            revision=before[1].revision if before is not None and before[0].same_content(view) else revision_of(view),
            cluster_id=view.cluster_id,
            status=health["status"],
            gates={gate.name: is_open_in(view.cluster_id, gate.decision) for gate in self._gates},
            view=view,
        )
        if before is not None and before[1] == state:
            state = before[1]
        self._known = view, state
        return state


def size_of(view: View) -> int:
    """Return how many API ranges and features the answers of all brokers have."""
    return sum(len(broker.api_ranges) + len(broker.supported) + len(broker.finalized) for broker in view.brokers)


def _is_large(view: View) -> bool:
    return len(view.brokers) > _AT_ONCE or size_of(view) > _AT_ONCE


def revision_of(view: View) -> str:
    """Return a text that two views share if, and only if, they have the same content: see `View.same_content`.

    Epochs and times are left out: replicas poll at different times. What brokers share that
    answer alike is read once.
    """
    digests: dict[int, str] = {}

    def digest(said: Mapping[Any, Any]) -> str:
        found = digests.get(id(said))
        if found is None:
            found = digests[id(said)] = hashlib.sha256(json.dumps(sorted(said.items())).encode()).hexdigest()
        return found

    content = hashlib.sha256()
    whole = [view.cluster_id, view.role, view.broker_list, digest(view.supported), digest(view.api_ranges)]
    content.update(json.dumps([*whole, digest(view.finalized) if view.epoch >= 0 else None]).encode())
    for broker in view.brokers:
        failure = broker.failure and broker.failure.kind  # its text may hold times
        who = [broker.node_id, broker.host, broker.port, broker.asked_version, failure, broker.epoch >= 0]
        answer = [digest(broker.finalized), digest(broker.supported), digest(broker.api_ranges)]
        configs = sorted((name, *config.content) for name, config in broker.configs.items())
        content.update(json.dumps([*who, *answer, *configs]).encode())
    return content.hexdigest()[:32]
