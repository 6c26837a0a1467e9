"""How a transaction ends: a value that the transaction returns, and from which the member draws its conclusions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from confluent_kafka import KafkaException

from featuregate_confluent.error_actions import ErrorAction, action_for, explain
from featuregate_confluent.producing.offsets import words
from featuregate_librdkafka.error_codes import is_fenced


@dataclass(frozen=True, slots=True)
class Committed:
    """All of the transaction counts."""

    generation: int
    """The generation in which its offsets were sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """The transaction was aborted, and its producer can go on."""

    why: str
    cause: BaseException | None = None
    fatal: bool = False
    """Whether another attempt would fail as well."""
    refused: bool = False
    """Whether a record that the app gave is the reason."""
    unexplained: bool = False
    """Whether nothing is known of the error that is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The producer cannot go on, and only the next producer with this id knows how the transaction ended."""

    why: str
    cause: BaseException | None = None
    fenced: bool = False
    """Whether another producer has the id, or the transaction has timed out."""
    unanswered: bool = False
    """Whether brokers may still take its offsets, so that only the next producer may abort the transaction."""
    fatal: bool = False


Outcome: TypeAlias = Committed | RolledBack | Lost


def rolled_back_by(failure: KafkaException, why: str, cause: BaseException | None = None) -> RolledBack:
    """Return the outcome after an error that only an abort follows."""
    row = explain(failure.args[0])
    fatal = row.action is ErrorAction.FATAL
    return RolledBack(why=why, cause=cause or failure, fatal=fatal, refused=row.record, unexplained=row.unexplained)


def lost_by(failure: KafkaException, *, fatal: bool = False) -> Lost:
    """Return the outcome after an error that leaves the end of the transaction unknown."""
    error = failure.args[0]
    fatal = fatal or action_for(error) is ErrorAction.FATAL
    return Lost(why=words(error), cause=failure, fenced=is_fenced(failure), fatal=fatal)


def was_fenced(cause: BaseException | None) -> bool:
    """Say whether the Kafka error behind an exception means that the producer was fenced."""
    while cause is not None and not isinstance(cause, KafkaException):
        cause = cause.__cause__
    return cause is not None and is_fenced(cause)
