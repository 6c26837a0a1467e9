"""Cuts the bodies of requests and responses out of lines, which hold topics and groups. Pure."""

from __future__ import annotations

import re
from typing import Final

from featuregate_fleet.evidence.lines.request import MARKER

_MARKER: Final = MARKER.encode()
_JSON: Final = (b'},"request":', b',"connection":"', b'{},"response":{}')
_TEXT: Final = {
    b"RequestHeader(": (b") -- ", b" from connection ", b"{},response:{}"),
    b"{api_key=": (b"} -- ", b" from connection ", b"{}"),  # brokers before 1.0 log no response
}
_TEXT_LINE: Final = re.compile(rb"[^{]{,99}" + _MARKER + rb"(RequestHeader\(|\{api_key=)")


def cut_bodies(text: bytes) -> bytes:
    """Return lines without the bodies. A line of another kind, or one that was cut, stays as it is."""
    return b"\n".join(map(_cut, text.split(b"\n")))


def _cut(line: bytes) -> bytes:
    if line.count(_MARKER) != 1:
        return line
    text = _TEXT_LINE.match(line)
    before, behind, empty = _TEXT[text[1]] if text else _JSON
    start, end = line.find(before) + len(before), line.rfind(behind)
    return line[:start] + empty + line[end:] if len(before) <= start <= end else line
