"""What follows where a client does not take a record: wait for room, or end the transaction."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from featuregate_confluent.error_actions import ErrorAction, action_for
from featuregate_confluent.producing.offsets import words
from featuregate_confluent.producing.outcome import Lost, RolledBack, rolled_back_by, was_fenced

if TYPE_CHECKING:
    from collections.abc import Callable


Delivery: TypeAlias = "Callable[[KafkaError | None, Message], None]"

logger = logging.getLogger("featuregate.confluent")

FULL_SECONDS: Final = 60.0
_ROOM_SECONDS: Final = 0.05


def send_when_room(producer: Producer, topic: str, send: Callable[[], None]) -> Lost | RolledBack | None:
    """Send a record once the producer's queue has room, and return None; or the outcome if it was not sent."""
    deadline = time.monotonic() + FULL_SECONDS
    try:
        while True:
            producer.poll(_ROOM_SECONDS)  # confluent-kafka raises the errors of its callbacks from here
            try:
                send()
            except BufferError as full:
                if time.monotonic() > deadline:
                    return RolledBack(why=f"the producer's queue stayed full for {FULL_SECONDS:g} s", cause=full)
            else:
                return None
    except KafkaException as failure:
        return refused(topic, failure)


def refused(topic: str, failure: KafkaException) -> Lost | RolledBack:
    """Return the outcome of a transaction of which a record was refused."""
    action = action_for(failure.args[0])
    why = f"a record for topic {topic!r} was not taken: {words(failure.args[0])}"
    if action is ErrorAction.REJOIN:
        return Lost(why=why, cause=failure, fenced=was_fenced(failure))
    return rolled_back_by(failure, why)


def failed_before(outcome: RolledBack) -> bool:
    """Return whether the transaction has failed in the background, for a reason that is not this one."""
    return isinstance(outcome.cause, KafkaException) and outcome.cause.args[0].name() == "_STATE"


def logging_errors(on_delivery: Delivery) -> Delivery:
    """Log the errors of a callback: the client would raise them from an unrelated call, or drop them."""

    def report(error: KafkaError | None, message: Message) -> None:
        try:
            on_delivery(error, message)
        except Exception:
            logger.exception("the delivery callback failed; the transaction goes on")

    return report
