"""The body of a view, encoded once for all requests."""

from __future__ import annotations

import gzip
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.sources.relay_responses import REVISION_HEADER, freshness_of, with_latched
from featuregate_relay.entity_tags import weak_tag
from featuregate_relay.states import revision_of, size_of

if TYPE_CHECKING:
    from featuregate import View
    from featuregate.gating.holds import Hold
    from featuregate.gating.latches import LatchKey

RawHeaders = list[tuple[bytes, bytes]]
_LEVEL: Final = 5
MOST_ELEMENTS: Final = 450_000
"""API ranges and features of a view as JSON, which has 16 MiB then. Kafka's largest clusters have a third of them."""
_CODINGS: Final = {"gzip", "x-gzip", "*"}


class EncodedBody(NamedTuple):
    """A body in one coding, with the header that names it as ASGI has headers."""

    content: bytes
    coding: RawHeaders


class ViewBody:
    """A view, latched gates and holds as JSON, the entity tag, the revision of the content, and the same compressed.

    The entity tag is that of the content: each replica has the same one, and a poll that finds nothing new leaves it.
    Headers say of which poll the view is.
    """

    def __init__(
        self,
        view: View,
        latched: tuple[LatchKey, ...] = (),
        holds: tuple[Hold, ...] = (),
        *,
        before: ViewBody | None = None,
    ) -> None:
        self.view = view
        self.latched = latched
        self.holds = holds
        same = before is not None and before.view.same_content(view)
        self.revision: str = before.revision if before is not None and same else revision_of(view)
        # Where no broker reports the epoch of the view any more, levels age: the client must see these answers.
        reported = max((broker.epoch for broker in view.answering), default=-1) >= view.epoch
        size = size_of(view)
        self.problem = (
            None
            if size <= MOST_ELEMENTS
            else f"the brokers have answered with {size} API ranges and features, and a relay sends {MOST_ELEMENTS}"
        )
        """Why the view is not sent."""
        self.tag = weak_tag([self.revision, reported, *sorted(latched), *sorted(holds)])

    def encoded(self, accept_encoding: str) -> EncodedBody:
        """Return the body in a coding that the client accepts."""
        return self._compressed if accepts_gzip(accept_encoding) else self._identity

    def made(self, accept_encoding: str) -> EncodedBody | None:
        """Return the same if it is made already; None: `encoded` makes it, which takes its time."""
        made: EncodedBody | None = self.__dict__.get("_compressed" if accepts_gzip(accept_encoding) else "_identity")
        return made

    @cached_property
    def headers(self) -> RawHeaders:
        """The headers of each response, also without a body: thousands of requests a second get the same headers."""
        headers = {
            # Only this process knows the age of the view, so no cache may answer without asking it.
            "cache-control": "no-cache",
            "vary": "Accept-Encoding",
            "etag": self.tag,
            REVISION_HEADER: self.revision,
            **freshness_of(self.view),
        }
        return [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    @cached_property
    def _identity(self) -> EncodedBody:
        """The body; not made before a client needs it, as few do while nothing changes."""
        return EncodedBody(with_latched(self.view.to_json(), self.latched, self.holds).encode(), [])

    @cached_property
    def _compressed(self) -> EncodedBody:
        content = gzip.compress(self._identity.content, compresslevel=_LEVEL, mtime=0)
        return EncodedBody(content, [(b"content-encoding", b"gzip")])


@lru_cache(maxsize=100)
def accepts_gzip(accept_encoding: str) -> bool:
    """Say whether ``Accept-Encoding`` allows gzip (RFC 9110, 12.5.3); a weight of 0 forbids it."""
    for each in accept_encoding.lower().split(","):
        coding, _, weight = each.partition(";")
        if coding.strip() in _CODINGS:
            return weight.replace(" ", "").removeprefix("q=").strip("0.") != "" or not weight
    return False
