"""How transactions end, and what follows from it: for the offsets, the latch, the producers and the failure limits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from featuregate_confluent.error_actions import ErrorAction
from featuregate_confluent.errors import CommitRefused, MustRejoin, SwitchFatal
from featuregate_confluent.events import Fenced, TransactionAborted, TransactionCommitted
from featuregate_confluent.latch import marks
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.models import Model
from featuregate_confluent.member.failure_limits import ABORTED_AT_MOST, LOST_AT_MOST, TAKEN_AT_MOST, TAKEN_SECONDS
from featuregate_librdkafka.calls import Callers

if TYPE_CHECKING:
    from collections.abc import Callable

    from featuregate_confluent.client.latch_topic import LatchTopic
    from featuregate_confluent.events import SwitchEvent
    from featuregate_confluent.latch.protocol import Partition
    from featuregate_confluent.member.assigned_partitions import AssignedPartitions
    from featuregate_confluent.member.failure_limits import FailureLimits
    from featuregate_confluent.member.group_state import GroupState
    from featuregate_confluent.producing.producers import Producers
    from featuregate_confluent.producing.rounds import Rounds
    from featuregate_confluent.producing.transaction import Transaction

__all__ = ["Outcomes"]

UNHEARD: Final = "a commit was under way, and its end was not waited for before the consumer was polled: see Pipeline"


class Outcomes:
    """Who is told how each transaction of a member ended: the :class:`~.transaction.Keeper` of them all."""

    def __init__(
        self,
        *,
        assigned: AssignedPartitions,
        producers: Producers,
        group_state: GroupState,
        failure_limits: FailureLimits,
        latch_topic: LatchTopic | None,
        emit: Callable[[SwitchEvent], None],
        process: str,
        rounds: Rounds,
    ) -> None:
        self._assigned = assigned
        self._producers = producers
        self._group_state = group_state
        self._failure_limits = failure_limits
        self._latch_topic = latch_topic
        self._emit = emit
        self._process = process
        self.rounds = rounds
        """Measures how long the app's code takes."""
        self.transaction_seconds = rounds.limits.transaction
        """After so long brokers end a transaction (``transaction.timeout.ms``)."""
        self.callers = Callers()
        """Make the calls that need a bound of ours, and go on while the app's code does."""
        self.under_way: set[Transaction] = set()
        """Those whose producer is used by a call, or of whose end nothing was concluded yet."""
        self.committed = 0
        """Transactions that were committed."""
        self.aborted = 0
        """Transactions that were aborted, or lost with their producer."""

    def metadata_of(self, partition: Partition) -> str:
        """Give the text that goes with the offset of a partition: the mark (R7), and what the app had there."""
        return marks.write(Mark(self._group_state.model, self._assigned.app_metadata(partition)))

    def before_commit(self, transaction: Transaction) -> None:
        """Add the latch topic's record to the same transaction (R11).

        Raises
        ------
        CommitRefused
            The consumer was polled since: its messages come again, to whoever owns their partitions now (R9).
        """
        if transaction.assignment != self._assigned.rebalances:
            raise CommitRefused(
                ErrorAction.ABORT, "the consumer was polled within the transaction, whose messages come again for that"
            )
        if (
            self._latch_topic is not None
            and transaction.model is Model.V2
            and self._group_state.latch_in_topic is not Model.V2
        ):
            record = self._latch_topic.record(Model.V2)
            transaction.produce(record.topic, record.value, key=record.key)

    def leave_behind(self) -> None:
        """Leave what is under way behind, producers and all: this member then has lost its place."""
        if self.under_way:
            self._assigned.lose(UNHEARD)  # first: a signal may come here, too
        for transaction in tuple(self.under_way):
            transaction.leave_behind()
            self._producers.leave_behind(transaction.producer)
            self.under_way.discard(transaction)

    def on_committed(self, transaction: Transaction, generation: int, seconds: float) -> None:
        """Keep what a commit has made true."""
        self.committed += 1
        self._failure_limits.committed()
        if transaction.assignment == self._assigned.rebalances:  # else its partitions are nobody's, or read anew
            self._assigned.advance(transaction.offsets, transaction.model)
            self._assigned.end(transaction.messages)
        self._group_state.committed(transaction.model, generation)
        count = len(transaction.messages)
        self._emit(
            TransactionCommitted(model=transaction.model, messages=count, seconds=seconds, generation=generation)
        )

    def on_aborted(self, transaction: Transaction, why: str) -> None:
        """Let its messages come again.

        Raises
        ------
        MustRejoin
            They cannot, or it has happened too often in a row.
        """
        self.aborted += 1
        self._emit(TransactionAborted(model=transaction.model, messages=len(transaction.messages), why=why))
        if self._failure_limits.aborted():
            self._assigned.lose(why)
            raise MustRejoin(f"{ABORTED_AT_MOST} transactions in a row were aborted, the last one for: {why}")
        if transaction.assignment == self._assigned.rebalances:  # else they are taken back, or another's
            self._assigned.rewind(transaction.consumer, transaction.messages)
            self._assigned.end(transaction.messages)

    def on_lost(self, transaction: Transaction, why: str, *, fenced: bool) -> str:
        """Drop a producer that cannot be used any more, and say why that is so.

        Of transactions that ran side by side, the first one that is lost counts: what befell the others is the same.

        Raises
        ------
        SwitchFatal
            It has happened too often.
        """
        self.aborted += 1
        seconds = transaction.seconds
        taken = fenced and seconds < self.transaction_seconds
        if fenced and not taken:
            why = (
                f"the transaction took {seconds:.1f} s, and brokers end it after {self.transaction_seconds:g} s "
                f"(transaction.timeout.ms): consume fewer messages in a round (ProducerSwitch.round_size) or raise it; "
                f"{why}"
            )
        in_use = transaction.in_use or any(
            other is not transaction and other.producer is transaction.producer for other in self.under_way
        )
        (self._producers.leave_behind if in_use else self._producers.drop)(transaction.producer)
        if self._assigned.lost is not None:
            return why
        self._assigned.lose(why)
        self._emit(Fenced(why=why))
        if taken and self._failure_limits.taken(time.monotonic()):
            raise SwitchFatal(
                f"transactional ids of this process were taken {TAKEN_AT_MOST} times within {TAKEN_SECONDS:g} s. "
                f"Another process has its name {self._process!r}, or another group its app_id: {why}"
            )
        if self._failure_limits.lost():
            raise SwitchFatal(f"{LOST_AT_MOST} transactions in a row were lost, the last one so: {why}")
        return why
