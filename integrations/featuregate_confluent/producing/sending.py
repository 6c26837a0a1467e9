"""What follows where a client does not take a record, and a callback of the app that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from featuregate.logs import get_logger
from featuregate_confluent.producing.outcome import Lost, RolledBack, lost_by, rolled_back_by
from featuregate_librdkafka.error_table import ErrorAction
from featuregate_librdkafka.transaction_calls import CallFailed, TransactionalProducer

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

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
