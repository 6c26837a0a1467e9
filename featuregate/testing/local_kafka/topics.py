"""Topics with records in a local cluster, for somebody who tries an app on it. Needs confluent-kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from featuregate.errors import LocalKafkaError

_SECONDS: Final = 60.0
_REPLICAS: Final = 3
_FLUSH_EVERY: Final = 10_000
"""Fewer records than the queue of the client takes."""


def create_topics(
    client_config: Mapping[str, Any],
    partitions: Mapping[str, int],
    *,
    brokers: int,
    configs: Mapping[str, dict[str, str]] | None = None,
) -> None:
    """Create topics, by name with the number of their partitions, with a replica on each broker and at most three.

    Raises `LocalKafkaError`: the cluster refuses one, or does not answer within a minute.
    """
    admin = AdminClient(dict(client_config) | {"log_level": 3})
    own, replicas = configs or {}, min(_REPLICAS, brokers)
    wanted = [NewTopic(name, count, replicas, config=own.get(name, {})) for name, count in partitions.items()]
    for name, done in admin.create_topics(wanted, request_timeout=_SECONDS).items():
        try:
            done.result(_SECONDS)
        except (KafkaException, TimeoutError) as error:
            raise LocalKafkaError(f"topic {name} was not created: {error}") from error


def write_records(client_config: Mapping[str, Any], topic: str, count: int) -> None:
    """Write records with the keys ``1`` to ``count`` and values such as ``orders 1``.

    Raises `LocalKafkaError`: not all of them were written within a minute.
    """
    # A new cluster is still loading its coordinators, which the client logs as warnings.
    producer = Producer(dict(client_config) | {"enable.idempotence": True, "log_level": 3})
    for number in range(1, count + 1):
        producer.produce(topic, key=str(number), value=f"{topic} {number}")
        if number % _FLUSH_EVERY == 0:
            producer.flush(_SECONDS)
    if left := producer.flush(_SECONDS):
        raise LocalKafkaError(f"{left} of {count} records were not written to {topic} within {_SECONDS:.0f} s")
