"""Kafka errors that clients meet in any integration: which pass, and how an error is shown."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

TRANSIENT_ERRORS: Final = frozenset(
    {
        KafkaError._TIMED_OUT,  # noqa: SLF001 - librdkafka's own codes are public names that begin so
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)
"""Errors that pass while a group moves to another coordinator, or while a transaction ends."""


def description_of(error: KafkaError) -> str:
    """Return an error's name and the text of the client."""
    return f"{error.name()}: {error.str()}"
