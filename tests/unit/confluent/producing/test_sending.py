"""A record that the client does not take at once."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from featuregate_confluent.producing import outcome as outcomes
from featuregate_confluent.producing.outcome import Lost, RolledBack, TransactionOutcome, send_when_room


class Queue:
    """A producer whose queue is full until it was polled so often."""

    def __init__(self, polls: int, failure: Exception | None = None) -> None:
        self.polls = polls
        self.failure = failure
        self.sent = 0

    def poll(self, _timeout: float) -> None:
        if self.failure is not None:
            raise self.failure
        self.polls -= 1

    def send(self) -> None:
        if self.polls > 0:
            raise BufferError("Local: Queue full")
        self.sent += 1

    def outcome(self) -> TransactionOutcome | None:
        return send_when_room(self, "bills", self.send)  # type: ignore[arg-type]


def test_a_record_is_sent_once_the_queue_has_room() -> None:
    """Each poll serves deliveries, which make room."""
    queue = Queue(3)
    assert (queue.outcome(), queue.sent) == (None, 1)


def test_a_queue_that_stays_full_ends_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer can go on: brokers may take the records of the next attempt."""
    monkeypatch.setattr(outcomes, "FULL_SECONDS", 0.0)
    outcome = Queue(1_000_000_000).outcome()
    assert isinstance(outcome, RolledBack)
    assert "queue was full" in outcome.why
    assert isinstance(outcome.cause, BufferError)


@pytest.mark.parametrize(
    ("code", "kind", "fatal"),
    [(KafkaError._FENCED, Lost, False), (KafkaError.TOPIC_AUTHORIZATION_FAILED, RolledBack, True)],
)
def test_an_error_that_the_client_raises_while_it_waits_ends_the_transaction(
    code: int, kind: type[Lost | RolledBack], *, fatal: bool
) -> None:
    """A fenced producer is lost. Where a right is missing, no other attempt would succeed."""
    outcome = Queue(1, KafkaException(KafkaError(code))).outcome()
    assert isinstance(outcome, kind)
    assert "topic 'bills'" in outcome.why
    assert outcome.fatal is fatal
