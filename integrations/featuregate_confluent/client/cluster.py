"""Reads which cluster a client is connected to, so that no decision about another cluster counts for it."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, Producer

from featuregate_confluent.client.pending import GroupUnreadable, ask_until_answered


def read_cluster_id(client: Consumer | Producer, topics: Iterable[str], timeout: float) -> str | None:
    """Return the cluster id in the client's own metadata; None: its cluster has none.

    Asks for one of the topics, or for all where each of them is a pattern. Raises `GroupUnreadable`. Not for a callback
    of the same client: confluent-kafka then aborts the process at the next callback of the same call.
    """
    name = next((topic for topic in topics if not topic.startswith("^")), None)

    def ask(seconds: float) -> str | None:
        try:
            # An absent argument, not None, stands for all topics.
            found = client.list_topics(name, timeout=seconds) if name else client.list_topics(timeout=seconds)
        except KafkaException as failure:
            raise GroupUnreadable("the cluster id", failure.args[0]) from failure
        cluster_id: str | None = found.cluster_id
        return cluster_id

    return ask_until_answered(ask, timeout)
