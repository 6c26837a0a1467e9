"""A request as text, as brokers before 2.8 log it. Pure.

The texts of clients stand between commas, without quotes. What comes before and behind them has one spelling, so that
only a client that imitates it is read wrongly. A line break in such a text begins a line of the log: what follows it is
up to the client, also the request of another one. Before 1.0 the header has another spelling, before 0.10.2 no listener
has a name (KIP-103), and 0.10.0 spells Fetch by itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from featuregate.catalog import api_key
from featuregate.errors import UnknownApi
from featuregate_fleet.evidence.lines.request import (
    ANSWERED,
    EVERY_REQUEST,
    MARKER,
    LoggedRequest,
    host_of,
    known,
    lasting,
)
from featuregate_fleet.evidence.reasons import CUT, WRONG_FIELDS

if TYPE_CHECKING:
    from datetime import datetime

_VERSION: Final = r"(?P<version>-?\d{1,9})"
_APIS: Final = {
    "RequestHeader(": rf"RequestHeader\(apiKey=(?P<api>\w+), apiVersion={_VERSION}, clientId=",
    "{api_key=": rf"\{{api_key=(?P<api>-?\d{{1,9}}),api_version={_VERSION},correlation_id=-?\d+,client_id=",
    "Name: ": rf"Name: (?P<api>\w+)Request; Version: {_VERSION}; CorrelationId: -?\d+; ?ClientId:",
}
_CLIENT_IDS: Final = {
    "RequestHeader(": r"(?P<client_id>.*?), correlationId=-?\d+\) -- ",
    "{api_key=": r"(?P<client_id>.*?)\} -- ",
    # The first one is of Fetch, the second one of ControlledShutdown.
    "Name: ": r"(?: (?P<client_id>.*?); ReplicaId|(?:Some\(\d+\)|None); BrokerId): ",
}
HEADS: Final = {begin: api + _CLIENT_IDS[begin] for begin, api in _APIS.items()}
"""By the text with which they begin: from 1.0 on, before 1.0, and what is left of the Scala classes before 1.0."""
CUT_HEADS: Final = {begin: rf"{api}{' ' if begin == 'Name: ' else ''}(?P<client_id>.*)" for begin, api in _APIS.items()}
"""The same where the line ends within the client id, most often because the client id has a line break."""
TEXT_HEADERS: Final = tuple(HEADS)

_CONNECTION: Final = " from connection "
_LISTENER: Final = ",listener:"
_TIMES: Final = (
    r" from connection (?P<connection>\S+);totalTime:[\d.E-]+,(?:[a-zA-Z]+Time:[\d.E-]+,)*"
    r"securityProtocol:[A-Z_]+,principal:"
)
_LOGGER: Final = r"(?:\s*\([\w.]+\))?(?:\s+\[[^\[\]{}]*\])?\s*"
"""The name of the logger, and that of the thread: no text of a client stands behind them."""
_TAIL: Final = re.compile(
    _TIMES
    + rf"(?P<principal>.*){_LISTENER}(?P<listener>[\w.-]+)"
    # Later releases alone. The texts are those that KIP-511 allows.
    + r"(?:,clientInformation:ClientInformation\(softwareName=(?P<name>[\w.-]*), "
    + r"softwareVersion=(?P<software_version>[\w.-]*)\))?"
    + _LOGGER,
    re.ASCII,
)
_UP_TO_PRINCIPAL: Final = re.compile(_TIMES, re.ASCII)
_NAME_OF_LOGGER: Final = re.compile(r"[\w.]+\)", re.ASCII)
_SPACES: Final = " \t\n\r\f\v"


def read_text(time: datetime, level: str | None, text: str, *, in_utc: bool = False) -> LoggedRequest | str:
    """Return the request, or the reason why there is none. ``text`` begins with one of `TEXT_HEADERS`."""
    begin = next(begin for begin in TEXT_HEADERS if text.startswith(begin))
    head, tail = re.match(HEADS[begin], text, re.ASCII), read_tail(text, named_listener=begin == TEXT_HEADERS[0])
    # The head of a line that was cut, and the tail of the next one, would make a request that no client sent.
    if head is None or tail is None or MARKER in text:
        return CUT
    version = int(head["version"])
    try:
        key = api_key(head["api"]) if head["api"].isidentifier() else int(head["api"])
    except (UnknownApi, ValueError):  # not a name, and not a number either
        return WRONG_FIELDS
    if key not in ANSWERED or version not in ANSWERED:
        return WRONG_FIELDS
    return LoggedRequest(
        time=time,
        level=level or EVERY_REQUEST,
        forwarded=False,  # brokers forward requests from 2.8 on (KIP-590)
        api_key=key,
        version=version,
        client_id=None if head["client_id"] == "null" else head["client_id"],
        principal=lasting(tail["principal"]),
        listener=tail.get("listener"),
        software_name=known(tail.get("name")),
        software_version=known(tail.get("software_version")),
        client_host=host_of(tail["connection"]),
        in_utc=in_utc,
    )


def is_of_text_log(text: str) -> bool:
    """Return whether a line, without its envelopes, is the head or the tail of a request as text."""
    _, marker, request = text.partition(MARKER)
    return request.startswith(TEXT_HEADERS) if marker else has_tail(text)


def has_tail(text: str) -> bool:
    """Return whether a text ends as a request does: the head of it may stand in a line before."""
    at = text.rfind(_CONNECTION)
    return at >= 0 and _UP_TO_PRINCIPAL.match(text, at) is not None


def read_tail(text: str, *, named_listener: bool) -> dict[str, str | Any] | None:
    """Return what the end of a line says of the client."""
    at = text.rfind(_CONNECTION)
    if at < 0:
        return None
    if found := _TAIL.fullmatch(text, at):
        return found.groupdict()
    if named_listener or (times := _UP_TO_PRINCIPAL.match(text, at)) is None:
        return None
    principal = _without_logger(text[times.end() :])
    return (
        None
        if "(" in principal or _LISTENER in principal
        else {"principal": principal, "connection": times["connection"]}
    )


def _without_logger(text: str) -> str:
    """Return a text without the `_LOGGER` at its end, which is looked for from there: each mark is found once."""
    text = text.rstrip(_SPACES)
    before, _, thread = text.rpartition("[")
    if thread.endswith("]") and before.endswith(tuple(_SPACES)) and not set("]{}") & set(thread[:-1]):
        text = before.rstrip(_SPACES)
    before, mark, logger = text.rpartition("(")
    return before.rstrip(_SPACES) if mark and _NAME_OF_LOGGER.fullmatch(logger) else text
