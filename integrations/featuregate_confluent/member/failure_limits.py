"""How often a failure may repeat before a member gives up: a stop is noticed, an endless loop is not. Pure."""

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
"""For which another member may have the ``group.instance.id``. A killed process keeps it until its session times out,
45 s by default; a running process keeps it for good."""


class FailureLimits:
    """Counts failures, and says when a limit is reached."""

    def __init__(self) -> None:
        self._lost = 0
        self._aborted = 0
        self._taken: deque[float] = deque(maxlen=TAKEN_AT_MOST)
        self._unreleased_since: float | None = None

    def committed(self) -> None:
        """Reset the counts of failures in a row."""
        self._lost = self._aborted = 0

    def assigned(self) -> None:
        """Reset the time limit for joining: the member is in its group."""
        self._unreleased_since = None

    def aborted(self) -> bool:
        """Count an aborted transaction; return whether the limit is reached, and reset the count then."""
        self._aborted = (self._aborted + 1) % ABORTED_AT_MOST
        return self._aborted == 0

    def lost(self) -> bool:
        """Count a lost producer; return whether the limit is reached."""
        self._lost += 1
        return self._lost >= LOST_AT_MOST

    def taken(self, now: float) -> bool:
        """Count a transactional id that another process has taken; return whether the limit is reached."""
        self._taken.append(now)
        return len(self._taken) == TAKEN_AT_MOST and now - self._taken[0] <= TAKEN_SECONDS

    def unreleased(self, now: float) -> bool:
        """Note that another member has the instance id; return whether the time limit is over."""
        if self._unreleased_since is None:
            self._unreleased_since = now
        return now - self._unreleased_since > UNRELEASED_SECONDS
