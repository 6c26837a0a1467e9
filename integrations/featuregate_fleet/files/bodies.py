"""Cuts the bodies of requests and responses out of lines, which hold topics and groups. Pure.

A body ends where the request goes on; of a line that was cut, only the head is left. Bodies within JSON or quotes, and
those in parts of a line that a runtime has split, are not cut: such lines must not be handed in.
"""

from __future__ import annotations

import json
import re
from typing import Final

from featuregate_fleet.errors import BodiesUncut
from featuregate_fleet.evidence.lines.envelopes import events_in
from featuregate_fleet.evidence.lines.request import MARKER
from featuregate_fleet.evidence.lines.text_format import HEADS

_MARKER: Final = MARKER.encode()
_BODIES: Final = b'},"request":'
_JSON_HEAD: Final = re.compile(rb'\{(?:"\w|"?$)')
_NAME_OF_BODY: Final = b'request"'
_TEXT_HEADS: Final = {begin.encode(): re.compile(head.encode()) for begin, head in HEADS.items()}
_EMPTY: Final = {b"RequestHeader(": b"{},response:{}", b"{api_key=": b"{}"}  # brokers before 1.0 log no response
_BEHIND_JSON: Final = b',"connection":"'
_BEHIND_TEXT: Final = b" from connection "
_ENVELOPE: Final = re.compile(rb'\{\s*"')
_CRI_PART: Final = re.compile(rb"\S+ (?:stdout|stderr) P(?::\S*)? ")
_TAILS: Final = (b"totalTimeMs", b";totalTime:")
"""What the end of a request has, where its beginning is in the line before."""


def cut_bodies(text: bytes) -> bytes:
    """Return lines without the bodies. A line without a request stays as it is.

    Raises
    ------
    BodiesUncut
        A line may hold bodies that are not cut.
    """
    return b"\n".join(map(_cut, text.split(b"\n")))


def _cut(line: bytes) -> bytes:
    if _CRI_PART.match(line):
        raise BodiesUncut("a line is one part of a split line")
    before, marker, request = line.partition(_MARKER)
    if not marker:
        return _without_request(line)
    if _ENVELOPE.search(before):
        raise BodiesUncut("a request is within JSON")
    begin = next((begin for begin in _TEXT_HEADS if request.startswith(begin)), None)
    return before + marker + (_cut_text(begin, request) if begin else _cut_json(request))


def _without_request(line: bytes) -> bytes:
    """Return a line that has no request, in no spelling, and is not a part of one."""
    if any(tail in line for tail in _TAILS):
        raise BodiesUncut("a line is one part of a split line")
    if b"{" in line:
        events = events_in(line.decode(errors="replace"))
        if any(MARKER in event.text or not event.ends for event in events):
            raise BodiesUncut("a request is within JSON")
    return line


def _cut_text(begin: bytes, request: bytes) -> bytes:
    head = _TEXT_HEADS[begin].match(request)
    if head is None:
        return begin
    end = -1 if _MARKER in request else request.rfind(_BEHIND_TEXT)
    return head[0] + _EMPTY.get(begin, b"") + request[end:] if end >= head.end() else head[0]


def _cut_json(request: bytes) -> bytes:
    if request and not _JSON_HEAD.match(request) and not any(begin.startswith(request) for begin in _TEXT_HEADS):
        raise BodiesUncut("a request is within quotes, or spelled in another way")
    head, bodies, behind = request.partition(_BODIES)
    if not bodies:
        if _NAME_OF_BODY in head:
            raise BodiesUncut("a request is spelled in another way")
        return request
    end = -1 if _has_another(request) else behind.rfind(_BEHIND_JSON)
    return head + bodies + (b'{},"response":{}' + behind[end:] if end >= 0 else b"")


def _has_another(request: bytes) -> bool:
    """Return whether another request begins behind one, or in what is left of it, and not in a text of a client."""
    if _MARKER not in request:
        return False
    text = request.decode(errors="replace")
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return True
    return MARKER in text[end:]
