"""The entity tag of all flags, which carries the floor of a client from one replica to the next. Pure.

Replicas share no state, and OFREP has no place for a floor. But a client sends back the entity tag of the flags that it
has, to whichever replica it meets. So the tag says what the client has seen: which gates are latched, and from which
epoch on the flags are as they are. A client can only change the answers that it gets itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from featuregate_relay.seen import DIGITS, FLOOR_SECONDS, digest

if TYPE_CHECKING:
    from featuregate.flags import Flag

_TAG: Final = re.compile(r'"([0-9a-f]{32})\.([0-9a-f]{12})\.(-?\d{1,19})\.(\d{1,12})\.((?:[0-9a-f]{12})*)(?:-\w+)?"')


@dataclass(frozen=True, kw_only=True)
class FlagTag:
    """What the flags of a cluster are, and since when."""

    content: str
    """The same for the same flags at each replica."""
    cluster: str
    epoch: int
    """The last one, as far as the relay or the client knows, at which the flags were like this."""
    since: int
    """Since when the relay has known that, in seconds since the Unix epoch by its clock."""
    latched: frozenset[str] = field(default=frozenset())
    """The gates that are open, each by :func:`latch_of`."""

    @cached_property
    def text(self) -> str:
        """The tag as it is sent."""
        return f'"{self.content}.{self.cluster}.{self.epoch}.{self.since}.{"".join(sorted(self.latched))}"'

    @classmethod
    def read(cls, if_none_match: str | None) -> tuple[FlagTag, ...]:
        """Return the tags in ``If-None-Match``; other tags are skipped."""
        return tuple(
            cls(
                content=content,
                cluster=cluster,
                epoch=int(epoch),
                since=int(since),
                latched=frozenset(re.findall(f".{{{DIGITS}}}", latched)),
            )
            for content, cluster, epoch, since, latched in _TAG.findall(if_none_match or "")
        )

    def is_same(self, seen: FlagTag) -> bool:
        """Say whether a client with that tag has these flags."""
        return (self.cluster, self.content) == (seen.cluster, seen.content)

    def is_below(self, seen: FlagTag, asked_at: float) -> bool:
        """Say whether these flags, of brokers that were asked at a time, are older than those a client has seen."""
        return (
            self.cluster == seen.cluster
            and self.content != seen.content
            and self.epoch < seen.epoch
            and asked_at - max(self.since, seen.since) < FLOOR_SECONDS
        )

    def joined(self, seen: Iterable[FlagTag]) -> FlagTag:
        """Return the tag with the highest epoch at which the client has seen these very flags: it stays the floor."""
        same = [tag for tag in seen if (tag.cluster, tag.content) == (self.cluster, self.content)]
        last = max((self, *same), key=lambda tag: tag.epoch)
        return replace(self, epoch=last.epoch, since=max(self.since, last.since))


def content_of(flags: Mapping[str, Flag], *, stale: bool) -> str:
    """Return a hash of the values of flags, without their reasons, which each replica says in its own words."""
    return digest([stale, *([key, flag.value, flag.variant] for key, flag in flags.items())], 32)
