"""What confluent-kafka's asyncio clients lack for exactly-once, as the page on the switch says."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer, TopicPartition, libversion
from confluent_kafka.aio import AIOConsumer, AIOProducer
from waiting import BOUND, in_loop

if TYPE_CHECKING:
    from mock_kafka import MockKafka

PRODUCE = 0
ANSWER_MS = 2000


@pytest.mark.skipif(libversion()[1] < 0x02100000, reason="the page is about the clients of 2.16")
async def test_a_cancelled_consume_loses_messages(kafka: MockKafka) -> None:
    """Its thread consumes them, the app does not get them, and the position, where a commit begins, is behind them."""
    kafka.create_topic("orders")
    place = TopicPartition("orders", 0, 0)
    consumer = AIOConsumer({"bootstrap.servers": kafka.bootstrap, "group.id": "billing", "enable.auto.commit": False})
    await consumer.assign([place])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(consumer.consume(1, BOUND), 0.1)
    feeder = Producer({"bootstrap.servers": kafka.bootstrap})
    feeder.produce("orders", b"lost")
    assert feeder.flush(BOUND) == 0
    (after,) = await consumer.position([place])  # waits for the thread
    assert after.offset == 1
    assert await consumer.consume(1, 0.5) == []
    await consumer.close()


async def test_the_asyncio_producer_takes_no_headers(kafka: MockKafka) -> None:
    """Dead letters have headers."""
    kafka.create_topic("bills")
    producer = AIOProducer({"bootstrap.servers": kafka.bootstrap})
    with pytest.raises(NotImplementedError, match="Headers are not supported"):
        await producer.produce("bills", b"bill", headers=[("from", b"orders")])
    await producer.close()


async def test_an_abort_waits_until_its_records_are_delivered(kafka: MockKafka) -> None:
    """The abort of the plain client does not wait."""
    kafka.create_topic("bills")
    producer = AIOProducer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "billing-0"})
    await producer.init_transactions(BOUND)
    await producer.begin_transaction()
    kafka.answer(PRODUCE, [0], after_ms=ANSWER_MS)
    delivered = await producer.produce("bills", b"bill")
    began = time.monotonic()
    await producer.abort_transaction(BOUND)
    assert time.monotonic() - began > ANSWER_MS / 2000
    await in_loop(delivered.done)
    assert delivered.exception() is None
    await producer.close()
