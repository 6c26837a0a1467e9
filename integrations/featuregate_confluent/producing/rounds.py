"""Measures the rounds of a member: how large the next one may be, and how long the present one may still take.

A round begins when ``consume()`` returns and ends when ``consume()`` is called again. Two limits bound it:

- ``max.poll.interval.ms``: a consumer that is not polled for this time leaves its group (KIP-62), and loses what
  the round has not committed.
- ``transaction.timeout.ms``: brokers abort a transaction that is open for longer (KIP-98). It is measured from
  ``begin()``, which is not after the brokers' own clock: that starts at the first record. The time until the
  records are delivered and the commit has ended is part of it: a quota or a slow link may make it long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate_confluent.errors import RoundTooLong
from featuregate_confluent.events import RoundExceededLimit, RoundResized, SwitchEvent
from featuregate_confluent.producing.pace import MARGIN, Pace

if TYPE_CHECKING:
    from featuregate_confluent.producing.transaction import Transaction

ALONE_AT_MOST: Final = 3
"""Rounds of one message that outlived a limit and were lost, in a row. One alone may be a process that was stopped."""
UNDELIVERED_AT_MOST: Final = 2
"""The same, where brokers did not take the records in time, with at most one message committed in between: brokers take
the first request of a new producer, which follows a lost round, and apply their quota from the second on (KIP-219)."""
NEARLY: Final = 0.95
"""A client gives up its records shortly before brokers abort the transaction."""


class Limits(NamedTuple):
    """The two limits of a round, in seconds."""

    transaction: float
    """``transaction.timeout.ms``"""
    poll: float
    """``max.poll.interval.ms``"""

    @property
    def transaction_named(self) -> str:
        """The producer's property and its value."""
        return f"transaction.timeout.ms={self.transaction * 1000:.0f}"

    def explained(self, why: str, seconds: float) -> str:
        """Add the limit of a transaction to the reason of its abort, where it was open for as long."""
        if seconds < self.transaction * NEARLY:
            return why
        return f"{why}; the transaction was open for {seconds:.1f} s, and {self.transaction_named}"

    @property
    def poll_named(self) -> str:
        """The consumer's property and its value."""
        return f"max.poll.interval.ms={self.poll * 1000:.0f}"


@dataclass(slots=True)
class _Measured:
    """The transactions of a round that ran to their commit, or to their abort."""

    messages: int = 0
    seconds: float = 0.0
    """Seconds of the app's code, inside and outside of transactions."""
    open_seconds: float = 0.0
    """Seconds of the app's code while a transaction was open."""
    delivery: float = 0.0
    """From the end of the app's code to the end of the commit, or of the abort: the longest of transactions, which are
    committed side by side."""
    longest: float = 0.0
    """Seconds of the longest transaction, to the end of its commit."""
    where: str = ""
    """The place of the first message."""


