"""How a transaction ends: a value from which the member draws its conclusions, and the calls that end it.

The calls run in another thread than the loop, and return the value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from featuregate.calls import Call, NotReturned
from featuregate.logs import get_logger
from featuregate_confluent.errors import CommitRefused
from featuregate_confluent.producing.offsets import SEND_SECONDS, send_offsets
from featuregate_librdkafka.error_table import ErrorAction
from featuregate_librdkafka.transaction_calls import STOOD_STILL, CallFailed, TransactionalProducer


@dataclass(frozen=True, slots=True)
class Committed:
    """All of the transaction counts."""

    generation: int
    """The generation in which its offsets were sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """The transaction was aborted, and its producer can go on."""

    why: str
    cause: BaseException | None = None
    fatal: bool = False
    """Whether another attempt would fail as well."""
    refused: bool = False
    """Whether a record that the app gave is the reason."""
    unexplained: bool = False
    """Whether nothing is known of the error that is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The producer cannot go on, and only the next producer with this id knows how the transaction ended."""

    why: str
    cause: BaseException | None = None
    fenced: bool = False
    """Whether another producer has the id, or the transaction has timed out."""
    unanswered: bool = False
    """Whether brokers may still take its offsets, so that only the next producer may abort the transaction."""
    fatal: bool = False


TransactionOutcome: TypeAlias = Committed | RolledBack | Lost


def rolled_back_by(failed: CallFailed) -> RolledBack:
    """Return the outcome after an error that only an abort follows."""
    row = failed.row
    fatal = row.action is ErrorAction.FATAL
    return RolledBack(
        why=failed.why, cause=failed.__cause__, fatal=fatal, refused=row.record, unexplained=row.unexplained
    )


def lost_by(failed: CallFailed, *, fatal: bool = False) -> Lost:
    """Return the outcome after an error that leaves the end of the transaction unknown."""
    fatal = fatal or failed.action is ErrorAction.FATAL
    return Lost(why=failed.why, cause=failed.__cause__, fenced=failed.is_fenced, fatal=fatal)


Delivery: TypeAlias = "Callable[[KafkaError | None, Message], None]"

logger = get_logger("featuregate.confluent")

FULL_SECONDS: Final = 60.0


def send_when_room(producer: Producer, topic: str, send: Callable[[], None]) -> Lost | RolledBack | None:
    """Send a record once the producer's queue has room, and return None; or the outcome if it was not sent."""
    try:
        TransactionalProducer(producer).send_when_room(send, FULL_SECONDS)
    except CallFailed as failed:
        return refused(topic, failed)
    return None


def refused(topic: str, failed: CallFailed) -> Lost | RolledBack:
    """Return the outcome of a transaction of which a record was refused."""
    failed.why = f"a record for topic {topic!r} was not taken: {failed.why}"
    return lost_by(failed) if failed.action is ErrorAction.REJOIN else rolled_back_by(failed)


def logging_errors(on_delivery: Delivery) -> Delivery:
    """Log the errors of a callback: the client would raise them from an unrelated call, or drop them."""

    def report(error: KafkaError | None, message: Message) -> None:
        try:
            on_delivery(error, message)
        except Exception:
            logger.exception("the delivery callback failed; the transaction goes on")

    return report


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
