"""The calls that end a transaction: they run in a thread beside the loop, and return the outcome."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from featuregate_confluent.error_actions import ErrorAction, action_for
from featuregate_confluent.errors import CommitRefused
from featuregate_confluent.producing.offsets import GRACE_SECONDS, STOOD_STILL, OffsetsUnanswered, send_offsets, words
from featuregate_confluent.producing.outcome import Committed, Lost, RolledBack, lost_by, was_fenced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import Consumer, Producer, TopicPartition

    from featuregate_confluent.producing.outcome import Outcome
    from featuregate_librdkafka.calls import Call, Within

END_SECONDS: Final = 60.0


def send_and_commit(
    producer: Producer,
    consumer: Consumer,
    offsets: Sequence[TopicPartition],
    *,
    timeout: float,
    generation: int | None,
    within: Within,
) -> Outcome:
    """Send the offsets and commit; abort if that is refused.

    The abort does not wait for the loop, because brokers wait no longer than the transaction's timeout.
    """
    try:
        sent_in = send_offsets(producer, consumer, list(offsets), timeout=timeout, generation=generation, within=within)
        _commit(producer, within)
    except CommitRefused as refused:
        if refused.action is ErrorAction.REJOIN:
            unanswered = isinstance(refused, OffsetsUnanswered)
            return Lost(why=refused.why, cause=refused, fenced=was_fenced(refused), unanswered=unanswered)
        fatal = refused.action is ErrorAction.FATAL
        return roll_back(producer, RolledBack(why=refused.why, cause=refused, fatal=fatal), within)
    except KafkaException as failure:
        return lost_by(failure)
    return Committed(sent_in)


def roll_back(producer: Producer, outcome: RolledBack, within: Within) -> Outcome:
    """Abort, and return this outcome, or `Lost` if that fails."""
    try:
        with suppress(RuntimeError):  # the producer was closed with its partition, and the transaction with it
            _end(producer.abort_transaction, within)
    except KafkaException as failure:
        return lost_by(failure, fatal=outcome.fatal)
    return outcome


def outcome_of(call: Call[Outcome]) -> Outcome:
    """Wait for the outcome; the producer is lost where the call that uses it does not return."""
    try:
        return call.result()
    except TimeoutError as timeout:
        if not call.given_up:
            raise
        return Lost(why=f"{timeout}: {STOOD_STILL}", cause=timeout)


def _commit(producer: Producer, within: Within) -> None:
    """Commit. Raises CommitRefused where it has to be aborted, and KafkaException where its end is unknown."""
    try:
        _end(producer.commit_transaction, within)
    except KafkaException as failure:
        error = failure.args[0]
        if action_for(error) is ErrorAction.ABORT:
            raise CommitRefused(ErrorAction.ABORT, words(error)) from failure
        raise


def _end(end: Callable[[float], None], within: Within) -> None:
    """Commit or abort; retry while the error allows it."""
    deadline = time.monotonic() + END_SECONDS
    while True:
        left = max(deadline - time.monotonic(), 0.1)
        try:
            within(left + GRACE_SECONDS, partial(end, left))
        except KafkaException as failure:
            if action_for(failure.args[0]) is not ErrorAction.RETRY or time.monotonic() >= deadline:
                raise
        else:
            return
