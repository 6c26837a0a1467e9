"""How many messages fit into a round: a decision from measured seconds. Pure; no clock is read here."""

from __future__ import annotations

from typing import Final

MARGIN: Final = 20
"""A round is planned to take a twentieth of its limit. If each message then takes ten times as long as measured, the
round takes half of the limit."""
FASTER: Final = 8
"""The most by which the size of a round grows from one round to the next."""
AMORTIZED: Final = 4
"""A round is planned to take at most this multiple of its fixed seconds, where that is more than its budget."""
TENFOLD: Final = 10
"""Messages may take ten times as long, and a round of short fixed seconds ends within 3/4 of its limit."""
RISE: Final = (16, 256)
"""A ceiling rises by so small a part of it in a round that has reached it: after the first loss, and at the least. The
part is halved with each loss."""
TRY_AGAIN: Final = (64, 1024)
"""Rounds until a larger size is tried again that did not help: the first time, and at the most."""
TRY_LATE: Final = 16
"""Rounds until a larger size is tried that might not end in time."""
_LARGEST: Final = 1_000_000  # what Consumer.consume() takes
_OTHER: Final = 1.25
"""Two sizes are compared where one is at least this multiple of the other."""


class Pace:
    """How long a round takes: some fixed seconds, and seconds for each message. And so, how many messages it may have.

    Rounds of different sizes tell the two apart. Where the fixed seconds are most of it, a larger round costs
    little more: then the size goes on growing, beyond the budget, up to the middle between the fixed seconds and the
    limit. Where no larger size was tried, because one message takes as long as the budget, twice the size is tried.

    A slower round counts at once. A faster round counts as far as it is evidence: a round of as many messages as
    :meth:`size` allows makes the next one up to eight times as large, a round of fewer messages less so. A round that
    was lost comes again with half of its messages at most. If that took half of the limit, half of its size is a
    ceiling that rises slowly.

    Parameters
    ----------
    budget
        Seconds that a round is planned to take, unless its fixed seconds take most of them.
    limit
        Seconds after which a round is lost; by default twenty times the budget.
    """

    def __init__(self, budget: float, limit: float | None = None) -> None:
        self.budget = budget
        self.limit = budget * MARGIN if limit is None else limit
        self.message_seconds = budget
        """Seconds that the last round took for each message, fixed seconds included."""
        self.fixed = 0.0
        """Seconds that a round takes whatever its size."""
        self._seconds = 0.0
        """Seconds of the last round that was committed."""
        self._next = 1.0
        self._ceiling, self._rise = float(_LARGEST), 0
        self._compared: tuple[int, float] | None = None
        self._wait, self._next_wait = 0, TRY_AGAIN[0]
        """Rounds until a larger size is tried, and for how many to wait then."""

    def size(self) -> int:
        """Return how many messages the next round may have: at least one."""
        return max(1, int(min(self._next, self._ceiling) + 1e-9))

    def measured(self, messages: int, seconds: float) -> None:
        """Learn from a round that was committed."""
        size = self.size()
        filled = min(1.0, messages / size)
        self._compare(messages, seconds)
        self.message_seconds, self._seconds = seconds / messages, seconds
        self._raise_ceiling(messages)
        grown = size * (1 + (FASTER - 1) * filled)
        fits = self._fits(messages, seconds)
        steady = messages < _OTHER * max(fits, 1.0) and fits < max(messages + 1, _OTHER * messages)
        if steady and self._tries_larger(messages, seconds):
            fits = 2.0 * messages
        self._next = max(1.0, min(fits, grown, _LARGEST))

    def lost(self, messages: int, seconds: float) -> None:
        """Learn from a round that was aborted: the next one has at most half of its messages."""
        half = max(1, messages // 2)
        if seconds > self.limit / 2:
            self._ceiling = min(self._ceiling, half)
            self._rise = min(2 * self._rise, RISE[1]) if self._rise else RISE[0]
        cheap = self.fixed > self._seconds / 2 and self._seconds > self.budget / 2
        self.message_seconds = max(seconds / messages, self.message_seconds)
        self.fixed, self._compared = 0.0, None
        if half > 1:
            self._wait = 0
        else:
            self._compared_now()
        self._next = max(1.0, half if cheap else min(half, self.budget / max(self.message_seconds, 1e-9)))

    def _compare(self, messages: int, seconds: float) -> None:
        """Tell the fixed seconds from those for each message, by a round of another size."""
        before = self._compared
        if before is None or not max(messages, before[0]) >= _OTHER * min(messages, before[0]):
            self.fixed = min(self.fixed, seconds)
            if before is None:
                self._compared = messages, seconds
            return
        each = max(0.0, (seconds - before[1]) / (messages - before[0]))
        less, more = sorted([before, (messages, seconds)])
        # A larger round that took less time shows that the pace has changed, and no fixed seconds.
        self.fixed = max(0.0, seconds - each * messages) if more[1] * _OTHER > less[1] else 0.0
        self._compared = messages, seconds
        self._compared_now()

    def _fits(self, messages: int, seconds: float) -> float:
        """Return how many messages are expected to fit."""
        proportional = messages * self.budget / max(seconds, 1e-9)
        each = max((seconds - self.fixed) / messages, self.budget / _LARGEST)
        most = max(self.limit / 2, (self.fixed + self.limit) / 2)
        planned = min(max(self.budget, AMORTIZED * self.fixed), most)
        if self.fixed <= self.budget:  # else only many messages make up for them
            planned = min(planned, self.fixed + max(self.budget, (0.75 * self.limit - self.fixed) / TENFOLD))
        # As many as end within half of the limit if the seconds do grow; twice as many where they have not grown.
        safe = messages * max(self.limit / 2 / max(seconds, 1e-9), 2.0 if self.fixed > seconds / 2 else 1.0)
        return max(proportional, min((planned - self.fixed) / each, safe))

    def _tries_larger(self, messages: int, seconds: float) -> bool:
        """Return whether twice the size is due, to compare the two: at once where it is safe, and after some rounds."""
        if messages < self.size() or not self.budget / 2 < seconds < self.limit * (1 - 1 / FASTER):
            return False
        if not self._wait:
            self._wait = 1 if seconds < self.limit / 2 else TRY_LATE
        self._wait -= 1
        return not self._wait

    def _compared_now(self) -> None:
        """Wait before a larger size is tried again."""
        if not self._wait:
            self._wait, self._next_wait = self._next_wait, min(2 * self._next_wait, TRY_AGAIN[1])

    def _raise_ceiling(self, messages: int) -> None:
        """Let a ceiling rise that a round has reached, and forget one that is out of reach."""
        if messages + 1 > self._ceiling:
            self._ceiling = min(float(_LARGEST), self._ceiling * (1 + 1 / (self._rise or 1)))
