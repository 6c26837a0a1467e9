"""The example of share groups: it reads what was there, by the kind of group that the cluster has."""

import time
from pathlib import Path
from runpy import run_path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, ShareConsumer

import featuregate as fg
from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.topics import create_topics, write_records

pytestmark = pytest.mark.live

EXAMPLE = run_path(str(Path(__file__).parents[3] / "examples" / "work_queue.py"))
RECORDS = 20
BOUND = 60.0


@pytest.mark.parametrize(("kafka", "kind"), [("3.9.2", Consumer), ("4.2.0", ShareConsumer)], indirect=["kafka"])
def test_records_that_were_there_are_read_by_the_group_that_the_cluster_has(kafka: LocalKafka, kind: type) -> None:
    """Without its config a share group would read none of them."""
    name = f"work-{uuid4().hex[:8]}"
    config = {"bootstrap.servers": kafka.bootstrap, "group.id": name}
    create_topics({"bootstrap.servers": kafka.bootstrap}, {name: 2}, brokers=1)
    write_records({"bootstrap.servers": kafka.bootstrap}, name, RECORDS)
    with fg.Discoverer(kafka.bootstrap, interval=60) as features:
        assert features.wait(BOUND)
        consumer = EXAMPLE["consumer_of"](config, features.gate("work-queue", fg.presets.kip932))
    assert type(consumer) is kind
    consumer.subscribe([name])
    found, deadline = set[tuple[int, int]](), time.monotonic() + BOUND
    while len(found) < RECORDS and time.monotonic() < deadline:
        found |= {(message.partition(), message.offset()) for message in EXAMPLE["read"](consumer, 1.0)}
    consumer.close()
    assert len(found) == RECORDS
