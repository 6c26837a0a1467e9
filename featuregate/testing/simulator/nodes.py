"""One simulated node, at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Node", "NodeState"]

NodeState = Literal["running", "paused", "starting", "refused", "stopped", "died"]
"""``starting``: alive, and waiting for a controller; ``refused``: alive, and not let in while its binary does not
support what is finalized; ``died``: ended by itself. Only running and paused brokers accept connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker, a controller, or both."""

    node_id: int
    binary: str
    is_broker: bool = True
    is_controller: bool = False
    state: NodeState = "running"
    why: str = ""
    """Why it was refused or has died, in Kafka's words where it has any."""
    lagging: bool = False
    """Whether it hears nothing new, although it could."""
    heard: int | None = None
    """The last thing that it has heard of the cluster, an offset or a version; ``None`` while it hears everything."""
    loaded: bool = True
    """Of a controller: whether it has found a quorum since it started."""
    away_since: int | None = None
    """The tick since which no controller hears of this broker; ``None`` while one does."""
    fenced: bool = False
    """Of a broker: registered and not in use."""
    starts: int = 1
    """How often it has started."""
    started_at: int = 0
    """The tick at which it did."""

    @property
    def alive(self) -> bool:
        """Whether its process runs and is not paused."""
        return self.state in ("running", "starting", "refused")

    def listens(self, role: Literal["broker", "controller"]) -> bool:
        """Say whether connections are accepted; a broker that is not let in does not listen."""
        return self.state in ("running", "paused") or (role == "controller" and self.alive)
