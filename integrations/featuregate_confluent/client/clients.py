"""Clients of our own, in addition to the app's: the same brokers and rights, and no word on standard error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from featuregate.logs import get_logger
from featuregate_librdkafka.client_properties import connection_properties

_logger = get_logger("featuregate.confluent.client")

_ANSWER: Final = {"socket.timeout.ms": 5000}
"""What our clients ask is answered at once, or by another broker: one that takes connections and says nothing must not
hold a question for librdkafka's own minute."""


def admin(config: Mapping[str, Any]) -> AdminClient:
    """Return an admin client. Keep it until what it was asked has been answered; ``poll(0)`` serves its log."""
    ours: dict[str, Any] = {**_ANSWER, **connection_properties(config), "error_cb": _log_error}
    return AdminClient(ours, logger=_logger)


def reader(config: Mapping[str, Any], group_id: str, *, isolation: str = "read_committed") -> Consumer:
    """Return a consumer that reads what it is assigned, to each partition's end, and never joins or commits.

    librdkafka wants a group id of every consumer. Offsets that it asks for are those of ``group_id``.
    """
    ours = {
        "group.id": group_id,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "fetch.wait.max.ms": 20,  # an empty answer shows the end of a partition, and brokers delay it for 500 ms
        "error_cb": _log_error,
    }
    return Consumer({**_ANSWER, **connection_properties(config), **ours}, logger=_logger)


def writer(config: Mapping[str, Any]) -> Producer:
    """Return a producer that writes what all replicas in sync have."""
    return Producer({**connection_properties(config), "acks": "all", "error_cb": _log_error}, logger=_logger)


def _log_error(error: KafkaError) -> None:
    _logger.debug("%s", error)
