"""One line of a broker's log, read completely: slow, and the reference for the fast path. Pure.

A request begins with its marker. Before it stand a time and a level in any layout, or its envelope has them; behind its
last brace anything may stand.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from featuregate.catalog import api_key as key_of
from featuregate.errors import UnknownApi
from featuregate_fleet.evidence import reasons
from featuregate_fleet.evidence.lines import request
from featuregate_fleet.evidence.lines.request import MARKER, LoggedRequest, Unwrapped
from featuregate_fleet.evidence.lines.times import LineTime, time_in

if TYPE_CHECKING:
    from collections.abc import Callable

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
_DROPPED: Final = re.compile(
    r"(?:^|: )(?:Suppressed \d+ messages from \S|Forwarding to syslog missed \d+ messages)"
    r"|\bmessages (?:lost |from pid \d+ )?due to rate-limiting\b"
    r"|\bmessages due to full event buffer\b|\bAsync queue is full, discarding event\b"
    rf"|^{request.OF_SEARCH} "
)
"""What is written of lines that were dropped: by journald (journald-manager.c), rsyslog (ratelimit.c), and Log4j
(DiscardingAsyncQueueFullPolicy, and AsyncAppender, which names one of them)."""
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
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Half of a pair, which JSON can spell, and no table can keep."""


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
    before = before.rpartition("\n")[2]  # a text may have several lines
    if line.lost or not marker or _DROPPED.search(before):
        return reasons.CUT if line.lost else _without_request(line)
    time = time_in(before, line.layout) or line.time
    # An envelope that is left around a request is one that is not known, rather than one that was cut.
    if time is None or (_QUOTED.match(text) and not line.text.startswith("{")):
        return reasons.UNKNOWN_LAYOUT
    level, text = request.last_level(before) or line.level, text.lstrip()
    try:
        document, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):  # an integer of thousands of digits is a ValueError, too
        return reasons.CUT
    if MARKER in text[end:]:
        return reasons.CUT
    return _request(time, level, document) or (reasons.CUT if _GOES_ON.match(text, end) else reasons.WRONG_FIELDS)


def _without_request(line: Unwrapped) -> str:
    if _DROPPED.search(line.text):
        return reasons.DROPPED
    if _is_encoded(line.text):
        return reasons.ENCODED
    if request.AS_FIELDS in line.text:
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
            connection = document.get("connection")
            connection = connection if isinstance(connection, str) else None
            texts = filter(None, (client_id, principal, listener, name, software_version, connection))
            answered = api_key in request.ANSWERED and version in request.ANSWERED
            if time.time is None or not answered or _SURROGATE.search("".join(texts)):
                return None
            deprecated = document["requestHeader"].get("requestApiVersionDeprecated") is True
            return LoggedRequest(
                time=time.time,
                level=level or (request.DEPRECATED_ALONE if deprecated else request.EVERY_REQUEST),
                forwarded=forwarded,
                api_key=api_key,
                version=version,
                client_id=client_id,
                principal=principal and request.lasting(principal),
                listener=listener,
                software_name=request.known(name),
                software_version=request.known(software_version),
                client_host=None if forwarded or connection is None else request.host_of(connection),
                in_utc=time.in_utc,
                connection=connection if api_key == request.API_VERSIONS and not forwarded else None,
            )
    return None


# ---------------------------------------------------------------- requests as text, as brokers before 2.8 log them


def is_as_text(line: str) -> bool:
    """Return whether a line begins or ends a request as text: a line break in it makes two lines of one."""
    _, marker, text = line.partition(MARKER)
    if marker:
        begins = len(text) >= _LEAST and any(header.startswith(text) for header in _HEADERS)
        return begins or text.startswith(_HEADERS)
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
    if (found := _HEAD.match(text.lstrip())) is None:
        return {}
    key, version = int(found["api"]), int(found["version"])
    if key not in request.ANSWERED or version not in request.ANSWERED:
        return {}
    client_id: str | None = json.loads(found["client_id"])
    (client_id or "").encode()  # raises for a half of a surrogate pair, which no table can keep
    forwarded = found["forwarded"] == "true"
    of_request = {"forwarded": forwarded, "api_key": key, "version": version, "client_id": client_id}
    return {"seen_at": time.time, "in_utc": time.in_utc, **of_request}


# ---------------------------------------------------------------- refused requests

# They are error lines of the broker's SocketServer, because the request log does not have them. A broker that does not
# know the version of a request closes the connection and logs two errors, each with the reason on the next line: first
# "Closing socket for <connection> because of error", then "Exception while processing request from <connection>". The
# first one counts. No release names the client id, and the releases from 3.9 on not even the principal.

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


def refusal_in(line: Unwrapped, previous: Callable[[], Unwrapped]) -> LoggedRequest | str | None:
    """Return the refused request of a line, or None for a line that goes with one, or why it is for the quarantine.

    ``previous`` returns the line before. Both are without their envelopes. A shipper may have put an error with its
    reason and its stack into one text.
    """
    before: Unwrapped | None = None
    understood: str | None = reasons.NO_REQUEST
    several = _FIRST.search(line.text) or _SECOND.search(line.text)
    for one in [line._replace(text=text.strip()) for text in _BREAK.split(line.text)] if several else [line]:
        if _FIRST.search(one.text) or _SECOND.search(one.text):
            before, understood = one, None
        elif (reason := _reason(one.text)) is not None:
            before = before or previous()
            if (refusal := _refusal(before, *reason)) is not None:
                return refusal
            # Where a file or a batch begins with a reason, the line before it with the time is not here. A broker
            # writes both at once: another line between them is of a shipper, which may tear each refusal apart.
            begins = not before.text or before.text.isspace()
            understood = None if _SECOND.search(before.text) else reasons.CUT if begins else reasons.UNKNOWN_LAYOUT
    return understood


def _refusal(announced: Unwrapped, key: int, version: int, principal: str | None) -> LoggedRequest | None:
    header = _FIRST.search(announced.text)
    before = announced.text[: header.start()] if header else ""
    found = time_in(before, announced.layout) or announced.time
    if not header or not found or found.time is None or key not in request.INT16 or version not in request.INT16:
        return None
    return LoggedRequest(
        outcome=request.REFUSED,
        time=found.time,
        level=request.last_level(before) or announced.level or _ERROR,
        connection=header[1],
        client_host=request.host_of(header[1]),
        principal=principal and request.lasting(principal),
        api_key=key,
        version=version,
        in_utc=found.in_utc,
    )


def _reason(line: str) -> tuple[int, int, str | None] | None:
    for pattern in _REASONS:
        if found := pattern.match(line):
            name, version, *principal = found.groups()
            try:
                key = int(name) if name.isdecimal() else key_of(name)
                return key, int(version), principal[0] if principal else None
            except (UnknownApi, ValueError):  # a name of a newer release, or thousands of digits
                return None
    return None
