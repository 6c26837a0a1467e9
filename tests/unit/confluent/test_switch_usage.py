"""The switch reports its gate, by a producer that takes no part in its transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from mock_kafka import MockKafka
from waiting import eventually

from featuregate.usage.report import UsageReport
from featuregate_confluent import ProducerSwitch
from featuregate_librdkafka.usage_topic import SOFTWARE

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = "featuregate-usage"
BOUND = 60.0


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    """A cluster of librdkafka's own."""
    with MockKafka() as cluster:
        yield cluster


def reports_in(kafka: MockKafka, count: int) -> list[UsageReport]:
    """Return the first reports of the topic."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    try:
        partitions = consumer.list_topics(TOPIC, BOUND).topics[TOPIC].partitions
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in partitions])
        return [UsageReport.from_json(message.value() or b"") for message in consumer.consume(count, BOUND)]
    finally:
        consumer.close()


def test_the_switch_reports_its_gate_under_the_id_of_the_app(kafka: MockKafka) -> None:
    """Operators see which apps have moved to v2. The last report says that the process ends."""
    base = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    switch = ProducerSwitch(
        consumer={**base, "group.id": "billing"},
        producer=base,
        topics=["orders"],
        app_id="billing",
        instance_id="billing-0",
        usage_topic=TOPIC,
    )
    try:
        eventually(lambda: switch.health()["usage"]["sent"], "a report", BOUND)
    finally:
        switch.close()
    eventually(lambda: switch.health()["usage"]["sent"] >= 2, "the last report", BOUND)
    assert switch.health()["usage"]["failed"] == 0
    reports = reports_in(kafka, 2)
    assert {report.reporter for report in reports} == {("billing", "billing-0", *SOFTWARE)}
    assert {gate.name for report in reports for gate in report.gates} == {"kip447"}
    assert {report.closing for report in reports} == {False, True}


def test_the_switch_reports_nothing_by_default(kafka: MockKafka) -> None:
    """The topic is the app's to name."""
    base = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    switch = ProducerSwitch(
        consumer={**base, "group.id": "billing"}, producer=base, topics=["orders"], app_id="billing"
    )
    try:
        assert switch.health()["usage"] is None
    finally:
        switch.close()
