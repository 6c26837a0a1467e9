"""Clients of a relay: a name, and the clusters that the client may read. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class RelayClient:
    """A client that has said who it is."""

    name: str | None
    """As logs and limits call it; None: the relay does not authenticate clients."""
    clusters: frozenset[str] | None
    """None: all clusters."""

    def may_read(self, cluster: str) -> bool:
        """Return whether the client may read this cluster."""
        return self.clusters is None or cluster in self.clusters


ANYONE: Final = RelayClient(None, None)
"""Any client of a relay that does not authenticate clients."""
NOT_KNOWN: Final = RelayClient(None, frozenset())
"""A client without credentials: it learns whether the relay is ready, and nothing of the clusters."""
