"""Topics of a cluster of tests, what they hold, and what a broker keeps of them on its disk."""

import struct
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from waiting import BOUND, eventually


def create_topics(
    client: Mapping[str, object], *names: str, partitions: int = 1, replicas: int = 1, **config: object
) -> None:
    """Create topics of one kind, and wait for them; ``config`` has their properties, with underscores for dots."""
    properties = {name.replace("_", "."): str(value) for name, value in config.items()}
    admin = AdminClient(dict(client))  # answers come only while it is held
    topics = [NewTopic(name, partitions, replicas, config=properties) for name in names]
    for created in admin.create_topics(topics, operation_timeout=BOUND).values():
        created.result(BOUND)
    eventually(lambda: set(names) <= set(admin.list_topics(timeout=BOUND).topics), "brokers list the topics")


def create_again(client: Mapping[str, object], name: str, partitions: int = 1) -> None:
    """Create a topic; one of this name that is being deleted may be there for a while."""

    def created() -> bool:
        create_topics(client, name, partitions=partitions)
        return True

    eventually(created, f"{name} is created", despite=(KafkaException,))


def delete_topic(client: Mapping[str, object], name: str) -> None:
    """Delete a topic, and wait until no client sees it."""
    admin = AdminClient(dict(client))
    admin.delete_topics([name])[name].result(BOUND)
    eventually(lambda: name not in admin.list_topics(timeout=BOUND).topics, "the topic is gone")


def committed_values(client: Mapping[str, object], topic: str, *, partitions: int = 1) -> list[bytes]:
    config = {"group.id": "values", "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    found, ends = [], 0
    with Consumer({**client, **config, "enable.partition.eof": True}) as consumer:
        consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
        while ends < partitions:
            (message,) = consumer.consume(1, BOUND)
            ends += message.error() is not None
            found += [message.value() or b""] if message.error() is None else []
    return sorted(found)


def first_batch(data: Path, topic: str) -> tuple[int, int]:
    """Return the codec and the producer id of the first batch of partition 0 in a broker's folder of data."""
    (segment,) = data.glob(f"{topic}-0/*.log")
    head = segment.read_bytes()[:61]
    (attributes,) = struct.unpack_from(">h", head, 21)
    (producer_id,) = struct.unpack_from(">q", head, 43)
    return attributes & 0b111, producer_id
