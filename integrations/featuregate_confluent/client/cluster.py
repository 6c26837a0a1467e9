"""Reads which cluster a consumer is connected to, so that no decision about another cluster counts for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from featuregate_confluent.client.pending import GroupUnreadable, ask_until_answered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Consumer


def read_cluster_id(consumer: Consumer, topics: Iterable[str], timeout: float) -> str | None:
    """Return the cluster id in the consumer's own metadata; None: its cluster has none.

    Asks for one of the topics, or for all where each of them is a pattern. Raises `GroupUnreadable`.
    """
    name = next((topic for topic in topics if not topic.startswith("^")), None)

    def ask(seconds: float) -> str | None:
        try:
            # An absent argument, not None, stands for all topics.
            found = consumer.list_topics(name, timeout=seconds) if name else consumer.list_topics(timeout=seconds)
        except KafkaException as failure:
            raise GroupUnreadable("the cluster id of the consumer's cluster", failure.args[0]) from failure
        cluster_id: str | None = found.cluster_id
        return cluster_id

    return ask_until_answered(ask, timeout)
