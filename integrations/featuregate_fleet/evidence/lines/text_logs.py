"""Recognizes requests as text, as brokers before 2.8 log them. Pure.

They do not count as evidence. The texts of clients stand in them as they are, so that a line break in one begins a line
of the log: what follows it is up to the client, also the request of another one.
"""

from __future__ import annotations

import re
from typing import Final

_HEADERS: Final = ("RequestHeader(", "{api_key=", "Name: ")
"""From 1.0 on, before 1.0, and what is left of the Scala classes before 1.0."""
_LEAST: Final = 2
"""Characters of one of these that was cut. JSON begins with a brace, too."""
_CONNECTION: Final = " from connection "
_TAIL: Final = re.compile(
    r" from connection \S+;totalTime:[\d.E-]+,(?:[a-zA-Z]+Time:[\d.E-]+,)*securityProtocol:[A-Z_]+,principal:",
    re.ASCII,
)


def begins_as_text(request: str) -> bool:
    """Return whether what stands behind the marker of a request is one as text, or the beginning of one."""
    begins = len(request) >= _LEAST and any(header.startswith(request) for header in _HEADERS)
    return begins or request.startswith(_HEADERS)


def ends_as_text(line: str) -> bool:
    """Return whether a line ends as a request as text does: its head may stand in a line before."""
    at = line.rfind(_CONNECTION)
    return at >= 0 and _TAIL.match(line, at) is not None
