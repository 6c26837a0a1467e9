"""Leaves a group, or closes a static member that comes back, without blocking for good."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer

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
    # A fatal error, or closed: then nothing calls back any more. A callback of the app may raise whatever it likes.
    with suppress(Exception):
        consumer.unsubscribe()
        _run_callbacks(consumer, timeout, lambda: not consumer.assignment())
    _close(consumer)


def close_static_member(consumer: Consumer, timeout: float = LEAVE_SECONDS) -> None:
    """Close the consumer of a static member, which keeps its place in the group until its session times out (KIP-345).

    To unsubscribe would be to leave (``rd_kafka_cgrp_leave_maybe``), and every other member would be assigned anew. So
    only the callbacks that are pending already run before.
    """
    with suppress(Exception):
        consumer.pause(consumer.assignment())  # the poll is for callbacks, not for messages
        _run_callbacks(consumer, timeout, lambda: True)
    _close(consumer)


def _run_callbacks(consumer: Consumer, timeout: float, done: Callable[[], bool]) -> None:
    until, quiet = time.monotonic() + timeout, 0
    while quiet < _QUIET_POLLS and time.monotonic() < until:
        silent = consumer.poll(_POLL) is None and done()
        quiet = quiet + 1 if silent else 0


def _close(consumer: Consumer) -> None:
    with suppress(RuntimeError):
        consumer.close()
