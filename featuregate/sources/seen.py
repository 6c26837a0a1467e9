"""What a client has seen of a cluster, as one token, so that no relay answers with anything older. Pure.

Replicas share no state. A client sends the token back to whichever replica it meets: as the entity tag of flags, as the
id of the last event, or as the parameter ``seen`` with the age of what it has. A client can only change the answers
that it gets itself.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

BELIEF_SECONDS: Final = 600.0
"""Seconds for which brokers must have reported a lower epoch until a relay believes that the cluster was restored: a
replica is behind for an interval between polls, or while it meets one broker that is."""
_DIGITS: Final = 12
_NOTHING: Final = "0" * 32
_AGE: Final = "notOlderThan"
_SEEN: Final = "seen"
_TOKEN: Final = re.compile(
    r'(?:^|")([0-9a-f]{32})\.([0-9a-f]{12})\.(-?\d{1,19})\.(-?\d{1,12}\.\d{3})\.((?:[0-9a-f]{12})*)(?:-\w+)?(?:"|$)',
    re.ASCII,
)


def digest(said: object, digits: int = _DIGITS) -> str:
    """Return this number of hexadecimal digits of a hash of a JSON value."""
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:digits]


@lru_cache(maxsize=1000)
def cluster_of(cluster_id: str | None) -> str:
    """Return the digits that identify a cluster."""
    return digest(cluster_id)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a client has seen of one cluster."""

    content: str = _NOTHING
    """Identifies what it got: the revision of a view, or the flags. The same at each replica."""
    cluster: str
    """By :func:`cluster_of`."""
    epoch: int
    """The last one at which the content was known to be this."""
    seen_at: float = 0.0
    """`View.seen_at` of that view, to a millisecond."""
    latched: frozenset[str] = frozenset()
    """Digits of the gates that are latched."""

    @classmethod
    def of(cls, view: View, content: str = _NOTHING, latched: frozenset[str] = frozenset()) -> Self:
        """Return the token of what follows from a view."""
        at = round(view.seen_at, 3)
        return cls(content=content, cluster=cluster_of(view.cluster_id), epoch=view.epoch, seen_at=at, latched=latched)

    @classmethod
    def read(cls, text: str | None) -> tuple[Self, ...]:
        """Return the tokens in an id or in entity tags, also in those that a proxy has marked; others are skipped."""
        return tuple(
            cls(
                content=content,
                cluster=cluster,
                epoch=int(epoch),
                seen_at=float(seen_at),
                latched=frozenset(re.findall(f".{{{_DIGITS}}}", latched)),
            )
            for content, cluster, epoch, seen_at, latched in _TOKEN.findall(text or "")
        )

    @property
    def text(self) -> str:
        """The token as it is sent."""
        return f"{self.content}.{self.cluster}.{self.epoch}.{self.seen_at:.3f}.{''.join(sorted(self.latched))}"

    def is_same(self, other: Seen) -> bool:
        """Say whether this is the same content of the same cluster, whenever brokers said it."""
        return (self.cluster, self.content) == (other.cluster, other.content)

    def is_below(self, seen: Seen, now: float | None = None) -> bool:
        """Say whether this is older than what a client has seen; the same content is not.

        ``now``: the time by the clock of this relay, where the times of answers count, too: content may change without
        an epoch. A time to come was read from another clock.
        """
        if self.cluster != seen.cluster or self.content == seen.content:
            return False
        lower = self.epoch < seen.epoch and self.seen_at - seen.seen_at < BELIEF_SECONDS
        return lower or (now is not None and self.seen_at < seen.seen_at <= now)

    def joined(self, *seen: Seen) -> Self:
        """Return the token for a client that has seen those: what is latched, and the last time of the same content."""
        same = [each for each in seen if self.is_same(each)]
        return replace(
            self,
            epoch=max([self.epoch, *(each.epoch for each in same)]),
            seen_at=max([self.seen_at, *(each.seen_at for each in same)]),
            latched=self.latched.union(*(each.latched for each in seen if each.cluster == self.cluster)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What a view must not be below: the epoch and the answers that a client has seen of one cluster.

    Clocks of two machines differ, so a client with a clock says how long ago the brokers answered, and not when. The
    time that the request takes makes the floor stricter, never looser.
    """

    seen: Seen
    age: float
    """Seconds since the brokers answered, at the least, when the client sent the request."""

    @classmethod
    def of(cls, *, cluster_id: str | None, epoch: int, age: float, seen_at: float = 0.0) -> Self:
        """Return the floor of a client that has this view."""
        return cls(seen=Seen(cluster=cluster_of(cluster_id), epoch=epoch, seen_at=round(seen_at, 3)), age=age)

    def above(self, view: View, age: float) -> str | None:
        """Say why a view whose answers are ``age`` seconds old is below the floor; None where it is not.

        The view of another cluster is not compared: neither epochs nor latches of two clusters are. These very answers
        are not older, however long the request took.
        """
        if cluster_of(view.cluster_id) != self.seen.cluster:
            return None
        if view.epoch < self.seen.epoch:
            return f"its epoch is {view.epoch}, and the client has seen {self.seen.epoch}"
        if age > self.age and round(view.seen_at, 3) != self.seen.seen_at:
            return f"its answers are {age - self.age:.1f} s older than those that the client has seen"
        return None

    def to_query(self) -> dict[str, str]:
        """Return the parameters of a request."""
        return {_SEEN: self.seen.text, _AGE: f"{max(self.age, 0.0):.6f}"}

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Self | None:
        """Read what :meth:`to_query` wrote; None: there is no floor. Raises `ValueError`, which names the parameter."""
        if _SEEN not in query:
            return None
        tokens = Seen.read(query[_SEEN])
        try:
            age = float(query.get(_AGE, 0))
        except ValueError:
            age = -1
        if not tokens:
            raise ValueError(f"{_SEEN} must be what a relay has sent: the id of an event, or the entity tag of flags")
        if not 0 <= age < math.inf:
            raise ValueError(f"{_AGE} must be a number of seconds")
        return cls(seen=tokens[0], age=age if _AGE in query else math.inf)
