"""Log events without what is around them, and what the request in one says about the client. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from featuregate_fleet.evidence.lines.times import Layout, LineTime

MARKER: Final = "Completed request:"
"""What stands before the request (kafka.network.RequestChannel)."""
AS_FIELDS: Final = "requestApiKey"
"""What a request without the marker has: a shipper has made fields of it, or its beginning was cut."""
OF_SEARCH: Final = "the answer of a search has"
"""Begins what is said in place of the events that are not in a document."""
EVERY_REQUEST: Final = "DEBUG"
"""The level of a line that does not say it. At INFO brokers log deprecated requests alone, which say that."""
DEPRECATED_ALONE: Final = "INFO"
INT16: Final = range(-(2**15), 2**15)
"""Keys and versions of APIs that a client may send."""
ANSWERED: Final = range(2**15)
"""Those of completed requests: brokers refuse all others."""
API_VERSIONS: Final = 18
"""The API with which a connection begins: its line has the connection, which a refusal names, too."""
LONGEST: Final = 16 * 2**20
"""How many bytes a line may have. A line of the request log has the bodies of request and response."""
_UNKNOWN: Final = "unknown"
"""The name and the version of a client that did not say them (ClientInformation.EMPTY)."""


OF_CONNECTION: Final = r"^((?:User:)?\[IAM\]:\[[^\]]+\])(?::\[[^\]]*\])+$"
"""A principal of IAM on Amazon MSK, with the connection and a UUID behind it, which are others on each connection."""
_OF_CONNECTION: Final = re.compile(OF_CONNECTION)
_CLIENT_HOST: Final = re.compile(r"^(?>[A-Z]+_IP-|[!-~]+?:[0-9]+-)([!-~]+?):[0-9]+(?:-[0-9]+){0,2}$")
"""``brokerhost:port-clienthost:port-index``; without an index on 0.11, and from 4.0 on with one number more. Amazon MSK
writes ``INTERNAL_IP`` in place of the address of the broker."""


COMPLETED: Final = "completed"
REFUSED: Final = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequest:
    """What lines say about the client of one request, and nothing of the bodies. Of a refused one they say little."""

    time: datetime
    """As the broker has logged it: as if its time zone were UTC, where the line does not say it."""
    level: str
    api_key: int
    version: int
    principal: str | None
    outcome: str = COMPLETED
    forwarded: bool | None = None
    client_id: str | None = None
    listener: str | None = None
    software_name: str | None = None
    software_version: str | None = None
    client_host: str | None = None
    """The address from which the connection came; None where the line has none, or has that of a forwarding broker."""
    in_utc: bool = False
    """Whether the line says the zone of its time, which is in UTC then."""
    connection: str | None = None
    """The connection, as the broker names it: of refused requests, and of those for `API_VERSIONS`. None for others."""


def lasting(principal: str) -> str:
    """Return the name of a principal without what changes with each connection."""
    return _OF_CONNECTION.sub(r"\1", principal)


def host_of(connection: str) -> str | None:
    """Return the address of the client of a connection, as a line names the connection."""
    found = _CLIENT_HOST.match(connection)
    return found[1] if found else None


def known(software: str | None) -> str | None:
    """Return the name or the version of a client's software; None for a client that did not say it."""
    return None if software == _UNKNOWN else software


# ---------------------------------------------------------------- events

_LEVEL: Final = re.compile(r"(?<![\w.-])(TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)(?![\w.-])", re.ASCII)
_LEVEL_OF_ANY_CASE: Final = re.compile(_LEVEL.pattern, re.ASCII | re.IGNORECASE)


class Unwrapped(NamedTuple):
    """The text of a log event as the broker wrote it, and what its envelopes say."""

    text: str
    time: LineTime | None = None
    """The time of the innermost envelope that has one."""
    level: str | None = None
    stream: str | None = None
    """Which lines a runtime may have split; None where it splits none."""
    ends: bool | None = True
    """Whether the line ends here; None where the envelope does not say it."""
    lost: bool = False
    """Whether the event is not to be understood: its text is missing, or holds another request, too."""
    layout: Layout | None = None
    """How times are written, where the operator says it."""


def last_level(text: str) -> str | None:
    """Return the last level in a text; None without any."""
    found = _LEVEL.findall(text) or _LEVEL_OF_ANY_CASE.findall(text)
    return str(found[-1]).upper().removesuffix("ING") if found else None
