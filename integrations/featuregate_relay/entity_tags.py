"""Entity tags, by which a client asks whether it has the newest body (RFC 9110, 8.8.3 and 13.1.2)."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope

_GZIP = '-gzip"'


def entity_tag(content: bytes) -> str:
    """Return the strong entity tag of these bytes."""
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def weak_tag(content: object) -> str:
    """Return the entity tag of bodies that say this, a JSON value, and differ in times alone, or in their coding."""
    return f"W/{entity_tag(json.dumps(content).encode())}"


def if_none_match_in(scope: Scope) -> str | None:
    """Return ``If-None-Match`` of a request, without the objects that a framework makes of headers."""
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"if-none-match"), None)


def matches(if_none_match: str | None, tag: str) -> bool:
    """Say whether ``If-None-Match`` holds this entity tag, by the weak comparison; a proxy may have marked it."""
    if if_none_match is None:
        return False
    if if_none_match == tag:  # most clients are in sync, and have one tag
        return True
    tags = {each.strip().removeprefix("W/").replace(_GZIP, '"') for each in if_none_match.split(",")}
    return tag.removeprefix("W/") in tags or "*" in tags
