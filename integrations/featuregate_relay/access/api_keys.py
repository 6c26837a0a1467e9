"""API keys: the relay has their digests only, so that its configuration opens nothing."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate_relay.access.clients import RelayClient


class ApiKeys:
    """Clients by the SHA-256 digests of their keys. A key is long and random, so that its digest needs no salt."""

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
