"""The floor of a client: what it has seen of a cluster, so that no relay answers with anything older. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

_AGE: Final = "notOlderThan"
_EPOCH: Final = "epoch"
_CLUSTER: Final = "clusterId"
_SEEN_AT: Final = "seenAt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What a view must not be below: the epoch and the answers that a client has seen of one cluster.

    Clocks of two machines differ, so the floor says how long ago the brokers answered, and not when. The time that the
    request takes makes the floor stricter, never looser.
    """

    cluster_id: str | None
    epoch: int
    age: float
    """Seconds since the brokers answered, at the least, when the client sent the request."""
    seen_at: float = 0.0
    """`View.seen_at` of the view that the client has: these answers are not older, however long the request took."""

    def above(self, view: View, age: float) -> str | None:
        """Say why a view whose answers are ``age`` seconds old is below the floor; None where it is not.

        The view of another cluster is not compared: neither epochs nor latches of two clusters are.
        """
        if view.cluster_id != self.cluster_id:
            return None
        if view.epoch < self.epoch:
            return f"its epoch is {view.epoch}, and the client has seen {self.epoch}"
        if age > self.age and view.seen_at != self.seen_at:
            return f"its answers are {age - self.age:.1f} s older than those that the client has seen"
        return None

    def to_query(self) -> dict[str, str]:
        """Return the parameters of a request."""
        named = {} if self.cluster_id is None else {_CLUSTER: self.cluster_id}
        return {_AGE: f"{max(self.age, 0.0):.6f}", _EPOCH: str(self.epoch), _SEEN_AT: repr(self.seen_at)} | named

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Self | None:
        """Read what :meth:`to_query` wrote; None where the request has no floor.

        Raises
        ------
        ValueError
            A parameter is no number; the error says which.
        """
        if _AGE not in query:
            return None
        try:
            floor = cls(
                cluster_id=query.get(_CLUSTER),
                epoch=int(query.get(_EPOCH, -1)),
                age=float(query[_AGE]),
                seen_at=float(query.get(_SEEN_AT, 0)),
            )
        except ValueError:
            raise ValueError(f"{_AGE}, {_EPOCH} and {_SEEN_AT} must be numbers") from None
        if not 0 <= floor.age < math.inf:
            raise ValueError(f"{_AGE} must be a number of seconds, not {query[_AGE]!r}")
        return floor
