"""Leaves a group, or steps out of it for a while, and closes the consumer that was in it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer

__all__ = ["close_static_member", "leave_group"]

LEAVE_SECONDS: Final = 10.0
_POLL: Final = 0.01
_QUIET_POLLS: Final = 3


def leave_group(consumer: Consumer, timeout: float = LEAVE_SECONDS) -> None:
    """Leave the group and close the consumer, which may have been thrown out of it, or be closed already.

    ``close()`` alone calls back for whatever the group has told meanwhile. Where that is more than one thing, the
    group ends within the first callback, and what the second asks of it is never answered: the process stands still
    for good, with every Python thread (librdkafka #4041, #4884; ``rd_kafka_cgrp_op_serve``). So everything is heard
    before: the subscription is given up, and the consumer polled until it has nothing more to say.
    """
    with suppress(KafkaException, RuntimeError):  # a fatal error, or closed: then nothing calls back any more
        consumer.unsubscribe()
        _hear_out(consumer, timeout, lambda: not consumer.assignment())
    _close(consumer)


def close_static_member(consumer: Consumer, timeout: float = LEAVE_SECONDS) -> None:
    """Close the consumer of a static member, which keeps its place in the group until its session times out (KIP-345).

    To unsubscribe would be to leave (``rd_kafka_cgrp_leave_maybe``), and every other member would be assigned anew. So
    only what the group has told already is heard before.
    """
    with suppress(KafkaException, RuntimeError):
        consumer.pause(consumer.assignment())  # what is heard is the group, not its messages
        _hear_out(consumer, timeout, lambda: True)
    _close(consumer)


def _hear_out(consumer: Consumer, timeout: float, done: Callable[[], bool]) -> None:
    until, quiet = time.monotonic() + timeout, 0
    while quiet < _QUIET_POLLS and time.monotonic() < until:
        silent = consumer.poll(_POLL) is None and done()
        quiet = quiet + 1 if silent else 0


def _close(consumer: Consumer) -> None:
    with suppress(RuntimeError):
        consumer.close()
