"""A request as text, as brokers before 2.8 log it. Pure.

The texts of clients stand between commas, without quotes. What comes before and behind them has one spelling, so that
only a client that imitates it is read wrongly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from featuregate.catalog import api_key
from featuregate.errors import UnknownApi
from featuregate_fleet.evidence.lines.request import INT16, Request, known
from featuregate_fleet.evidence.reasons import CUT, WRONG_FIELDS

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["TEXT_HEADER", "read_text"]

TEXT_HEADER: Final = "RequestHeader("

_HEAD: Final = re.compile(
    r"RequestHeader\(apiKey=(?P<api>\w+), apiVersion=(?P<version>-?\d{1,9}), clientId=(?P<client_id>.*?), "
    r"correlationId=-?\d+\) -- ",
    re.ASCII,
)
_CONNECTION: Final = " from connection "
_TAIL: Final = re.compile(
    r" from connection \S+;totalTime:[\d.E-]+,(?:[a-zA-Z]+Time:[\d.E-]+,)*securityProtocol:[A-Z_]+,"
    r"principal:(?P<principal>.*),listener:(?P<listener>[\w.-]+)"
    # Later releases alone. The texts are those that KIP-511 allows.
    r"(?:,clientInformation:ClientInformation\(softwareName=(?P<name>[\w.-]*), "
    r"softwareVersion=(?P<software_version>[\w.-]*)\))?"
    r"(?:\s*\([\w.]+\))?\s*",
    re.ASCII,
)
_ANOTHER: Final = "Completed request:"


def read_text(time: datetime, level: str, text: str) -> Request | str:
    """Return the request, or the reason why there is none. ``text`` begins with `TEXT_HEADER`."""
    head = _HEAD.match(text)
    at = text.rfind(_CONNECTION)
    tail = _TAIL.fullmatch(text, at) if at >= 0 else None
    # The head of a line that was cut, and the tail of the next one, would make a request that nobody sent.
    if head is None or tail is None or _ANOTHER in text:
        return CUT
    version = int(head["version"])
    try:
        key = api_key(head["api"])
    except UnknownApi:
        return WRONG_FIELDS
    if version not in INT16:
        return WRONG_FIELDS
    return Request(
        time=time,
        level=level,
        forwarded=False,  # brokers forward requests from 2.8 on (KIP-590)
        api_key=key,
        version=version,
        client_id=None if head["client_id"] == "null" else head["client_id"],
        principal=tail["principal"],
        listener=tail["listener"],
        software_name=known(tail["name"]),
        software_version=known(tail["software_version"]),
    )
