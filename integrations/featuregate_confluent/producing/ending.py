"""The calls that end a transaction: they run in another thread than the loop, and return the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from featuregate_confluent.errors import CommitRefused
from featuregate_confluent.producing.offsets import SEND_SECONDS, send_offsets
from featuregate_confluent.producing.outcome import (
    Committed,
    Lost,
    RolledBack,
    TransactionOutcome,
    lost_by,
    rolled_back_by,
)
from featuregate_librdkafka.calls import Call, NotReturned
from featuregate_librdkafka.error_table import ErrorAction
from featuregate_librdkafka.transaction_calls import STOOD_STILL, CallFailed, TransactionalProducer

END_SECONDS: Final = 60.0


def send_and_commit(
    producer: TransactionalProducer,
    consumer: Consumer,
    offsets: Sequence[TopicPartition],
    *,
    timeout: float,
    generation: int | None,
) -> TransactionOutcome:
    """Send the offsets and commit; abort if that is refused.

    The abort does not wait for the loop, because brokers wait no longer than the transaction's timeout.
    """
    try:
        sent_in = send_offsets(producer, consumer, list(offsets), timeout=timeout, generation=generation)
    except (CommitRefused, CallFailed) as refused:
        return _after(refused, producer)
    try:
        producer.commit(END_SECONDS)
    except CallFailed as failed:
        if failed.action is ErrorAction.ABORT or (failed.row.record and not failed.is_fatal):
            return roll_back(producer, rolled_back_by(failed))
        return lost_by(failed)
    return Committed(sent_in)


def roll_back(producer: TransactionalProducer, outcome: RolledBack) -> TransactionOutcome:
    """Abort, and return this outcome; or `Lost` if that fails, with both reasons.

    What is done about a refused record waits then, because it comes again with the next producer.
    """
    try:
        with suppress(RuntimeError):  # the producer was closed with its partition, and the transaction with it
            producer.abort(END_SECONDS)
    except CallFailed as failed:
        failed.why = f"{failed.why}; the abort was due to: {outcome.why}"
        return lost_by(failed, fatal=outcome.fatal and not outcome.refused)
    return outcome


def roll_back_with_reason(
    producer: TransactionalProducer, consumer: Consumer, offsets: Sequence[TopicPartition], outcome: RolledBack
) -> TransactionOutcome:
    """Abort, and return the outcome with the reason of a transaction that has failed in the background.

    ``produce()`` gives ``_STATE`` then, whatever the reason is, and the call that sends the offsets gives the reason.
    """
    if isinstance(outcome.cause, KafkaException) and outcome.cause.args[0].name() == "_STATE":
        try:
            send_offsets(producer, consumer, list(offsets), timeout=SEND_SECONDS)
        except (CommitRefused, CallFailed) as refused:
            return _after(refused, producer)
    return roll_back(producer, outcome)


def outcome_of(call: Call[TransactionOutcome]) -> TransactionOutcome:
    """Wait for the outcome; the producer is lost where the call that uses it does not return."""
    try:
        return call.result()
    except NotReturned as stuck:
        return Lost(why=f"{stuck}: {STOOD_STILL}", cause=stuck)


def _after(refused: CommitRefused | CallFailed, producer: TransactionalProducer) -> TransactionOutcome:
    """Return the outcome after the offsets were refused: abort where that is due.

    Where no broker answered, the transaction stays open: brokers may still take its offsets, also after an abort, and
    the next transaction of the producer would commit them (KIP-890). The next producer with this transactional id
    aborts this transaction, and brokers then refuse what has the epoch of before.
    """
    if isinstance(refused, CommitRefused):
        fatal = refused.action is ErrorAction.FATAL
        return roll_back(producer, RolledBack(why=refused.why, cause=refused, fatal=fatal))
    if refused.is_unanswered or refused.action is ErrorAction.REJOIN:
        return Lost(
            why=refused.why, cause=refused.__cause__, fenced=refused.is_fenced, unanswered=refused.is_unanswered
        )
    return roll_back(producer, rolled_back_by(refused))
