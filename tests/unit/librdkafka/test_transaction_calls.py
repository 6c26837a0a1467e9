"""The calls of a transactional producer, its end, and requests that it may have sent twice."""

import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from mock_kafka import MockKafka

from featuregate_librdkafka import transaction_calls
from featuregate_librdkafka.error_table import ErrorAction
from featuregate_librdkafka.transaction_calls import (
    SLOW_SECONDS,
    CallFailed,
    ConnectionWatch,
    TransactionalProducer,
    close_producer,
)

BOUND = 30.0


class Client:
    """Answers each call with the next of these errors, and then with success."""

    def __init__(self, *codes: int, **flags: bool) -> None:
        self.failures = [KafkaException(KafkaError(code, "as told", **flags)) for code in codes]
        self.calls = 0

    def init_transactions(self, *_: object) -> None:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)

    begin_transaction = poll = send_offsets_to_transaction = commit_transaction = abort_transaction = init_transactions

    def __len__(self) -> int:
        return 0


CALLS: list[Callable[[TransactionalProducer, float], None]] = [
    TransactionalProducer.initialize,
    TransactionalProducer.commit,
    TransactionalProducer.abort,
    lambda producer, seconds: producer.send_offsets([], lambda: b"", seconds),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("seconds", "codes", "raised"),
    [
        (BOUND, [KafkaError._TIMED_OUT, KafkaError.CONCURRENT_TRANSACTIONS], None),
        (0.0, [KafkaError._TIMED_OUT], (ErrorAction.RETRY, False, True)),
        (BOUND, [KafkaError.PRODUCER_FENCED], (ErrorAction.REJOIN, True, False)),
        (BOUND, [KafkaError.TOPIC_AUTHORIZATION_FAILED], (ErrorAction.FATAL, False, False)),
    ],
)
def test_a_call_is_repeated_while_the_error_and_its_deadline_allow(
    call: Callable[[Any, float], None], seconds: float, codes: list[int], raised: object
) -> None:
    """The last error is the one that is raised."""
    client = Client(*codes)
    if raised is None:
        call(TransactionalProducer(client), seconds)  # type: ignore[arg-type]
        assert client.calls == len(codes) + 1
        return
    with pytest.raises(CallFailed, match="as told") as failed:
        call(TransactionalProducer(client), seconds)  # type: ignore[arg-type]
    assert (failed.value.action, failed.value.is_fenced, failed.value.is_unanswered) == raised
    assert isinstance(failed.value.__cause__, KafkaException)


