"""How often a failure may repeat before a member raises an error. Pure.

An error that stops the app is noticed; an endless retry is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

LOST_AT_MOST: Final = 10
"""Producers that were lost, or members with too many aborts, in a row with no commit in between."""
ABORTED_AT_MOST: Final = 50
"""Transactions that were aborted in a row."""
TAKEN_AT_MOST: Final = 6
TAKEN_SECONDS: Final = 180.0
"""Transactional ids that another process took, within this many seconds. Commits in between do not count: two processes
of one name fence each other for ever, and each commits something whenever it is its turn."""
UNEXPLAINED_AT_MOST: Final = 5
"""Transactions that were aborted without a commit in between, for an error of which nothing is known."""
REPEATED: Final = 3
"""Failures with no commit in between, from which on a member is not well."""
UNRELEASED_SECONDS: Final = 120.0
"""Seconds for which another member may hold the ``group.instance.id``. A killed process keeps it until its session
times out, 45 s by default; a running process keeps it for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The failures of a member so far, and whether a limit is reached."""

    lost: int = 0
    """Producers that were lost, and members with too many aborts, since the last commit."""
    aborted: int = 0
    """Transactions that were aborted since the last commit, or since the limit was reached."""
    unexplained: int = 0
    """Those of the aborted transactions since the last commit of whose error nothing is known."""
    taken: tuple[float, ...] = ()
    """When another process took a transactional id: the last times, oldest first."""
    unreleased_since: float | None = None
    """When another member was first found to have the instance id; None while this member is in its group."""

    def committed(self) -> Failures:
        """Reset the counts of failures in a row."""
        return replace(self, lost=0, aborted=0, unexplained=0)

    def assigned(self) -> Failures:
        """Reset the time limit for joining: the member is in its group."""
        return replace(self, unreleased_since=None)

    def after_abort(self, *, unexplained: bool = False) -> Failures:
        """Count an aborted transaction; the count begins again after the limit."""
        aborted = self.aborted % ABORTED_AT_MOST + 1
        return replace(self, aborted=aborted, unexplained=self.unexplained + unexplained)

    def after_loss(self) -> Failures:
        """Count a lost producer, or a member with too many aborts."""
        return replace(self, lost=self.lost + 1)

    def after_taken(self, now: float) -> Failures:
        """Count a transactional id that another process has taken."""
        return replace(self, taken=(*self.taken, now)[-TAKEN_AT_MOST:])

    def unreleased(self, now: float) -> Failures:
        """Note that another member has the instance id."""
        return self if self.unreleased_since is not None else replace(self, unreleased_since=now)

    @property
    def too_many_aborted(self) -> bool:
        """Whether the last abort was one too many."""
        return self.aborted == ABORTED_AT_MOST

    @property
    def too_many_unexplained(self) -> bool:
        """Whether nothing is known of the errors of too many transactions."""
        return self.unexplained >= UNEXPLAINED_AT_MOST

    @property
    def repeated(self) -> bool:
        """Whether failure follows failure, with no commit in between."""
        return max(self.aborted, self.lost) >= REPEATED

    @property
    def too_many_lost(self) -> bool:
        """Whether the last loss was one too many."""
        return self.lost >= LOST_AT_MOST

    @property
    def too_many_taken(self) -> bool:
        """Whether the last id that was taken was one too many within the time limit."""
        return len(self.taken) == TAKEN_AT_MOST and self.taken[-1] - self.taken[0] <= TAKEN_SECONDS

    def unreleased_for_too_long(self, now: float) -> bool:
        """Whether another member has the instance id for longer than a killed process keeps it."""
        return self.unreleased_since is not None and now - self.unreleased_since > UNRELEASED_SECONDS
