"""One line of the request log, read completely: slow, and the reference for the fast path. Pure.

A request begins with its marker. Before it stand a time and a level in any layout, or its envelope has them; behind its
last brace anything may stand.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from featuregate_fleet.evidence.lines.envelopes import unwrap
from featuregate_fleet.evidence.lines.layouts import Layout, time_in
from featuregate_fleet.evidence.lines.request import (
    ANSWERED,
    API_VERSIONS,
    AS_FIELDS,
    DEPRECATED_ALONE,
    EVERY_REQUEST,
    MARKER,
    LoggedRequest,
    host_of,
    known,
    lasting,
)
from featuregate_fleet.evidence.lines.text_logs import begins_as_text, ends_as_text
from featuregate_fleet.evidence.lines.unwrapped import Unwrapped, last_level
from featuregate_fleet.evidence.reasons import (
    CUT,
    EMPTY,
    ENCODED,
    FAILED,
    NO_REQUEST,
    TEXT_LOG,
    UNKNOWN_LAYOUT,
    WRONG_FIELDS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate_fleet.evidence.lines.times import LineTime

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


def read_line(line: str, layout: Layout | None = None) -> LoggedRequest | str:
    """Return the request of the last log event of a line, or the reason why it has none."""
    return read_unwrapped(unwrap(line, layout))


def read_unwrapped(line: Unwrapped) -> LoggedRequest | str:
    """Return the request of a log event, or why it has none (`featuregate_fleet.evidence.reasons`).

    Any client may write what is read here: an error that nobody foresaw is a reason, too.
    """
    try:
        return _read(line)
    except Exception:  # noqa: BLE001 - one line may not end the reading of all others
        return FAILED


def _read(line: Unwrapped) -> LoggedRequest | str:
    before, marker, text = line.text.partition(MARKER)
    if begins_as_text(text) or (not marker and ends_as_text(line.text)):
        return TEXT_LOG
    if line.lost or not marker:
        return CUT if line.lost else _without_request(line)
    before = before.rpartition("\n")[2]  # a text may have several lines
    time = time_in(before, line.layout) or line.time
    if time is None or _is_quoted(line.text, text):
        return UNKNOWN_LAYOUT
    level = last_level(before) or line.level
    try:
        document, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):  # an integer of thousands of digits is a ValueError, too
        return CUT
    if MARKER in text[end:]:
        return CUT
    return _request(time, level, document) or (CUT if _GOES_ON.match(text, end) else WRONG_FIELDS)


def _is_quoted(line: str, text: str) -> bool:
    """Return whether an envelope is left around a request: one that is not known, rather than one that was cut."""
    return bool(_QUOTED.match(text)) and not line.startswith("{")


def _without_request(line: Unwrapped) -> str:
    if _is_encoded(line.text):
        return ENCODED
    if AS_FIELDS in line.text:
        return UNKNOWN_LAYOUT
    return NO_REQUEST if line.text and not line.text.isspace() else EMPTY


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
    texts = (header["clientId"], document["principal"], document["listener"], *client.values())
    texts = (*texts, document.get("connection"))
    try:
        "".join(text for text in texts if isinstance(text, str)).encode()
    except UnicodeEncodeError:
        return False
    return True
