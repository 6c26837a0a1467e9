"""One line of the request log, read completely: slow, and the reference for the fast path. Pure.

A request begins with its marker. Before it stand a time and a level in any layout, or its envelope has them; behind its
last brace anything may stand.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from featuregate_fleet.evidence import reasons
from featuregate_fleet.evidence.lines.request import (
    ANSWERED,
    API_VERSIONS,
    AS_FIELDS,
    DEPRECATED_ALONE,
    EVERY_REQUEST,
    MARKER,
    LoggedRequest,
    Unwrapped,
    host_of,
    known,
    last_level,
    lasting,
)
from featuregate_fleet.evidence.lines.times import LineTime, time_in

if TYPE_CHECKING:
    from collections.abc import Mapping


_QUOTED: Final = re.compile(r'\{(?!["}\s]|$)')
"""A request whose quotes are spelled in another way."""
_GOES_ON: Final = re.compile(r"\s*[\]},]")
"""What stands behind the last brace where that ends no request: braces within the request are missing."""

_ENCODED: Final = re.compile(
    r"\bH4sI[\w+/]{16}|Q29tcGxldGVkIHJlcXVlc3Q6|NvbXBsZXRlZCByZXF1ZXN0O|Db21wbGV0ZWQgcmVxdWVzdD"
)
"""Gzip, or a request, in base64: Lambda and Kinesis have it in JSON."""
_OF_URL: Final = re.compile(r"Completed(?:%20|\+)request(?:%3A|:)")
_NUMBER: Final = "\\u00"
_NUMBERS: Final = re.compile(r"(?:\\u00[0-9a-f]{2}){16}")
"""Characters as numbers."""
_LONG_RUN: Final = 512
_RUN: Final = re.compile(
    rf"(?<![\w+/-])(?=[\w+/-]{{0,64}}\d)(?=[\w+/-]{{0,64}}[A-Za-z])[\w+/-]{{{_LONG_RUN}}}", re.ASCII
)
"""Other base64, or hexadecimal digits."""
_BYTES: Final = re.compile(r"(?:[\ufffd\x01-\x08\x0e-\x1a][^\ufffd\x01-\x08\x0e-\x1a]{0,4}){8}|(?:[^\0]\0{1,3}){16}")
"""Bytes that are not text, or those of UTF-16 or UTF-32."""
_HEADERS: Final = ("RequestHeader(", "{api_key=", "Name: ")
"""From 1.0 on, before 1.0, and what is left of the Scala classes before 1.0."""
_LEAST: Final = 2
"""Characters of one of these that was cut. JSON begins with a brace, too."""
_CONNECTION: Final = " from connection "
_TAIL: Final = re.compile(
    r" from connection \S+;totalTime:[\d.E-]+,(?:[a-zA-Z]+Time:[\d.E-]+,)*securityProtocol:[A-Z_]+,principal:", re.ASCII
)
_INT16: Final = r"(?P<{}>\d{{1,5}})"
_HEAD: Final = re.compile(
    r'\{"isForwarded":(?P<forwarded>true|false),"requestHeader":\{"requestApiKey":'
    + _INT16.format("api")
    + r',"requestApiVersion":'
    + _INT16.format("version")
    + r',"correlationId":-?\d+,"clientId":(?P<client_id>null|"(?:[^"\\]|\\.)*")[,}]'
)
_ESCAPED: Final = '{\\"isForwarded'
_ESCAPE: Final = re.compile(r"\\(.)")


def read_unwrapped(line: Unwrapped) -> LoggedRequest | str:
    """Return the request of a log event, or why it has none (`featuregate_fleet.evidence.reasons`).

    Any client may write what is read here: an error that nobody foresaw is a reason, too.
    """
    try:
        return _read(line)
    except Exception:  # noqa: BLE001 - one line may not end the reading of all others
        return reasons.FAILED


def _read(line: Unwrapped) -> LoggedRequest | str:
    before, marker, text = line.text.partition(MARKER)
    if is_as_text(line.text):
        return reasons.TEXT_LOG
    if line.lost or not marker:
        return reasons.CUT if line.lost else _without_request(line)
    before = before.rpartition("\n")[2]  # a text may have several lines
    time = time_in(before, line.layout) or line.time
    # An envelope that is left around a request is one that is not known, rather than one that was cut.
    if time is None or (_QUOTED.match(text) and not line.text.startswith("{")):
        return reasons.UNKNOWN_LAYOUT
    level = last_level(before) or line.level
    try:
        document, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):  # an integer of thousands of digits is a ValueError, too
        return reasons.CUT
    if MARKER in text[end:]:
        return reasons.CUT
    return _request(time, level, document) or (reasons.CUT if _GOES_ON.match(text, end) else reasons.WRONG_FIELDS)


def _without_request(line: Unwrapped) -> str:
    if _is_encoded(line.text):
        return reasons.ENCODED
    if AS_FIELDS in line.text:
        return reasons.UNKNOWN_LAYOUT
    return reasons.NO_REQUEST if line.text and not line.text.isspace() else reasons.EMPTY


def _is_encoded(text: str) -> bool:
    """Return whether a text may hold lines in another code. Most texts are short and plain, which is fast to see."""
    if _ENCODED.search(text) or ("%" in text and _OF_URL.search(text)) or (_NUMBER in text and _NUMBERS.search(text)):
        return True
    if len(text) >= _LONG_RUN and _RUN.search(text):
        return True
    return not (text.isascii() and text.isprintable()) and bool(_BYTES.search(text))


def _request(time: LineTime, level: str | None, document: Any) -> LoggedRequest | None:
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
            if time.time is None or api_key not in ANSWERED or version not in ANSWERED or not _encodable(document):
                return None
            connection = document.get("connection")
            connection = connection if isinstance(connection, str) else None
            deprecated = document["requestHeader"].get("requestApiVersionDeprecated") is True
            return LoggedRequest(
                time=time.time,
                level=level or (DEPRECATED_ALONE if deprecated else EVERY_REQUEST),
                forwarded=forwarded,
                api_key=api_key,
                version=version,
                client_id=client_id,
                principal=principal and lasting(principal),
                listener=listener,
                software_name=known(name),
                software_version=known(software_version),
                client_host=None if forwarded or connection is None else host_of(connection),
                in_utc=time.in_utc,
                connection=connection if api_key == API_VERSIONS and not forwarded else None,
            )
    return None


def _encodable(document: Mapping[str, Any]) -> bool:
    """Return whether the texts are Unicode: JSON can spell halves of surrogate pairs, which no table can keep."""
    header, client = document["requestHeader"], document["clientInformation"]
    own = (document.get(name) for name in ("principal", "listener", "connection"))
    texts = (header["clientId"], *own, *client.values())
    try:
        "".join(text for text in texts if isinstance(text, str)).encode()
    except UnicodeEncodeError:
        return False
    return True


# ---------------------------------------------------------------- requests as text, as brokers before 2.8 log them


def is_as_text(line: str) -> bool:
    """Return whether a line begins or ends a request as text: a line break in it makes two lines of one."""
    _, marker, request = line.partition(MARKER)
    if marker:
        begins = len(request) >= _LEAST and any(header.startswith(request) for header in _HEADERS)
        return begins or request.startswith(_HEADERS)
    at = line.rfind(_CONNECTION)
    return at >= 0 and _TAIL.match(line, at) is not None


# ---------------------------------------------------------------- what is left of a request that was cut


def read_head(line: Unwrapped) -> dict[str, Any]:
    """Return what the head of a request says, as columns of kind ``quarantine``.

    Nothing if that was cut, too, or an error that nobody foresaw is raised: one line may not end the reading of others.
    """
    try:
        return _read_head(line)
    except Exception:  # noqa: BLE001 - see above
        return {}


def _read_head(line: Unwrapped) -> dict[str, Any]:
    before, _, text = line.text.partition(MARKER)
    time = time_in(before.rpartition("\n")[2], line.layout) or line.time
    if time is None or time.time is None:
        return {}
    if text.startswith(_ESCAPED):  # the JSON around it was cut
        text = _ESCAPE.sub(r"\1", text)
    if (found := _HEAD.match(text)) is None:
        return {}
    key, version = int(found["api"]), int(found["version"])
    if key not in ANSWERED or version not in ANSWERED:
        return {}
    client_id: str | None = json.loads(found["client_id"])
    (client_id or "").encode()  # raises for a half of a surrogate pair, which no table can keep
    forwarded = found["forwarded"] == "true"
    of_request = {"forwarded": forwarded, "api_key": key, "version": version, "client_id": client_id}
    return {"seen_at": time.time, "in_utc": time.in_utc, **of_request}
