"""One line of the request log, read completely: slow, and the reference for the fast path. Pure."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from featuregate_fleet.evidence.lines.request import ANSWERED, MARKER, Request, known
from featuregate_fleet.evidence.lines.text_format import TEXT_HEADERS, read_text
from featuregate_fleet.evidence.reasons import CUT, EMPTY, NO_REQUEST, UNKNOWN_LAYOUT, WRONG_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

TIME: Final = r"^\[?(20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d[,.]\d\d\d)\]?"
LEVEL: Final = r" +([A-Z]+) +"
TIME_AND_LEVEL: Final = TIME + LEVEL
"""Kafka's layouts: ``[%d] %p %m (%c)%n``, and %d{ISO8601} without brackets."""

_HEAD: Final = re.compile(TIME_AND_LEVEL + MARKER, re.ASCII)
_LOGGER: Final = re.compile(r"\s*(\([\w.]+\))?\s*", re.ASCII)


def read_line(line: str) -> Request | str:
    """Return the request of a line, or the reason why it has none (`featuregate_fleet.evidence.reasons`)."""
    head = _HEAD.match(line)
    if head is None:
        return _without_head(line)
    text = line[head.end() :]
    time = read_time(head[1])
    if text.startswith(TEXT_HEADERS):
        return read_text(time, head[2], text) if time else WRONG_FIELDS
    try:
        document, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):  # an integer of thousands of digits is a ValueError, too
        return CUT
    if not _LOGGER.fullmatch(text, end):
        return CUT
    return (_request(time, head[2], document) if time else None) or WRONG_FIELDS


def _without_head(line: str) -> str:
    if MARKER in line:
        return UNKNOWN_LAYOUT
    return NO_REQUEST if line and not line.isspace() else EMPTY


def read_time(text: str) -> datetime | None:
    """Return the time of a line, or None for one that does not exist, such as the 30th of February."""
    try:
        return datetime.fromisoformat(text.replace(",", ".")).replace(tzinfo=UTC)
    except ValueError:
        return None


def _request(time: datetime, level: str, document: Any) -> Request | None:
    match document:
        case {
            "isForwarded": bool(forwarded),
            "requestHeader": {
                "requestApiKey": int(api_key),
                "requestApiVersion": int(version),
                "clientId": (str() | None) as client_id,
            },
            "principal": (str() | None) as principal,
            "listener": str(listener),
            "clientInformation": {"softwareName": str(name), "softwareVersion": str(software_version)},
        } if not isinstance(api_key, bool) and not isinstance(version, bool):
            if api_key not in ANSWERED or version not in ANSWERED or not _encodable(document):
                return None
            return Request(
                time=time,
                level=level,
                forwarded=forwarded,
                api_key=api_key,
                version=version,
                client_id=client_id,
                principal=principal,
                listener=listener,
                software_name=known(name),
                software_version=known(software_version),
            )
    return None


def _encodable(document: Mapping[str, Any]) -> bool:
    """Return whether the texts are Unicode: JSON can spell halves of surrogate pairs, which no table can keep."""
    texts = (
        document["requestHeader"]["clientId"],
        document["principal"],
        document["listener"],
        *document["clientInformation"].values(),
    )
    return not any("\ud800" <= character <= "\udfff" for text in texts if isinstance(text, str) for character in text)
