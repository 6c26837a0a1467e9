"""Applies the outcomes of transactions to a member: positions, latch, producers, failure limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from featuregate.calls import Callers
from featuregate_confluent.errors import Aborted, MustRejoin, RecordRefused, SwitchError, SwitchFatal
from featuregate_confluent.events import Fenced, SwitchEvent, TransactionAborted, TransactionCommitted
from featuregate_confluent.member.failure_limits import (
    ABORTED_AT_MOST,
    LOST_AT_MOST,
    TAKEN_AT_MOST,
    TAKEN_SECONDS,
    UNEXPLAINED_AT_MOST,
)
from featuregate_confluent.member.positions import rewind
from featuregate_confluent.producing.outcome import Committed, Lost, RolledBack, TransactionOutcome

if TYPE_CHECKING:
    from featuregate_confluent.member.state import MemberState
    from featuregate_confluent.producing.producers import Producers
    from featuregate_confluent.producing.rounds import Rounds
    from featuregate_confluent.producing.transaction import Transaction

NOT_WAITED_FOR: Final = (
    "a commit was under way, and its end was not waited for before the consumer was polled: see Pipeline"
)

SLOW_CODE: Final = 0.5
"""Share of transaction.timeout.ms: if the app's code takes more of a lost transaction, the code counts as the cause."""