@pytest.mark.parametrize("call", CALLS)
def test_a_client_that_does_not_return_is_left_alone(
    call: Callable[[Any, float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka may wait for a broker that is gone, whatever timeout it is given."""
    monkeypatch.setattr(transaction_calls, "GRACE_SECONDS", 0.1)
    client, free = Client(), threading.Event()
    for name in ("init_transactions", "send_offsets_to_transaction", "commit_transaction", "abort_transaction"):
        setattr(client, name, lambda *_: free.wait(BOUND))
    with pytest.raises(CallFailed, match="waits for a broker that went away") as failed:
        call(TransactionalProducer(client), 0.1)  # type: ignore[arg-type]
    assert (failed.value.is_unanswered, failed.value.is_fenced) == (True, False)
    free.set()


def test_a_timeout_that_fails_the_transaction_may_be_answered_yet() -> None:
    """The flag asks for an abort, and the name says that brokers may still act on the request."""
    client = Client(KafkaError._TIMED_OUT, txn_requires_abort=True)
    with pytest.raises(CallFailed) as failed:
        TransactionalProducer(client).send_offsets([], lambda: b"", BOUND)  # type: ignore[arg-type]
    assert (failed.value.action, failed.value.is_unanswered) == (ErrorAction.ABORT, True)


def test_an_abort_waits_until_brokers_have_the_records_of_the_transaction() -> None:
    """Partitions are added with them, and an abort before that is refused for good: see test_early_aborts_live."""
    calls: list[str] = []

    class Recorded(Client):
        def __len__(self) -> int:
            return calls.count("poll") < 2

        def poll(self, _seconds: float) -> None:
            calls.append("poll")

        def abort_transaction(self, *_: object) -> None:
            calls.append("abort")

    TransactionalProducer(Recorded()).abort(BOUND)  # type: ignore[arg-type]
    assert calls == ["poll", "poll", "abort"]


FORMAT = "%s [%s] %s"
CLOSED = "TxnCoordinator: 127.0.0.1:9092: Disconnected: connection closed by peer (after 907ms in state UP)"


class Lines:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []

    def log(self, level: int, msg: str, /, *args: object) -> None:
        self.seen.append((level, msg % args))


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.mark.parametrize(
    ("facility", "text", "doubted"),
    [
        ("FAIL", CLOSED, True),
        ("FAIL", "127.0.0.1:9092/1: 1 request(s) timed out: disconnect (after 10012ms in state UP)", True),
        ("FAIL", "127.0.0.1:9092/1: Receive failed: reset by peer (after 7ms in state REAUTH)", True),
        ("FAIL", "a text that no release has used so far", True),
        ("REQTMOUT", "127.0.0.1:9092/1: Timed out EndTxnRequest in flight (after 10012ms, timeout #0)", True),
        ("FAIL", "127.0.0.1:9092/1: Connect to ipv4#127.0.0.1:9092 failed (after 0ms in state CONNECT)", False),
        ("FAIL", "127.0.0.1:9092/1: Disconnected (after 44ms in state APIVERSION_QUERY)", False),
        ("FAIL", "127.0.0.1:9092/1: SASL authentication error (after 44ms in state AUTH_REQ)", False),
        ("GETPID", "Failed to acquire transactional PID: retrying", False),
    ],
)
def test_a_lost_connection_that_had_requests_is_a_doubt(
    lines: Lines, facility: str, text: str, *, doubted: bool
) -> None:
    """A broker that is away, or a login that fails, is none: no request of a transaction was sent."""
    watch = ConnectionWatch(lines)
    watch.log(logging.INFO, FORMAT, facility, "rdkafka#producer-1", text)
    assert watch.doubt == (text if doubted else None)
    assert lines.seen == [(logging.INFO, f"{facility} [rdkafka#producer-1] {text}")]


def test_the_first_doubt_is_kept(lines: Lines) -> None:
    """It is the reason that the log gives for the new producer."""
    watch = ConnectionWatch(lines)
    watch.took(SLOW_SECONDS / 2)
    assert watch.doubt is None
    watch.took(SLOW_SECONDS)
    watch.log(logging.INFO, FORMAT, "FAIL", "rdkafka#producer-1", CLOSED)
    assert watch.doubt == "the end of a transaction took 5.0 s"


@pytest.mark.parametrize(
    ("config", "level", "logged"),
    [
        ({}, logging.INFO, True),
        ({}, logging.DEBUG, False),
        ({"log_level": 3}, logging.INFO, False),
        ({"log_level": "3"}, logging.ERROR, True),
        ({"log_level": 7}, logging.DEBUG, True),
        ({"log_level": 3.0}, logging.INFO, False),
        ({"log_level": " +3"}, logging.INFO, False),
        ({"log_level": "0x3"}, logging.INFO, False),
        ({"log_level": 3, "debug": "eos"}, logging.DEBUG, True),
        ({"log.connection.close": "False"}, logging.WARNING, False),
        ({"log.connection.close": False}, logging.ERROR, True),
    ],
)
def test_the_app_gets_the_log_that_it_asked_for(
    lines: Lines, config: dict[str, object], level: int, *, logged: bool
) -> None:
    """The client logs the end of connections all the same."""
    watch = ConnectionWatch(lines)
    made = watch.config(config)
    assert (made["logger"], made["log.connection.close"], made["log_level"] in {6, 7}) == (watch, True, True)
    watch.log(level, FORMAT, "FAIL", "rdkafka#producer-1", CLOSED)
    assert (bool(lines.seen), watch.doubt) == (logged, CLOSED)


def test_a_level_that_librdkafka_refuses_is_left_to_it(lines: Lines) -> None:
    """Its error names the property."""
    assert ConnectionWatch(lines).config({"log_level": "much"})["log_level"] == "much"


# ------------------------------------------------------------------ how a producer is closed, and aborts


PRODUCE = 0


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
