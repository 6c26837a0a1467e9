"""Callbacks of a producer: served so that a fatal error does not stand in their way."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException, Producer

_POLL_SECONDS: Final = 0.1


def serve_callbacks(producer: Producer, seconds: float) -> None:
    """Serve callbacks until nothing is on its way to brokers, for some seconds, in calls that end at an exception.

    ``flush()`` and ``close()`` serve all callbacks in one call. A fatal error that arrives in that call is raised by
    confluent-kafka's own error callback, whether or not the producer has an ``error_cb``, and the delivery reports that
    follow then run with that exception set: each raises ``SystemError: ... returned a result with an exception set``.
    """
    until = time.monotonic() + seconds
    while len(producer) and time.monotonic() < until:
        with suppress(KafkaException):  # the next call of the producer raises it again
            producer.poll(_POLL_SECONDS)
