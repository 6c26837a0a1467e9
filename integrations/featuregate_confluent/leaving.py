"""Leaves a group, and closes the consumer that was in it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

if TYPE_CHECKING:
    from confluent_kafka import Consumer

__all__ = ["leave"]

LEAVE_SECONDS: Final = 10.0
_POLL: Final = 0.01
_QUIET_POLLS: Final = 3


def leave(consumer: Consumer, timeout: float = LEAVE_SECONDS) -> None:
    """Leave the group and close the consumer, which may have been thrown out of it, or be closed already.

    ``close()`` alone calls back for whatever the group has told meanwhile. Where that is more than one thing, the
    group ends within the first callback, and what the second asks of it is never answered: the process stands still
    for good, with every Python thread (librdkafka #4041, #4884; ``rd_kafka_cgrp_op_serve``). So everything is heard
    before: the subscription is given up, and the consumer polled until it has nothing more to say.
    """
    with suppress(KafkaException, RuntimeError):  # a fatal error, or closed: then nothing calls back any more
        consumer.unsubscribe()
        until, quiet = time.monotonic() + timeout, 0
        while quiet < _QUIET_POLLS and time.monotonic() < until:
            silent = consumer.poll(_POLL) is None and not consumer.assignment()
            quiet = quiet + 1 if silent else 0
    with suppress(RuntimeError):
        consumer.close()
