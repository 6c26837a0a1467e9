"""Encodes a client's last-seen state into ETags and event ids, which carry it from one replica to the next. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from featuregate import Gate

FLOOR_SECONDS: Final = 600.0
"""Seconds for which brokers must have reported a lower epoch until a relay believes that the cluster was restored: a
replica is behind for an interval between polls, or while it meets one broker that is."""
DIGITS: Final = 12


def latch_of(cluster_id: str | None, gate: Gate) -> str:
    """Return the digits that identify a latched gate: a latch belongs to a cluster, a name and a requirement."""
    return digest([cluster_id, gate.name, str(gate.requirement)])


def cluster_of(cluster_id: str | None) -> str:
    """Return the digits that identify a cluster."""
    return digest(cluster_id)


def digest(said: object, digits: int = DIGITS) -> str:
    """Return this number of hexadecimal digits of a hash of a JSON value."""
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:digits]
