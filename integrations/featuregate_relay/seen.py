"""What stands for what a client has seen, where a tag or an id carries that from one replica to the next. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from featuregate import Gate

FLOOR_SECONDS: Final = 600.0
"""For so long brokers must have reported a lower epoch, until a relay believes that the cluster was restored to it: a
replica is behind for an interval between polls, or while it meets one broker that is."""
DIGITS: Final = 12


def latch_of(cluster_id: str | None, gate: Gate) -> str:
    """Return what stands for a gate that is latched: a latch belongs to a cluster, a name and a requirement."""
    return digest([cluster_id, gate.name, str(gate.requirement)])


def cluster_of(cluster_id: str | None) -> str:
    """Return what stands for a cluster."""
    return digest(cluster_id)


def digest(said: object, digits: int = DIGITS) -> str:
    """Return so many hexadecimal digits that stand for a JSON value."""
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:digits]
