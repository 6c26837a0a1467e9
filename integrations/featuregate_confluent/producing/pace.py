"""How many messages fit into a round: a decision from measured seconds. Pure; no clock is read here."""

from __future__ import annotations

from typing import Final

MARGIN: Final = 20
"""A round is planned to take a twentieth of its limit. If each message then takes ten times as long as measured, the
round takes half of the limit, and the other half is left for the commit."""
FASTER: Final = 8
"""The most by which the size of a round grows from one round to the next."""
_LARGEST: Final = 1_000_000  # what Consumer.consume() takes


class Pace:
    """Seconds that a message takes, and how many messages therefore fit into a budget of seconds.

    A slower round counts at once. A faster round counts as far as it is evidence: a round of as many messages as
    :meth:`size` allows makes the next one up to eight times as large, a round of fewer messages less so.
    As long as a round takes no more than ten times as long per message as the round before it, it ends within ten
    times the budget; a round of one message is the exception, because there is no smaller one.

    Parameters
    ----------
    budget
        Seconds that a round is planned to take.
    """

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.message_seconds = budget
        """Seconds that a message is expected to take; before the first round so long that one message fits."""

    def size(self) -> int:
        """Return how many messages the next round may have: at least one."""
        return max(1, int(self.budget / self.message_seconds + 1e-9))

    def measured(self, messages: int, seconds: float) -> None:
        """Learn from a round that was committed."""
        size = self.size()
        expected = max(self.message_seconds, self.budget / size) / (1 + (FASTER - 1) * min(1.0, messages / size))
        self.message_seconds = max(seconds / messages, expected, self.budget / _LARGEST)

    def lost(self, messages: int, seconds: float) -> None:
        """Learn from a round that was aborted: the next one has at most half of its messages."""
        self.message_seconds = max(seconds / messages, self.message_seconds, self.budget / max(1, messages // 2))
