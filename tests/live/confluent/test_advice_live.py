"""Advice on real clusters, old and new: advised settings work, and the others would not."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from topics import create_topics, first_batch

import featuregate as fg
from featuregate.requirements import configs_in
from featuregate.testing import LocalKafka
from featuregate_confluent import AdviceState, advise, with_advice
from featuregate_confluent.member.membership import leave_group

pytestmark = [pytest.mark.proof("switch"), pytest.mark.live]

BOUND = 60.0
SOON = 15.0
"""Many times what the same consumer takes where it works."""
MESSAGES = 500
ZSTD = 4
BY_BROKER = "4.2.0"
QUIET = logging.getLogger("tests.advice")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


class Place(NamedTuple):
    """A cluster of one broker."""

    version: str
    kafka: LocalKafka
    data: Path


@pytest.fixture(scope="module", params=["2.4.1", "3.9.2", BY_BROKER])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    data = tmp_path_factory.mktemp("data")
    with LocalKafka(request.param, properties={"group.initial.rebalance.delay.ms": 0, "log.dirs": data}) as kafka:
        yield Place(request.param, kafka, data)


@pytest.fixture
def features(place: Place) -> Iterator[fg.Discoverer]:
    with fg.Discoverer(place.kafka.client_config()) as found:
        assert found.wait(BOUND)
        yield found


@pytest.fixture
def topic(place: Place, request: pytest.FixtureRequest) -> str:
    name = str(request.node.originalname)
    create_topics(place.kafka.client_config({"logger": QUIET}), name)
    return name


@pytest.fixture
def member(place: Place) -> Iterator[Callable[..., Consumer]]:
    """Join the group that is named like the topic; all consumers leave at the end of the test."""
    members: list[Consumer] = []

    def join(topic: str, config: dict[str, Any]) -> Consumer:
        consumer = Consumer(config, logger=QUIET)
        members.append(consumer)
        consumer.subscribe([topic])
        return consumer

    yield join
    for consumer in members:
        leave_group(consumer)


def of_group(place: Place, topic: str) -> dict[str, Any]:
    return {
        **place.kafka.client_config(),
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }


def produce(config: dict[str, Any], topic: str) -> None:
    producer = Producer(config, logger=QUIET)
    failed: list[KafkaError] = []
    for number in range(MESSAGES):
        producer.produce(topic, f"{number}" * 20, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(BOUND) == 0
    assert failed == []


def consume(consumer: Consumer, seconds: float = BOUND) -> tuple[int, set[str]]:
    """Count messages until all have arrived, an error comes or the time is over; return the errors too."""
    count, errors = 0, set()
    end = time.monotonic() + seconds
    while count < MESSAGES and not errors and time.monotonic() < end:
        message = consumer.poll(1.0)
        if message is not None and (error := message.error()):
            errors.add(error.name())
        elif message is not None:
            count += 1
    return count, errors


def group_type(place: Place, group: str) -> ConsumerGroupType:
    admin = AdminClient(place.kafka.client_config(), logger=QUIET)
    described = admin.describe_consumer_groups([group], request_timeout=BOUND)
    return described[group].result(BOUND).type


def test_a_producer_with_advice_compresses_and_is_idempotent(place: Place, features: fg.Discoverer, topic: str) -> None:
    """The broker's own file shows it, on each of these clusters."""
    config = place.kafka.client_config()
    advised = with_advice(config, role="producer", features=features)
    assert advised == {**config, "compression.type": "zstd", "enable.idempotence": "true"}
    produce(advised, topic)
    codec, producer_id = first_batch(place.data, topic)
    assert (codec, producer_id >= 0) == (ZSTD, True)


def test_a_consumer_with_advice_reads_and_its_group_is_of_the_kind_that_was_advised(
    place: Place, features: fg.Discoverer, topic: str, member: Callable[..., Consumer]
) -> None:
    """The cluster of 4.2 has finalized group.version, so the broker assigns. On older ones the group stays classic."""
    produce(place.kafka.client_config(), topic)
    config = with_advice(of_group(place, topic), role="consumer", features=features)
    by_broker = place.version == BY_BROKER
    assert config.get("group.protocol") == ("consumer" if by_broker else None)
    consumer = member(topic, config)
    assert consume(consumer) == (MESSAGES, set())
    assert (group_type(place, topic) is ConsumerGroupType.CONSUMER) == by_broker


def test_what_is_held_back_would_not_work(place: Place, topic: str, member: Callable[..., Consumer]) -> None:
    """Where advice says "not yet", a consumer with the new protocol waits silently."""
    view = fg.discover(place.kafka.client_config(), configs=configs_in(fg.presets.kip848))
    (found,) = (each for each in advise(view, "consumer", {}) if each.name == "group-protocol")
    produce(place.kafka.client_config(), topic)
    consumer = member(topic, {**of_group(place, topic), "group.protocol": "consumer"})
    if place.version == BY_BROKER:
        assert found.state is AdviceState.MAY
        assert consume(consumer) == (MESSAGES, set())
    else:
        assert found.state is AdviceState.NOT_YET
        assert consume(consumer, SOON) == (0, set())
        assert consumer.assignment() == []
