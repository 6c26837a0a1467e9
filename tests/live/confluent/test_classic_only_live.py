"""A real broker that serves the classic group protocol alone: its ApiVersions say otherwise, its config does not."""

import json
import logging
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaError
from topics import create_topics
from waiting import eventually

import featuregate as fg
from featuregate.cli import main
from featuregate.requirements import configs_in
from featuregate.testing import LocalKafka
from featuregate_confluent import AdviceState, advise

pytestmark = [pytest.mark.live, pytest.mark.proof("switch")]

NAME = "group.coordinator.rebalance.protocols"
SAYS = f"has {NAME}=classic"
QUIET = logging.getLogger("tests.classic")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    with LocalKafka("4.2.0", properties={NAME: "classic"}) as cluster:
        yield cluster


def test_a_consumer_of_the_new_protocol_dies(kafka: LocalKafka) -> None:
    """The gate keeps an app from this."""
    create_topics(kafka.client_config({"logger": QUIET}), "orders")
    config = kafka.client_config({"group.id": "new", "group.protocol": "consumer"})
    with closing(Consumer(config, logger=QUIET)) as consumer:
        consumer.subscribe(["orders"])

        def error() -> KafkaError | None:
            message = consumer.poll(0.2)
            return message.error() if message else None

        found = eventually(error, "the consumer works")
        assert found.name() in {"_UNSUPPORTED_FEATURE", "UNSUPPORTED_VERSION", "_FATAL"}


def test_the_gate_stays_closed_and_says_why(kafka: LocalKafka) -> None:
    """The broker advertises group.version and ConsumerGroupHeartbeat."""
    view = fg.discover(kafka.bootstrap)
    assert view.level("group.version") == 1
    assert view.api("ConsumerGroupHeartbeat") is not None
    with fg.Discoverer(kafka.client_config()) as features:
        gate = features.gate("new-protocol", "kip848")
        eventually(lambda: SAYS in str(gate.decision), "the gate says why")
        assert not gate.open


def test_doctor_and_advice_say_so(kafka: LocalKafka, capsys: pytest.CaptureFixture[str]) -> None:
    """The finding says what to add, and the advice waits."""
    main(["doctor", "--output", "json", "--bootstrap-server", kafka.bootstrap])
    findings = json.loads(capsys.readouterr().out)["findings"]
    closing_configs = [each["advice"] for each in findings if each["code"] == "config-closes"]
    assert any(each.startswith(f"add consumer to {NAME} on each broker") for each in closing_configs)
    view = fg.discover(kafka.bootstrap, configs=configs_in(fg.presets.kip848))
    (advice,) = [each for each in advise(view, "consumer", {"group.id": "g"}) if each.name == "group-protocol"]
    assert advice.state is AdviceState.NOT_YET
    assert SAYS in str(advice.decision)
