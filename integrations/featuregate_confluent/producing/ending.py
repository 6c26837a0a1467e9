"""The calls that end a transaction: they run in another thread than the loop, and return the outcome."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from featuregate_confluent.error_actions import ErrorAction, action_for, explain
from featuregate_confluent.errors import CommitRefused
from featuregate_confluent.producing.offsets import (
    GRACE_SECONDS,
    SEND_SECONDS,
    STOOD_STILL,
    OffsetsUnanswered,
    send_offsets,
    words,
)
from featuregate_confluent.producing.outcome import (
    Committed,
    Lost,
    Outcome,
    RolledBack,
    lost_by,
    rolled_back_by,
    was_fenced,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        return _after(refused, producer, within)
    except KafkaException as failure:
        return lost_by(failure)
    return Committed(sent_in)


def roll_back_failed(
    producer: Producer, consumer: Consumer, offsets: Sequence[TopicPartition], outcome: RolledBack, within: Within
) -> Outcome:
    """Abort a transaction that has failed in the background, and return the reason.

    ``produce()`` gives ``_STATE`` then, whatever the reason is, and the call that sends the offsets gives the reason.
    """
    try:
        send_offsets(producer, consumer, list(offsets), timeout=SEND_SECONDS, within=within)
    except CommitRefused as refused:
        return _after(refused, producer, within)
    return roll_back(producer, outcome, within)


def roll_back(producer: Producer, outcome: RolledBack, within: Within) -> Outcome:
    """Abort, and return this outcome; or `Lost` if that fails, with both reasons.

    What is done about a refused record waits then, because it comes again with the next producer.
    """
    try:
        with suppress(RuntimeError):  # the producer was closed with its partition, and the transaction with it
            _end(producer.abort_transaction, within)
    except KafkaException as failure:
        lost = lost_by(failure, fatal=outcome.fatal and not outcome.refused)
        return replace(lost, why=f"{lost.why}; the abort was due to: {outcome.why}")
    return outcome


def _after(refused: CommitRefused, producer: Producer, within: Within) -> Outcome:
    """Return the outcome after the offsets, or the commit, were refused: abort where that is due."""
    if refused.action is ErrorAction.REJOIN:
        unanswered = isinstance(refused, OffsetsUnanswered)
        return Lost(why=refused.why, cause=refused, fenced=was_fenced(refused), unanswered=unanswered)
    if isinstance(refused.__cause__, KafkaException):
        outcome = rolled_back_by(refused.__cause__, refused.why, refused)
    else:
        outcome = RolledBack(why=refused.why, cause=refused, fatal=refused.action is ErrorAction.FATAL)
    return roll_back(producer, outcome, within)


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
        row = explain(error)
        if row.action is ErrorAction.ABORT or (row.record and not error.fatal()):
            raise CommitRefused(row.action, words(error)) from failure
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
