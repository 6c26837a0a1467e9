"""Messages about the changes of a cluster. Pure.

Each replica of a relay makes the same messages with the same ids, so that a receiver drops all but the first.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from featuregate.view.changes import differences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate_relay.states import ClusterState

_MOST_CHANGES: Final = 50
_LONGEST_CHANGE: Final = 300
"""Characters. A message has less than 20 kB, as the specification asks."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a receiver gets, once or more often with the same id."""

    ident: str
    kind: str
    body: str


def messages_between(cluster: str, was: ClusterState, now: ClusterState, at: str) -> Iterator[Message]:
    """Yield the messages about what has changed from one state of a cluster to another.

    Parameters
    ----------
    at
        The time of the change, in ISO 8601.
    """
    said = {"cluster": cluster, **now.to_dict()}
    if was.revision != now.revision:
        texts = [str(difference)[:_LONGEST_CHANGE] for difference in differences(was.view, now.view)]
        more = {"more_changes": len(texts) - _MOST_CHANGES} if len(texts) > _MOST_CHANGES else {}
        yield _message("cluster.changed", "", now, {**said, "changes": texts[:_MOST_CHANGES], **more}, at)
    elif was.status != now.status:  # not since when, which each replica sees at another time
        yield _message("cluster.health", now.status, now, said, at)
    for gate, is_open in now.gates.items():
        if was.gates.get(gate, False) != is_open:
            yield _message("gate.opened" if is_open else "gate.closed", gate, now, {**said, "gate": gate}, at)


def _message(kind: str, subject: str, now: ClusterState, data: dict[str, Any], at: str) -> Message:
    named = json.dumps([now.cluster_id, now.revision, kind, subject])
    ident = f"msg_{hashlib.sha256(named.encode()).hexdigest()[:32]}"
    return Message(ident, kind, json.dumps({"type": kind, "timestamp": at, "data": data}))
