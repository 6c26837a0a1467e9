"""How often something may go wrong before a member gives up: a stop is seen, a loop is not. Pure; time is given."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["ABORTED_AT_MOST", "LOST_AT_MOST", "TAKEN_AT_MOST", "TAKEN_SECONDS", "UNRELEASED_SECONDS", "FailureLimits"]

LOST_AT_MOST: Final = 10
"""Producers that were lost in a row, with no commit in between."""
ABORTED_AT_MOST: Final = 50
"""Transactions that were aborted in a row."""
TAKEN_AT_MOST: Final = 6
TAKEN_SECONDS: Final = 180.0
"""Transactional ids that another process took, within so many seconds. Commits in between do not count: two processes
of one name fence each other for ever, and each commits something whenever it is its turn."""
UNRELEASED_SECONDS: Final = 120.0
"""For which a ``group.instance.id`` may be another's. A process that was killed keeps it until its session times out,
45 s by default; one that lives keeps it for good."""


class FailureLimits:
    """Counts what goes wrong, and says when it is enough."""

    def __init__(self) -> None:
        self._lost = 0
        self._aborted = 0
        self._taken: deque[float] = deque(maxlen=TAKEN_AT_MOST)
        self._unreleased_since: float | None = None

    def committed(self) -> None:
        """Begin anew with what counts in a row."""
        self._lost = self._aborted = 0

    def assigned(self) -> None:
        """Begin anew with joining: the member is in its group."""
        self._unreleased_since = None

    def aborted(self) -> bool:
        """Count a transaction that was aborted; return whether it is enough, and then begin anew."""
        self._aborted = (self._aborted + 1) % ABORTED_AT_MOST
        return self._aborted == 0

    def lost(self) -> bool:
        """Count a producer that was lost; return whether it is enough."""
        self._lost += 1
        return self._lost >= LOST_AT_MOST

    def taken(self, now: float) -> bool:
        """Count a transactional id that another process has taken; return whether it is enough."""
        self._taken.append(now)
        return len(self._taken) == TAKEN_AT_MOST and now - self._taken[0] <= TAKEN_SECONDS

    def unreleased(self, now: float) -> bool:
        """Note that another member has the instance id; return whether it has had it for long enough."""
        if self._unreleased_since is None:
            self._unreleased_since = now
        return now - self._unreleased_since > UNRELEASED_SECONDS
