"""Levels that were lowered, and are in the metadata log still. Pure.

A node loads the log from its newest snapshot on, and a controller does not start where it reads a level that it does
not support, ``metadata.version`` included (seen: 4.3.0 to 3.9.2, 4.2.0 to 4.0.0). A node writes a snapshot after some
time, and for no change of a level. So do plans and the readiness of a fleet go by these rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

UNTIL: Final = "wait until every node has written a snapshot of the metadata log (an hour by default)"
"""`WHAT_TO_DO` in short."""
WHAT_TO_DO: Final = (
    "wait until every node has written a snapshot since then (__cluster_metadata-0/*.checkpoint; by "
    "metadata.log.max.snapshot.interval.ms each hour), or restart the nodes with a shorter interval"
)


def stays_in_log(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the levels that one request lowers, and that stay in the log after it: feature to the level before.

    Parameters
    ----------
    before, after
        Feature to level, for the features of the request.
    """
    return {name: before[name] for name, level in sorted(after.items()) if level < before.get(name, 0)}


def in_log(older: str) -> str:
    """Say what follows from a level in the log for older nodes, such as ``a node of Kafka before 4.0``."""
    return f"may be in the metadata log still: {older} that reads it there does not start"
