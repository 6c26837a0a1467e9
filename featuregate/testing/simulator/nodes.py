"""One simulated node, at one moment. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NodeStatus = Literal["running", "paused", "starting", "refused", "stopped", "died"]
"""``starting``: the process runs and waits for a controller. ``refused``: the process runs and is not registered,
because its build does not support the finalized levels. ``died``: the process ended by itself. Only running and paused
brokers accept connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNode:
    """A broker, a controller, or both, at one moment."""

    node_id: int
    build: str
    """The name of its build."""
    is_broker: bool = True
    is_controller: bool = False
    status: NodeStatus = "running"
    reason: str = ""
    """Why the node was refused or died, in Kafka's words where Kafka has any."""
    lagging: bool = False
    """Whether the node reads no news although it could."""
    read_up_to: int | None = None
    """The last offset (KRaft) or version of ``/features`` (ZooKeeper) that the node has read; ``None`` while it reads
    all."""
    loaded: bool = True
    """For a controller: whether it has found a quorum since it started."""
    disconnected_since: int | None = None
    """The tick since which a broker has no connection to the controller; ``None`` while it has one."""
    fenced: bool = False
    """Whether a broker is registered and not in use."""
    start_count: int = 1
    """How often the node has started."""
    started_at: int = 0
    """The tick of the last start."""

    @property
    def alive(self) -> bool:
        """Whether the process runs and is not paused."""
        return self.status in ("running", "starting", "refused")

    @property
    def ended(self) -> bool:
        """Whether there is no process."""
        return self.status in ("stopped", "died")

    def accepts_connections(self, role: Literal["broker", "controller"]) -> bool:
        """Return whether the listener of this role accepts connections. A broker that is not registered does not."""
        return self.status in ("running", "paused") or (role == "controller" and self.alive)
