"""The member that transactions belong to, as they see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from featuregate.calls import Callers
    from featuregate_confluent.errors import SwitchError
    from featuregate_confluent.producing.outcome import TransactionOutcome
    from featuregate_confluent.producing.rounds import Rounds

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Assignment:
    """What a member was given between two changes of its partitions. A transaction keeps the one it runs in (R9)."""

    current: bool = True
    """Whether nothing has changed since. If not, other members own the messages, or the messages come again."""


class TransactionOwner(Protocol[T]):
    """What the transactions of a member share."""

    rounds: Rounds
    """Measures how long the app's code takes, and knows the limits."""
    callers: Callers
    """Threads for calls with a bound, which run while the app's code does."""

    @property
    def under_way(self) -> set[T]:
        """Transactions whose producer is in use by a call, or whose outcome is not concluded yet."""

    def conclude(self, transaction: T, outcome: TransactionOutcome) -> SwitchError | None:
        """Apply an outcome to the member, and return the error for the app; None after a commit."""
