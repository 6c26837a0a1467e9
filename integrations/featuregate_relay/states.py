"""The state of a cluster as relays announce it: a revision of the view, its status, and the gates. Pure.

Relays share no counter, so a revision is made of what the brokers say, and each replica computes the same one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from featuregate import Discoverer, Gate, View


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
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


def current_state(features: Discoverer, gates: Iterable[Gate]) -> Callable[[], ClusterState | None]:
    """Return a function for the current state. It returns the same object until the state changes.

    None: no broker has answered yet.
    """
    # One pair, which is replaced as a whole: while it is made, a poll may end, and another thread may make one, too.
    known: tuple[View, ClusterState] | None = None

    def current() -> ClusterState | None:
        nonlocal known
        before, view, health = known, features.view, features.health()
        if view is None:
            return None
        state = ClusterState(
            revision=before[1].revision if before is not None and before[0].same_content(view) else revision_of(view),
            cluster_id=view.cluster_id,
            status=health["status"],
            gates={gate.name: gate.open for gate in gates},
            view=view,
        )
        if before is not None and before[1] == state:
            state = before[1]
        known = view, state
        return state

    return current


def revision_of(view: View) -> str:
    """Return a text that two views share if, and only if, they have the same content: see `View.same_content`.

    Epochs and times are left out: replicas poll at different times.
    """
    said = json.loads(view.to_json())
    content = {key: said[key] for key in ("cluster_id", "role", "broker_list", "supported", "api_ranges")}
    content["levels"] = [said["finalized"], said["finalized_min"]] if view.epoch >= 0 else None
    content["brokers"] = [_broker(broker) for broker in said["brokers"]]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def _broker(said: dict[str, Any]) -> dict[str, Any]:
    content = {key: value for key, value in said.items() if key not in {"answered_at", "epoch"}}
    failure = content["failure"] and content["failure"]["kind"]  # its text may hold times
    return content | {"has_epoch": said["epoch"] >= 0, "failure": failure}
