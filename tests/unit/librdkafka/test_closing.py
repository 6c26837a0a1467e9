"""How a producer is closed, and its transaction aborted."""

import logging
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from mock_kafka import MockKafka

from featuregate_librdkafka.transaction_calls import CallFailed, TransactionalProducer, close_producer

PRODUCE = 0
BOUND = 30.0


@pytest.fixture(scope="module")
def kafka() -> Iterator[MockKafka]:
    with MockKafka() as kafka:
        kafka.create_topic("output")
        yield kafka


def fenced_while_it_writes(kafka: MockKafka, number: int, reports: list[str]) -> Producer:
    """Give a producer with a record on its way, which the broker will refuse because another producer took the id."""
    config = {
        "bootstrap.servers": kafka.bootstrap,
        "transactional.id": f"fenced-{number}",
        "log_level": 0,
        "logger": logging.getLogger("fenced"),
        "linger.ms": 0,
        "on_delivery": lambda error, message: reports.append(f"{message.topic()}: {error.name()}"),
    }
    producer = Producer(config)
    producer.init_transactions(BOUND)
    producer.begin_transaction()
    kafka.answer(PRODUCE, [KafkaError.INVALID_PRODUCER_EPOCH], after_ms=300)
    producer.produce("output", b"record", partition=0)
    kafka.wait_for(PRODUCE)
    return producer


def test_a_producer_that_is_fenced_while_it_is_closed_serves_its_delivery_reports(kafka: MockKafka) -> None:
    """``close()`` alone runs them with the fatal error set, so that each raises SystemError."""
    reports: list[str] = []
    producer = fenced_while_it_writes(kafka, 0, reports)
    close_producer(producer, BOUND)
    assert reports == ["output: INVALID_PRODUCER_EPOCH"]


def test_an_abort_of_a_producer_that_is_fenced_says_so_and_serves_its_delivery_reports(kafka: MockKafka) -> None:
    """``flush()`` would run them with the fatal error set, and raise SystemError in place of what happened."""
    reports: list[str] = []
    producer = fenced_while_it_writes(kafka, 5, reports)
    with pytest.raises(CallFailed) as failed:
        TransactionalProducer(producer).abort(BOUND)
    assert failed.value.is_fenced
    assert reports == ["output: INVALID_PRODUCER_EPOCH"]


def test_producers_of_several_threads_are_closed_without_a_warning(kafka: MockKafka) -> None:
    """The filters of the process are not restored in a wrong order: there is nothing to restore."""
    together = Barrier(4)

    producers = [fenced_while_it_writes(kafka, number, []) for number in range(1, 5)]

    def close(producer: Producer) -> None:
        together.wait(BOUND)
        close_producer(producer, BOUND)

    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(close, producers))
    assert [each for each in warnings.filters if each not in before] == warnings.filters[:1]
    with pytest.raises(RuntimeWarning, match="of the app"):
        warnings.warn("of the app", RuntimeWarning, stacklevel=1)


def test_a_producer_without_transactions_is_closed(kafka: MockKafka) -> None:
    """There is nothing to abort, and its records are delivered first."""
    reports: list[Any] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    producer.produce("output", b"record", partition=0, on_delivery=lambda error, _: reports.append(error))
    close_producer(producer, BOUND)
    assert reports == [None]


class Stuck:
    """A producer whose calls do not return before ``free`` is set."""

    def __init__(self) -> None:
        self.free = Event()

    def abort_transaction(self, _seconds: float) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE))

    def __len__(self) -> int:
        return 0

    def close(self) -> None:
        self.free.wait(BOUND)


def test_a_producer_whose_close_does_not_return_is_left_behind() -> None:
    """The caller goes on."""
    stuck = Stuck()
    with pytest.raises(TimeoutError):
        close_producer(stuck, 0.1)  # type: ignore[arg-type]
    stuck.free.set()


def test_a_producer_of_confluent_kafka_2_12_has_no_close() -> None:
    """It is closed with its last reference, after its callbacks have run."""
    waiting = [1, 2, 3]

    class Old:
        def abort_transaction(self, _timeout: float) -> None:
            raise KafkaException(KafkaError(KafkaError._STATE))

        def poll(self, _timeout: float) -> int:
            return waiting.pop()

        def __len__(self) -> int:
            return len(waiting)

    close_producer(Old(), BOUND)  # type: ignore[arg-type]  # as much as closing asks of it
    assert waiting == []