@dataclass(eq=False, repr=False)
class OutcomeHandler:
    """Applies the outcomes of transactions to the member, and has what its transactions share."""

    state: MemberState
    _: KW_ONLY
    producers: Producers
    emit: Callable[[SwitchEvent], None]
    process: str
    rounds: Rounds
    """Measures how long the app's code takes, and knows the limits."""
    callers: Callers = field(default_factory=Callers, init=False)
    """Threads for calls with a bound, which run alongside the app's code."""

    @property
    def under_way(self) -> set[Transaction]:
        """Transactions whose producer is in use by a call, or whose outcome is not concluded yet."""
        return self.state.under_way

    def conclude(self, transaction: Transaction, outcome: TransactionOutcome) -> SwitchError | None:
        """Apply the outcome of a transaction to the member, and return the error for the app; None after a commit."""
        self.producers.ended(transaction.producer, transaction.seconds - transaction.own_seconds)
        match outcome:
            case Committed():
                self._committed(transaction, outcome)
                return None
            case RolledBack():
                return self._rolled_back(transaction, outcome)
            case Lost():
                return self._lost(transaction, outcome)

    def leave_behind(self) -> None:
        """Abandon the transactions under way, with their producers. The member then needs another consumer."""
        under_way = self.state.under_way
        if under_way:
            self.state.lose(NOT_WAITED_FOR)  # first: a signal may come here, too
        for transaction in tuple(under_way):
            transaction.leave_behind()
            self.producers.abandon(transaction.producer)
            under_way.discard(transaction)

    def _committed(self, transaction: Transaction, outcome: Committed) -> None:
        state = self.state
        state.committed += 1
        state.committed_at = time.monotonic()
        state.failures = state.failures.committed()
        if transaction.assignment.current:  # else the partitions were revoked, or read again
            state.advance(transaction.offsets)
            state.end(transaction.messages)
        for event in state.update(state.group.committed(transaction.model, outcome.generation)):
            self.emit(event)
        self.emit(
            TransactionCommitted(
                model=transaction.model,
                messages=len(transaction.messages),
                seconds=transaction.seconds,
                generation=outcome.generation,
            )
        )
        for event in transaction.events:
            self.emit(event)

    def _rolled_back(self, transaction: Transaction, outcome: RolledBack) -> SwitchError:
        """Let the messages of the transaction come again."""
        state = self.state
        state.aborted += 1
        self.emit(TransactionAborted(model=transaction.model, messages=len(transaction.messages), why=outcome.why))
        state.failures = state.failures.after_abort(unexplained=outcome.unexplained)
        if state.failures.too_many_aborted:
            if state.lost is None:  # transactions that run side by side fail for one reason
                state.failures = state.failures.after_loss()
            state.lose(outcome.why)
            why = f"{ABORTED_AT_MOST} transactions in a row were aborted, the last one for: {outcome.why}"
            error: SwitchError = SwitchFatal(why) if state.failures.too_many_lost else MustRejoin(why)
        else:
            error = self._rewind(transaction) or Aborted(outcome.why)
        if outcome.refused:
            return (
                error
                if isinstance(error, MustRejoin)
                else RecordRefused(transaction.messages, _why(transaction, outcome))
            )
        if outcome.unexplained and state.failures.too_many_unexplained:
            return SwitchFatal(f"{UNEXPLAINED_AT_MOST} transactions were aborted, the last one for: {outcome.why}")
        return SwitchFatal(outcome.why) if outcome.fatal else error

    def _rewind(self, transaction: Transaction) -> MustRejoin | None:
        if not transaction.assignment.current:  # the messages are taken back, or another member's
            return None
        try:
            rewind(transaction.consumer, self.state.partitions, transaction.messages)
        except MustRejoin as failed:  # a consumer that is fenced cannot be rewound, for one
            return failed
        self.state.end(transaction.messages)
        return None

    def _lost(self, transaction: Transaction, outcome: Lost) -> SwitchError:
        """Drop the producer, which cannot be used any more.

        Of transactions that run side by side, only the first loss counts: the others fail for the same reason.
        """
        state = self.state
        state.aborted += 1
        name = self.producers.id_of(transaction.producer)
        in_time = transaction.seconds < self.rounds.limits.transaction
        why = outcome.why if in_time or not outcome.fenced else self._timed_out(transaction, outcome)
        in_use = transaction.in_use or any(
            other is not transaction and other.producer is transaction.producer for other in state.under_way
        )
        left_open = in_use or outcome.unanswered
        (self.producers.abandon if left_open else self.producers.discard)(transaction.producer)
        if outcome.fenced and in_time:
            why = f"{why}; the transactional id is {name!r}"
        error = (SwitchFatal if outcome.fatal else MustRejoin)(why)
        if state.lost is not None:
            return error
        state.lose(why)
        self.emit(Fenced(why=why))
        state.failures = state.failures.after_loss()
        if outcome.fenced and in_time:
            state.failures = state.failures.after_taken(time.monotonic())
            if state.failures.too_many_taken:
                return SwitchFatal(
                    f"transactional ids of this process were taken {TAKEN_AT_MOST} times within {TAKEN_SECONDS:g} s, "
                    f"the last one {name!r}. Another process has its name {self.process!r}, or another group or app "
                    f"makes the same ids: give each its own app_id, and see name_of if you have set it: {why}"
                )
        if state.failures.too_many_lost:
            return SwitchFatal(f"{LOST_AT_MOST} transactions in a row were lost, the last one so: {why}")
        return error

    def _timed_out(self, transaction: Transaction, outcome: Lost) -> str:
        own, limit = transaction.own_seconds, self.rounds.limits.transaction
        advice = (
            "consume fewer messages in a round (ProducerSwitch.round_size) or raise it"
            if own >= limit * SLOW_CODE
            else "brokers were slow to take its records or its commit: look for a full disk, too few in-sync replicas, "
            "a quota or a slow link, or raise it"
        )
        return (
            f"the transaction took {transaction.seconds:.1f} s, {own:.1f} s of it in the app's code, and brokers end "
            f"it after {limit:g} s (transaction.timeout.ms): {advice}; {outcome.why}"
        )


def _why(transaction: Transaction, outcome: RolledBack) -> str:
    """Return why a record is refused; for its timestamp, with that and with this host's clock."""
    if not outcome.why.startswith("INVALID_TIMESTAMP") and ": INVALID_TIMESTAMP: " not in outcome.why:
        return outcome.why
    low, high = transaction.timestamps or (None, None)
    given = "none of its own" if low is None else f"{low}" if low == high else f"{low} to {high}"
    return f"{outcome.why}; timestamp: {given}; this host's clock: {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
