"""Leaves a group, or closes a static member that comes back, without blocking for good."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from confluent_kafka import Consumer, KafkaException

from featuregate.logs import get_logger

logger = get_logger("featuregate.confluent")

LEAVE_SECONDS: Final = 10.0
_POLL: Final = 0.01
_QUIET_POLLS: Final = 3


def leave_group(consumer: Consumer, timeout: float = LEAVE_SECONDS) -> None:
    """Leave the group and close the consumer, which may have been removed from it, or be closed already.

    ``close()`` alone runs a callback for each rebalance that is pending. If there are two, the group ends within the
    first callback, and a request of the second one is never answered: the process blocks for good, with every Python
    thread (librdkafka #4041, #4884; ``rd_kafka_cgrp_op_serve``). So the member unsubscribes first, and polls the
    consumer until no callback is left.
    """
    with _going_on():
        consumer.unsubscribe()
        _run_callbacks(consumer, timeout, lambda: not consumer.assignment())
    _close(consumer)


def close_static_member(consumer: Consumer, timeout: float = LEAVE_SECONDS) -> None:
    """Close the consumer of a static member, which keeps its place in the group until its session times out (KIP-345).

    To unsubscribe would be to leave (``rd_kafka_cgrp_leave_maybe``), and every other member would be assigned anew. So
    only the callbacks that are pending already run before.
    """
    with _going_on():
        consumer.pause(consumer.assignment())  # the poll is for callbacks, not for messages
        _run_callbacks(consumer, timeout, lambda: True)
    _close(consumer)


@contextmanager
def _going_on() -> Iterator[None]:
    """Go on to close the consumer, whatever fails before."""
    try:
        yield
    except (KafkaException, RuntimeError):
        pass  # a fatal error, or closed: then nothing calls back any more
    except Exception:
        logger.exception("a callback of the app failed while its member left the group")


def _run_callbacks(consumer: Consumer, timeout: float, done: Callable[[], bool]) -> None:
    until, quiet = time.monotonic() + timeout, 0
    while quiet < _QUIET_POLLS and time.monotonic() < until:
        silent = consumer.poll(_POLL) is None and done()
        quiet = quiet + 1 if silent else 0


def _close(consumer: Consumer) -> None:
    with suppress(RuntimeError):
        consumer.close()
