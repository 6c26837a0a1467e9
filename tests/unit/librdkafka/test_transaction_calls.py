"""The calls of a transactional producer, with a client that fails, stands still, or has a full queue."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from featuregate_librdkafka import transaction_calls
from featuregate_librdkafka.error_actions import ErrorAction
from featuregate_librdkafka.transaction_calls import CallFailed, TransactionalProducer

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
