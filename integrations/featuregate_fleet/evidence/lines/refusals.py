"""Refused requests: error lines of the broker's SocketServer, because the request log does not have them. Pure.

A broker that does not know the version of a request closes the connection and logs two errors, each with the reason on
the next line: first ``Closing socket for <connection> because of error``, then ``Exception while processing request
from <connection>``. The first one counts. No release names the client id, and the releases from 3.9 on not even the
principal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import api_key
from featuregate.errors import UnknownApi
from featuregate_fleet.evidence.lines.request import INT16, Unwrapped, host_of, last_level, lasting
from featuregate_fleet.evidence.lines.times import time_in
from featuregate_fleet.evidence.reasons import CUT, NO_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


_ERROR: Final = "ERROR"
_FIRST: Final = re.compile(r"(?<!\S)Closing socket for (\S+) because of error(?!\S)", re.ASCII)
_SECOND: Final = re.compile(r"(?<!\S)Exception while processing request from (\S+)(?!\S)", re.ASCII)
_BREAK: Final = re.compile(r"\n|#012|\\n")
"""What separates the lines of one text: a line feed, or how syslog and shippers write one."""

_EXCEPTION: Final = r"(?:^|.*?[\s\]|])org\.apache\.kafka\.common\.errors\.\w+: "
"""Before it stands what Compose, syslog or kubectl write before each line."""
_REASONS: Final = (
    # Releases from 4.0 on, 3.9, 2.x, and those before 1.0.
    re.compile(_EXCEPTION + r"Received request for api with key (\d+) \(\w+\) and unsupported version (-?\d+)$"),
    re.compile(_EXCEPTION + r"Received request api key (\w+) with version (-?\d+) which is not enabled$"),
    re.compile(
        # What has matched stays so, and the end is looked for once: not again behind each principal.
        rf"(?>{_EXCEPTION}"
        r"Error getting request for apiKey: (\w+), apiVersion: (-?\d+), connectionId: \S+, listenerName: )"
        r"(?=.+$).+, principal: (.+)$"  # the subject of a certificate may have spaces
    ),
    re.compile(
        r"(?:^|.*?[\s\]|])(?:org\.apache\.kafka\.common\.errors|kafka\.network)\.InvalidRequestException: "
        r"Error getting request for apiKey: (\d+) and apiVersion: (-?\d+)$"
    ),
)


class Refusal(NamedTuple):
    """One refused request."""

    time: datetime
    level: str
    connection: str
    client_host: str | None
    principal: str | None
    api_key: int
    version: int
    in_utc: bool = False
    """Whether the line says the zone of its time, which is in UTC then."""


def refusal_in(line: Unwrapped, previous: Callable[[], Unwrapped]) -> Refusal | str | None:
    """Return the refused request of a line, or None for a line that goes with one, or why it is for the quarantine.

    ``previous`` returns the line before. Both are without their envelopes. A shipper may have put an error with its
    reason and its stack into one text.
    """
    before: Unwrapped | None = None
    understood: str | None = NO_REQUEST
    several = _FIRST.search(line.text) or _SECOND.search(line.text)
    for one in [line._replace(text=text.strip()) for text in _BREAK.split(line.text)] if several else [line]:
        if _FIRST.search(one.text) or _SECOND.search(one.text):
            before, understood = one, None
        elif (reason := _reason(one.text)) is not None:
            before = before or previous()
            if (refusal := _refusal(before, *reason)) is not None:
                return refusal
            # Where a file or a batch begins with a reason, the line before it with the time is not here.
            understood = None if _SECOND.search(before.text) else CUT
    return understood


def _refusal(announced: Unwrapped, key: int, version: int, principal: str | None) -> Refusal | None:
    header = _FIRST.search(announced.text)
    before = announced.text[: header.start()] if header else ""
    found = time_in(before, announced.layout) or announced.time
    if not header or not found or found.time is None or key not in INT16 or version not in INT16:
        return None
    return Refusal(
        time=found.time,
        level=last_level(before) or announced.level or _ERROR,
        connection=header[1],
        client_host=host_of(header[1]),
        principal=principal and lasting(principal),
        api_key=key,
        version=version,
        in_utc=found.in_utc,
    )


def _reason(line: str) -> tuple[int, int, str | None] | None:
    for pattern in _REASONS:
        if found := pattern.match(line):
            name, version, *principal = found.groups()
            try:
                key = int(name) if name.isdecimal() else api_key(name)
                return key, int(version), principal[0] if principal else None
            except (UnknownApi, ValueError):  # a name of a newer release, or thousands of digits
                return None
    return None
