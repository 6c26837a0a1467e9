"""How a transaction ends: a value that the transaction returns, and from which the member draws its conclusions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from featuregate_librdkafka.error_table import ErrorAction

if TYPE_CHECKING:
    from featuregate_librdkafka.transaction_calls import CallFailed


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


TransactionOutcome: TypeAlias = Committed | RolledBack | Lost


def rolled_back_by(failed: CallFailed, why: str | None = None) -> RolledBack:
    """Return the outcome after an error that only an abort follows."""
    row = failed.row
    fatal = row.action is ErrorAction.FATAL
    return RolledBack(
        why=why or failed.why, cause=failed.__cause__, fatal=fatal, refused=row.record, unexplained=row.unexplained
    )


def lost_by(failed: CallFailed, *, fatal: bool = False) -> Lost:
    """Return the outcome after an error that leaves the end of the transaction unknown."""
    fatal = fatal or failed.action is ErrorAction.FATAL
    return Lost(why=failed.why, cause=failed.__cause__, fenced=failed.is_fenced, fatal=fatal)