class Rounds:
    """The rounds of one member, over all the consumers that it has one after the other."""

    def __init__(
        self, limits: Limits, emit: Callable[[SwitchEvent], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits
        self._emit = emit
        self._clock = clock
        # Every rebalance of the group waits for the round, so the round is kept short beside a transaction, too.
        self._of_round = Pace(min(limits.poll / MARGIN, limits.transaction / 4), limits.poll)
        self._of_open = Pace(limits.transaction / MARGIN, limits.transaction)
        self._polled_at = clock()
        self._given: dict[Transaction, float] = {}
        self._begun: dict[Transaction, float] = {}
        self._ran: dict[Transaction, tuple[float, float]] = {}
        self._measured = _Measured()
        self._aborted = 0
        self._asked: tuple[int, int] | None = None
        self._cut = False
        self._alone = 0
        self._undelivered = 0
        self._through = 0

    # ------------------------------------------------------------------ what the app asks

    def size(self, most: int, aborted: int) -> int:
        """End the present round as :meth:`end` does, and return how many messages the next one may have."""
        self.end(aborted)
        size = self._size(most)
        self._asked = size, most
        return size

    def time_left(self) -> float:
        """Return the seconds until the first limit: of the consumer, or of a transaction that is open."""
        now = self._clock()
        left = [self.limits.transaction - (now - began) for began in self._begun.values()]
        return min(self.limits.poll - (now - self._polled_at), *left, float("inf"))

    @property
    def seconds(self) -> float:
        """For how long the consumer has not been polled. Any thread may read it."""
        return self._clock() - self._polled_at

    @property
    def late(self) -> bool:
        """Whether half of the consumer's limit is over, so that what the round has not begun should wait."""
        return self.seconds > self.limits.poll / 2

    def health(self) -> dict[str, Any]:
        """Return the gauges for ``health()``: see :meth:`ProducerSwitch.health`."""
        most = None if self._asked is None else self._asked[1]
        return {
            "round_size": None if most is None else self._size(most),
            "round_cut": self._cut,
            "message_seconds": self._of_round.message_seconds,
        }

    # ------------------------------------------------------------------ what the switch tells

    def polled(self, aborted: int) -> None:
        """Note that the consumer was polled: a round begins; ``aborted`` transactions were aborted before it."""
        self._polled_at = self._clock()
        self._aborted = aborted
        self._given.clear()
        self._begun.clear()
        self._ran.clear()

    def given(self, transaction: Transaction) -> None:
        """Note that the app is given a transaction."""
        self._given[transaction] = self._clock()

    def begun(self, transaction: Transaction) -> None:
        """Note that a transaction begins."""
        self._begun[transaction] = self._clock()

    def ran(self, transaction: Transaction) -> None:
        """Note that the app's code has come to the end of a transaction; its commit or abort follows."""
        now, found = self._clock(), self._measured
        open_seconds = now - self._begun.pop(transaction, now)
        self._ran[transaction] = now, open_seconds
        found.messages += len(transaction.messages)
        found.seconds += now - self._given.pop(transaction, now)
        found.open_seconds += open_seconds
        found.longest = max(found.longest, open_seconds)
        if not found.where:
            first = transaction.messages[0]
            found.where = f"{first.topic()}[{first.partition()}]@{first.offset()}"

    def ended(self, transaction: Transaction, at: float) -> None:
        """Note that the commit of a transaction, or its abort, had ended at a time of the clock."""
        if transaction in self._ran:
            found, (ran, open_seconds) = self._measured, self._ran.pop(transaction)
            delivery = max(0.0, at - ran)
            found.delivery = max(found.delivery, delivery)
            found.longest = max(found.longest, open_seconds + delivery)

    def end(self, aborted: int) -> None:
        """Learn from the round that has ended; ``aborted`` transactions were aborted by now. Raises RoundTooLong."""
        found, self._measured = self._measured, _Measured()
        if not found.messages:
            return
        before = self._asked
        lost, self._aborted = aborted > self._aborted, aborted
        for pace, seconds in ((self._of_round, found.seconds), (self._of_open, found.open_seconds)):
            (pace.lost if lost else pace.measured)(found.messages, seconds + found.delivery)
        if lost:
            self._through = 0
            self._emit_outlived(found)
        else:
            self._alone = 0
            self._through += found.messages
            if self._through > 1:
                self._undelivered = 0
        if before is not None:
            self._emit_resized(found.messages, *before)

    # ------------------------------------------------------------------ what follows

    def _size(self, most: int) -> int:
        return min(most, self._of_round.size(), self._of_open.size())

    def _emit_outlived(self, found: _Measured) -> None:
        """Say why a round was lost, where it was for its length."""
        seconds, limit = self._outlived(found)
        if limit is None:
            return
        self._emit(RoundExceededLimit(messages=found.messages, seconds=seconds, limit=limit))
        if found.messages > 1:
            return
        undelivered = found.delivery > seconds / 2
        if undelivered:
            self._undelivered += 1
        self._alone += 1
        times, most = (self._undelivered, UNDELIVERED_AT_MOST) if undelivered else (self._alone, ALONE_AT_MOST)
        if times >= most:
            self._alone = self._undelivered = 0
            raise RoundTooLong(where=found.where, seconds=seconds, limit=limit, times=times, undelivered=undelivered)

    def _outlived(self, found: _Measured) -> tuple[float, str | None]:
        if found.seconds + found.delivery > self.limits.poll:
            return found.seconds + found.delivery, self.limits.poll_named
        if found.longest > self.limits.transaction * (NEARLY if found.delivery > found.longest / 2 else 1.0):
            return found.longest, self.limits.transaction_named
        return 0.0, None

    def _emit_resized(self, messages: int, size: int, most: int) -> None:
        """Say once that rounds are cut, and once that they are not any more."""
        now = self._size(most)
        steady = messages >= size and size < most and now < 2 * size  # else it grows, or there was no more to consume
        if self._cut == (now < most) or not (steady or self._cut):
            return
        self._cut = now < most
        self._emit(
            RoundResized(
                messages=now, most=most, message_seconds=self._of_round.message_seconds, limit=self._narrower()
            )
        )

    def _narrower(self) -> str:
        """Name the limit that the size of a round comes from."""
        by_poll = self._of_round.size() <= self._of_open.size() and self._of_round.budget == self.limits.poll / MARGIN
        return self.limits.poll_named if by_poll else self.limits.transaction_named
