"""Entity tags, by which a client asks whether it has the newest body (RFC 9110, 8.8.3 and 13.1.2)."""

from __future__ import annotations

import hashlib

__all__ = ["entity_tag", "gzip_tag", "matches"]

_GZIP = '-gzip"'


def entity_tag(content: bytes) -> str:
    """Return the strong entity tag of these bytes."""
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def gzip_tag(tag: str) -> str:
    """Return the tag of the same content with gzip: other bytes need another strong tag."""
    return tag[:-1] + _GZIP


def matches(if_none_match: str | None, tag: str) -> bool:
    """Say whether ``If-None-Match`` holds this entity tag; weak tags match, too, and so does the tag of gzip."""
    if if_none_match is None:
        return False
    if if_none_match == tag:  # most clients are in sync, and have one tag
        return True
    tags = {each.strip().removeprefix("W/").replace(_GZIP, '"') for each in if_none_match.split(",")}
    return tag in tags or "*" in tags
