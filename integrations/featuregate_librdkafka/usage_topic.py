"""Sends usage reports to a topic: what ``UsageReporter`` takes as ``send``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, libversion, version

from featuregate.logs import get_logger
from featuregate_librdkafka.client_properties import client_properties

_logger = get_logger("featuregate.usage")

USAGE_TOPIC: Final = "featuregate-usage"
SOFTWARE: Final = ("confluent-kafka-python", f"{version()}-librdkafka-{libversion()[0]}")
"""As the client calls itself when it connects to brokers (KIP-511)."""

_SCAN: Final = 1.0
"""librdkafka looks once a second for records whose ``message.timeout.ms`` is over."""
_TIMED_OUT: Final = KafkaError(KafkaError._MSG_TIMED_OUT)  # noqa: SLF001 - a public name of librdkafka
"""What librdkafka says of such a record, where a starved machine has not let it look in time."""

_OWN: Final = {"acks": "all", "linger.ms": 0, "log_level": 3}


class UsageTopic:
    """Sends each report as a record, and waits until brokers have it: a report that is lost is counted as failed.

    .. code-block:: python

        reporter = fg.UsageReporter(UsageTopic(config), app="orders")

    Parameters
    ----------
    client
        The config of the app, in any spelling that :class:`featuregate.Discoverer` takes: the reports have a producer
        of their own, which connects at the first report.
    topic
        The topic, which must exist, unless brokers create topics.
    timeout
        Seconds for one report, at the most.
    """

    def __init__(self, client: Mapping[str, Any] | str, topic: str = USAGE_TOPIC, *, timeout: float = 30.0) -> None:
        self._client = dict(client) if isinstance(client, Mapping) else client
        self._topic = topic
        self._timeout = timeout
        self._own: dict[int, Producer] = {}

    def __call__(self, value: bytes, /) -> None:
        """Send one report.

        Raises
        ------
        ConfigError
            The config cannot be used.
        KafkaException
            The record was refused, or not delivered.
        """
        delivered: SimpleQueue[KafkaError | None] = SimpleQueue()

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            delivered.put(error)

        producer = self._own_producer()
        producer.produce(self._topic, value, on_delivery=on_delivery)
        producer.flush(self._timeout + _SCAN)
        error = _TIMED_OUT if delivered.empty() else delivered.get()
        if error is not None:
            raise KafkaException(error)

    def _own_producer(self) -> Producer:
        """Return the producer of this process. A forked child leaves that of its parent alone: its threads are gone."""
        process = os.getpid()
        if process not in self._own:
            properties = client_properties(self._client) | _OWN
            properties |= {"message.timeout.ms": int(self._timeout * 1000), "error_cb": _log_error}
            self._own[process] = Producer(properties, logger=_logger)
        return self._own[process]


def _log_error(error: KafkaError) -> None:
    _logger.debug("%s", error)
