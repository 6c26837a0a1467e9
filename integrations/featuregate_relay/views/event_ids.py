"""The id of an event, by which a client that comes back says what it has seen. Pure.

A browser sends its last id by itself, to whichever replica it meets, and cannot change the URL of its stream. So the id
carries its floor: what entity tags of flags carry, and when the brokers answered, because API ranges change without an
epoch. That is a time of day, by the clocks of replicas. A client can only change what it hears itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from featuregate_relay.seen import DIGITS, FLOOR_SECONDS, cluster_of

if TYPE_CHECKING:
    from featuregate import View

_ID: Final = re.compile(
    r"([0-9a-f]{32})\.([0-9a-f]{12})\.(-?\d{1,19})\.(\d{1,12}\.\d{3})\.((?:[0-9a-f]{12})*)", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventId:
    """What a client has seen of a cluster."""

    revision: str
    cluster: str
    """By :func:`featuregate_relay.seen.cluster_of`."""
    epoch: int
    """The last one at which the content was known to be this."""
    seen_at: float
    """`View.seen_at` of that view, to a millisecond."""
    latched: frozenset[str]
    """The gates that are latched, each by :func:`featuregate_relay.seen.latch_of`."""

    def __str__(self) -> str:
        return f"{self.revision}.{self.cluster}.{self.epoch}.{self.seen_at:.3f}.{''.join(sorted(self.latched))}"

    @classmethod
    def of(cls, view: View, revision: str, latched: frozenset[str] = frozenset()) -> Self:
        """Return the id of a view with this revision."""
        return cls(
            revision=revision,
            cluster=cluster_of(view.cluster_id),
            epoch=view.epoch,
            seen_at=view.seen_at,
            latched=latched,
        )

    @classmethod
    def read(cls, last_event_id: str | None) -> Self | None:
        """Return what ``Last-Event-ID`` says; None where it is not such an id."""
        found = _ID.fullmatch(last_event_id or "")
        if found is None:
            return None
        revision, cluster, epoch, seen_at, latched = found.groups()
        return cls(
            revision=revision,
            cluster=cluster,
            epoch=int(epoch),
            seen_at=float(seen_at),
            latched=frozenset(re.findall(f".{{{DIGITS}}}", latched)),
        )

    def is_below(self, seen: EventId, now: float) -> bool:
        """Say whether this is older than what a client has seen; ``now`` is the time by the clock of this relay.

        The same content is not, whenever brokers said it. A time to come was read from another clock.
        """
        if self.cluster != seen.cluster or self.revision == seen.revision:
            return False
        lower = self.epoch < seen.epoch and self.seen_at - seen.seen_at < FLOOR_SECONDS
        return lower or self.seen_at < seen.seen_at <= now

    def joined(self, seen: EventId | None) -> EventId:
        """Return the id for a client that has seen that: what is latched, and the last time of the same content."""
        if seen is None or seen.cluster != self.cluster:
            return self
        last = seen if seen.revision == self.revision else self
        return replace(
            self,
            epoch=max(self.epoch, last.epoch),
            seen_at=max(self.seen_at, last.seen_at),
            latched=self.latched | seen.latched,
        )
