"""Read a topic as a work queue: by a share group where the cluster has them.

Run it: ``python examples/work_queue.py localhost:9092 work``
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Message, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

import featuregate as fg

SECONDS = 10.0


def start_at_the_beginning(config: Mapping[str, Any], group: str) -> None:
    """Let a new share group read what is there; by default it begins at the end."""
    to_set = {"incremental_operation": AlterConfigOpType.SET}
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", **to_set)
    change = ConfigResource(ResourceType.GROUP, group, incremental_configs=[earliest])
    of_brokers = {name: config[name] for name in config if name != "group.id"}
    admin = AdminClient(of_brokers)
    for done in admin.incremental_alter_configs([change]).values():
        done.result(SECONDS)


def consumer_of(config: Mapping[str, Any], gate: fg.Gate) -> Consumer | ShareConsumer:
    """Return a share consumer where cluster and client can, else an ordinary one."""
    if not gate.open or fg.clients.not_ready(fg.presets.kip932):
        return Consumer({**config, "auto.offset.reset": "earliest"})
    group = f"{config['group.id']}-share"  # no group is of both kinds
    start_at_the_beginning(config, group)
    return ShareConsumer({**config, "group.id": group})


def read(consumer: Consumer | ShareConsumer, seconds: float) -> list[Message]:
    """Return the next records. A share group gives each to one of its members."""
    if isinstance(consumer, ShareConsumer):
        return list(consumer.poll(seconds))
    return consumer.consume(100, seconds)


def main(bootstrap: str, topic: str) -> None:
    """Print records until Ctrl-C."""
    config = {"bootstrap.servers": bootstrap, "group.id": "work"}
    with fg.Discoverer(bootstrap, interval=60, latch_store="latches") as features:
        features.wait(SECONDS)
        consumer = consumer_of(config, features.gate("work-queue", fg.presets.kip932))
        consumer.subscribe([topic])
        try:
            while True:
                for message in read(consumer, 1.0):
                    print(message.error() or message.value())
        except KeyboardInterrupt:
            consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
