"""Where a file is says which broker wrote it. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

__all__ = ["broker_of", "path_below"]

_NODE_ID: Final = re.compile(r"(0|[1-9]\d{0,9})/.", re.ASCII)


def path_below(root: str, uri: str) -> str:
    """Return the path of a file below the root; its whole path if it is elsewhere."""
    return unquote(urlsplit(uri).path).removeprefix(root.rstrip("/") + "/")


def broker_of(path: str) -> str | None:
    """Return the broker in whose folder a file is: the first part of its path below the root, if it is a node id."""
    found = _NODE_ID.match(path)
    return found[1] if found else None
