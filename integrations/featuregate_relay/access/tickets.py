"""Tickets for streams: an `EventSource` sends no headers, so that its URL must say who opens it.

A ticket is signed, is for one cluster, and ends. It can be used until then, because browsers open a stream again with
the URL that they have.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from featuregate_relay.access.clients import RelayClient

_BUCKET_SECONDS: Final = 3600
"""Tickets of one hour are equal, so that a response with a ticket stays the same; they end with the next hour."""
_REMEMBERED: Final = 1000
"""A client gets the same ticket with each request of an hour."""
_LONGEST: Final = 2048
_SIGNATURE_BYTES: Final = 32


class Tickets:
    """Writes and reads tickets.

    Parameters
    ----------
    secret
        Signs tickets. Replicas share it, so that each reads the tickets of the others.
    wall
        Seconds since the Unix epoch. Clocks of replicas may differ by minutes.
    """

    def __init__(self, secret: bytes, wall: Callable[[], float]) -> None:
        self._secret = secret
        self._wall = wall
        self._signed = lru_cache(_REMEMBERED)(self._sign)

    def ticket(self, client: RelayClient, cluster: str) -> str:
        """Return the ticket of this hour, for a stream of this cluster."""
        return self._signed(client.name, cluster, self._bucket())

    def _sign(self, name: str | None, cluster: str, bucket: int) -> str:
        content = json.dumps([name, cluster, bucket]).encode()
        return urlsafe_b64encode(self._signature(content) + content).decode().rstrip("=")

    def client(self, ticket: str) -> RelayClient | None:
        """Return who may open a stream with this ticket, and of which cluster; None: it is forged, or has ended."""
        if len(ticket) > _LONGEST or not ticket.isascii():
            return None
        try:
            signed = urlsafe_b64decode(ticket + "=" * (-len(ticket) % 4))
        except ValueError:
            return None
        content = signed[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signed[:_SIGNATURE_BYTES], self._signature(content)):
            return None
        name, cluster, bucket = json.loads(content)  # as `ticket` wrote it
        return RelayClient(name, frozenset({cluster})) if abs(self._bucket() - bucket) <= 1 else None

    def _bucket(self) -> int:
        return int(self._wall() // _BUCKET_SECONDS)

    def _signature(self, content: bytes) -> bytes:
        return hmac.digest(self._secret, b"featuregate stream ticket\0" + content, hashlib.sha256)
