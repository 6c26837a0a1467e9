"""Aborts right behind a commit, on real brokers: the producer goes on."""

from uuid import uuid4

import pytest
from confluent_kafka import Producer

from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.topics import create_topics
from featuregate_librdkafka.transaction_calls import TransactionalProducer

pytestmark = pytest.mark.live

BOUND = 60.0
TURNS = 40


@pytest.mark.parametrize("kafka", ["3.9.2", "4.2.0"], indirect=True)
def test_an_abort_while_the_transaction_before_is_completed_costs_no_producer(kafka: LocalKafka) -> None:
    """Without waiting for the records, half of such aborts are refused with INVALID_TXN_STATE, which is fatal."""
    name = f"aborts-{uuid4().hex[:8]}"
    client = {"bootstrap.servers": kafka.bootstrap}
    create_topics(client, {name: 1}, brokers=1)
    producer = TransactionalProducer(Producer({**client, "transactional.id": name}))
    producer.initialize(BOUND)
    for turn in range(TURNS):
        producer.begin()
        producer.client.produce(name, b"committed")
        producer.commit(BOUND)
        producer.begin()
        producer.client.produce(name, b"aborted")
        producer.poll(0.001 * (turn % 8))
        producer.abort(BOUND)
