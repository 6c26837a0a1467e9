"""Keyed hashes in place of the names of principals and the addresses of clients. Pure.

The same name has the same hash in all tables of one key, so that rows still add up by client. Without the key, names
cannot be tried: the hash is HMAC-SHA-256 (RFC 2104), of which 128 bits are kept.
"""

from __future__ import annotations

import hmac
from typing import Final

HASHED: Final = "hmac:"
"""What each hash begins with."""
ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of all clients of a listener without authentication: it stays, because it names no client."""

_DIGITS: Final = 32
_BEFORE_ADDRESS: Final = "/"
"""Coordinators write an address as Java prints it."""


class Pseudonyms:
    """The hashes of one key, which no repr shows."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        """Return no key."""
        return "Pseudonyms(...)"

    def of(self, name: str) -> str:
        """Return the hash of a principal or an address; `ANONYMOUS`, and what is a hash already, stay as they are."""
        if name == ANONYMOUS or name.startswith(HASHED):
            return name
        digest = hmac.new(self._key, name.removeprefix(_BEFORE_ADDRESS).encode(), "sha256").hexdigest()
        return HASHED + digest[:_DIGITS]
