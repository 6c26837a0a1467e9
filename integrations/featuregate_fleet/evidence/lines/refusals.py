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
from featuregate_fleet.evidence.lines.layouts import time_in
from featuregate_fleet.evidence.lines.request import INT16, host_of, lasting
from featuregate_fleet.evidence.lines.unwrapped import Unwrapped, last_level

if TYPE_CHECKING:
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


def is_header(line: str) -> bool:
    """Return whether this line announces the reason of a refusal."""
    return bool(_FIRST.search(line) or _SECOND.search(line))


def is_reason(line: str) -> bool:
    """Return whether this line is the reason of a refusal."""
    return _reason(line) is not None


def repeats_refusal(line: str, previous: str) -> bool:
    """Return whether this is the second line about a refusal that `refusal_of` has returned."""
    return bool(_SECOND.search(previous)) and is_reason(line)


def refusal_of(line: str, previous: Unwrapped) -> Refusal | None:
    """Return the refusal of which ``previous`` and ``line`` are the first two lines, or None for any other lines.

    Both are without their envelopes.
    """
    header, reason = _FIRST.search(previous.text), _reason(line)
    if header is None or reason is None:
        return None
    before, (key, version, principal) = previous.text[: header.start()], reason
    found = time_in(before, previous.layout) or previous.time
    if found is None or found.time is None or key not in INT16 or version not in INT16:
        return None
    return Refusal(
        time=found.time,
        level=last_level(before) or previous.level or _ERROR,
        connection=header[1],
        client_host=host_of(header[1]),
        principal=principal and lasting(principal),
        api_key=key,
        version=version,
        in_utc=found.in_utc,
    )


def lines_of_text(line: Unwrapped) -> list[Unwrapped]:
    """Return the lines of a text that a shipper has put together: an error with its reason and its stack."""
    return [line._replace(text=text.strip()) for text in _BREAK.split(line.text)] if is_header(line.text) else [line]


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
