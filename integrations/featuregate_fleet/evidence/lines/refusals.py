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
from featuregate_fleet.evidence.lines.one_line import TIME_AND_LEVEL, read_time
from featuregate_fleet.evidence.lines.request import INT16

if TYPE_CHECKING:
    from datetime import datetime

_LOGGER: Final = r" \(kafka\.network\.Processor\)$"
_FIRST: Final = re.compile(TIME_AND_LEVEL + r"Closing socket for (\S+) because of error" + _LOGGER, re.ASCII)
_SECOND: Final = re.compile(TIME_AND_LEVEL + r"Exception while processing request from (\S+)" + _LOGGER, re.ASCII)
_CLIENT_HOST: Final = re.compile(r"^\S+?:\d+-(\S+?):\d+(?:-\d+){0,2}$", re.ASCII)
"""``brokerhost:port-clienthost:port-index``; without an index on 0.11, and from 4.0 on with one number more."""

_EXCEPTION: Final = r"^org\.apache\.kafka\.common\.errors\.\w+: "
_REASONS: Final = (
    # Releases from 4.0 on, 3.9, 2.x, and those before 1.0.
    re.compile(_EXCEPTION + r"Received request for api with key (\d+) \(\w+\) and unsupported version (-?\d+)$"),
    re.compile(_EXCEPTION + r"Received request api key (\w+) with version (-?\d+) which is not enabled$"),
    re.compile(
        _EXCEPTION
        + r"Error getting request for apiKey: (\w+), apiVersion: (-?\d+), connectionId: \S+, listenerName: .+, "
        + r"principal: (.+)$"  # the subject of a certificate may have spaces
    ),
    re.compile(
        r"^(?:org\.apache\.kafka\.common\.errors|kafka\.network)\.InvalidRequestException: "
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


def is_header(line: str) -> bool:
    """Return whether this line announces the reason of a refusal."""
    return bool(_FIRST.match(line) or _SECOND.match(line))


def is_reason(line: str) -> bool:
    """Return whether this line is the reason of a refusal."""
    return _reason(line) is not None


def repeats_refusal(line: str, previous: str) -> bool:
    """Return whether this is the second line about a refusal that `read_refusal` has returned."""
    return bool(_SECOND.match(previous)) and is_reason(line)


def read_refusal(line: str, previous: str) -> Refusal | None:
    """Return the refusal of which ``previous`` and ``line`` are the first two lines, or None for any other lines."""
    header, reason = _FIRST.match(previous), _reason(line)
    if header is None or reason is None:
        return None
    time, (key, version, principal) = read_time(header[1]), reason
    if time is None or key not in INT16 or version not in INT16:
        return None
    host = _CLIENT_HOST.match(header[3])
    return Refusal(time, header[2], header[3], host[1] if host else None, principal, key, version)


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
