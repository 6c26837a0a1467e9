"""What the state of a member says of its health, as plain values."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from featuregate_confluent.member.state import MemberState

COMMIT_SECONDS: Final = 5.0
"""A commit that brokers have not answered for longer is not in order."""


def state_health(state: MemberState) -> dict[str, Any]:
    """Return the part of :meth:`ProducerSwitch.health` that comes from the member's state. Any thread may call it."""
    group = state.group  # one value: it does not change while it is read
    partitions, committed_at = len(state.partitions), state.committed_at
    ending = max((each.ending_seconds for each in tuple(state.under_way)), default=0.0)
    hangs = ending > COMMIT_SECONDS
    return {
        "model": group.model.label,
        "why": _unanswered(ending) if hangs else group.why,
        "waiting": hangs or group.commit_blocker is not None or (group.missing is not None and not partitions),
        "commit_seconds": ending,
        "seconds_since_commit": None if committed_at is None else time.monotonic() - committed_at,
        "latch": None if group.latch is None else group.latch.label,
        "generation": group.generation,
        "partitions": partitions,
        "committed": state.committed,
        "aborted": state.aborted,
        "aborting": state.failures.repeated,
        "stalled": [asdict(each) for each in state.stalled],
    }


def _unanswered(seconds: float) -> str:
    return (
        f"brokers have not answered a commit or abort for {seconds:.0f} s: a broker may be down or have a full disk, "
        "or too few replicas are in sync"
    )
