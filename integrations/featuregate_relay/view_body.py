"""The body of a view, encoded once for all requests."""

from __future__ import annotations

import gzip
from functools import cached_property
from typing import TYPE_CHECKING, Final

from featuregate.sources.latched_json import with_latched
from featuregate_relay.entity_tags import entity_tag, gzip_tag
from featuregate_relay.states import revision_of

if TYPE_CHECKING:
    from featuregate import View
    from featuregate.gating.latches import LatchKey

__all__ = ["ViewBody", "accepts_gzip"]

_LEVEL: Final = 5
_CODINGS: Final = {"gzip", "x-gzip", "*"}


class ViewBody:
    """A view and the latched gates as JSON, the entity tag, the revision of the content, and the same compressed."""

    def __init__(self, view: View, latched: tuple[LatchKey, ...] = (), *, before: ViewBody | None = None) -> None:
        self.view = view
        self.latched = latched
        self.plain = with_latched(view.to_json(), latched).encode()
        self.tag = entity_tag(self.plain)
        same = before is not None and before.view.same_content(view)
        self.revision: str = before.revision if before is not None and same else revision_of(view)

    @cached_property
    def compressed(self) -> bytes:
        """The body for clients that accept gzip; not made before one asks."""
        return gzip.compress(self.plain, compresslevel=_LEVEL, mtime=0)

    def encoded(self, accept_encoding: str) -> tuple[bytes, dict[str, str]]:
        """Return the body in a coding that the client accepts, and the headers that say which."""
        if accepts_gzip(accept_encoding):
            return self.compressed, {"Content-Encoding": "gzip", "ETag": gzip_tag(self.tag)}
        return self.plain, {"ETag": self.tag}


def accepts_gzip(accept_encoding: str) -> bool:
    """Say whether ``Accept-Encoding`` allows gzip (RFC 9110, 12.5.3); a weight of 0 forbids it."""
    for each in accept_encoding.lower().split(","):
        coding, _, weight = each.partition(";")
        if coding.strip() in _CODINGS:
            return weight.replace(" ", "").removeprefix("q=").strip("0.") != "" or not weight
    return False
