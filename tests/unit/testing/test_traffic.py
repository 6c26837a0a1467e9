"""The wait of rehearsals and demos for the condition to go on."""

import pytest

pytest.importorskip("confluent_kafka", reason="an extra")

from confluent_kafka import KafkaError, KafkaException

from featuregate.kafka_errors import broker_error
from featuregate.testing.traffic import wait_for

LOADS = 14


def test_calls_may_fail_while_brokers_are_rolled() -> None:
    """Those of librdkafka and those of featuregate; another error ends the wait."""
    answers: list[object] = [KafkaException(KafkaError(LOADS)), broker_error(LOADS), 0, "whole", ValueError("broken")]

    def ask() -> object:
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    assert wait_for("the group is whole", ask, 60) == "whole"
    with pytest.raises(ValueError, match="broken"):
        wait_for("the group is whole", ask, 60)


def test_a_wait_without_end_says_what_did_not_happen_and_the_last_error() -> None:
    def ask() -> bool:
        raise broker_error(LOADS)

    with pytest.raises(TimeoutError, match=r"not happen that it is whole \(COORDINATOR_LOAD_IN_PROGRESS"):
        wait_for("it is whole", ask, 0.05)


def test_what_a_check_raises_ends_the_wait() -> None:
    """An app has ended, which nobody waits for."""

    def check() -> None:
        raise RuntimeError("it has ended")

    with pytest.raises(RuntimeError, match="it has ended"):
        wait_for("it is whole", bool, 60, check)
