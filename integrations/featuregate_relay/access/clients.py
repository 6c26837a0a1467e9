"""Clients of a relay: a name, the clusters that the client may read, and the API keys that say who it is. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
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


class ApiKeys:
    """Clients by the SHA-256 digests of their keys, so that the configuration of a relay opens nothing.

    A key is long and random: its digest needs no salt.
    """

    def __init__(self, clients: Mapping[str, RelayClient]) -> None:
        self._clients = [(bytes.fromhex(digest), client) for digest, client in clients.items()]

    def client(self, key: str) -> RelayClient | None:
        """Return whose key this is. The time does not tell how much of a key is right, or which one."""
        digest = hashlib.sha256(key.encode()).digest()
        found = None
        for known, client in self._clients:
            if hmac.compare_digest(known, digest):
                found = client
        return found
