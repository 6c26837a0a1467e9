"""The body of a view, encoded once for all requests."""

from __future__ import annotations

import gzip
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.sources.latched_json import with_latched
from featuregate.sources.relay_responses import REVISION_HEADER
from featuregate_relay.entity_tags import entity_tag, gzip_tag
from featuregate_relay.states import revision_of

if TYPE_CHECKING:
    from featuregate import View
    from featuregate.gating.latches import LatchKey

__all__ = ["EncodedBody", "ViewBody", "accepts_gzip"]

RawHeaders = list[tuple[bytes, bytes]]
_LEVEL: Final = 5
_CODINGS: Final = {"gzip", "x-gzip", "*"}


class EncodedBody(NamedTuple):
    """A body in one coding, with headers as ASGI has them: thousands of requests a second get the same ones."""

    content: bytes
    headers: RawHeaders
    """Also of a response without the body."""
    coding: RawHeaders
    """Of the body."""


class ViewBody:
    """A view and the latched gates as JSON, the entity tag, the revision of the content, and the same compressed."""

    def __init__(self, view: View, latched: tuple[LatchKey, ...] = (), *, before: ViewBody | None = None) -> None:
        self.view = view
        self.latched = latched
        self.plain = with_latched(view.to_json(), latched).encode()
        self.tag = entity_tag(self.plain)
        same = before is not None and before.view.same_content(view)
        self.revision: str = before.revision if before is not None and same else revision_of(view)

    def encoded(self, accept_encoding: str) -> EncodedBody:
        """Return the body in a coding that the client accepts."""
        return self._compressed if accepts_gzip(accept_encoding) else self._identity

    @cached_property
    def _identity(self) -> EncodedBody:
        return EncodedBody(self.plain, self._headers(self.tag), [])

    @cached_property
    def _compressed(self) -> EncodedBody:
        """The body for clients that accept gzip; not made before one asks."""
        content = gzip.compress(self.plain, compresslevel=_LEVEL, mtime=0)
        return EncodedBody(content, self._headers(gzip_tag(self.tag)), [(b"content-encoding", b"gzip")])

    def _headers(self, tag: str) -> RawHeaders:
        # Only this process knows the age of the view, so no cache may answer without asking it.
        headers = {"cache-control": "no-cache", "vary": "Accept-Encoding", "etag": tag, REVISION_HEADER: self.revision}
        return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


@lru_cache(maxsize=100)
def accepts_gzip(accept_encoding: str) -> bool:
    """Say whether ``Accept-Encoding`` allows gzip (RFC 9110, 12.5.3); a weight of 0 forbids it."""
    for each in accept_encoding.lower().split(","):
        coding, _, weight = each.partition(";")
        if coding.strip() in _CODINGS:
            return weight.replace(" ", "").removeprefix("q=").strip("0.") != "" or not weight
    return False
