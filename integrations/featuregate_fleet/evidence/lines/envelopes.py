"""What container runtimes, shippers and JSON layouts put around the lines that a broker wrote. Pure.

The text of the broker is inside: behind the prefix of CRI, or a text of JSON, also where one is in another. A shipper
may put several lines into one. A runtime splits a line at 16 kB: CRI marks each part but the last one as P, and Docker
ends the last one alone with a line break.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from featuregate_fleet.evidence.lines.documents import documents_in, requests_apart
from featuregate_fleet.evidence.lines.request import MARKER, Unwrapped
from featuregate_fleet.evidence.lines.times import Layout, time_in

if TYPE_CHECKING:
    from collections.abc import Iterator

_CRI: Final = re.compile(
    r"(?P<time>20\d\d-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) (?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S*)?(?: |$)",
    re.ASCII,
)
_JSON: Final = re.compile(r"""\{\s*"|\[\s*[\["]""")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*[mK]")
_DEPTH: Final = 6
"""Envelopes in one another."""
_PREFIX: Final = 512
"""Characters before a JSON object: what syslog, Compose or kubectl write there."""


def events_in(line: str, layout: Layout | None = None) -> list[Unwrapped]:
    """Return the log events of a line without their envelopes: one for each request, and at least one.

    A text that has another request behind its first one is lost, one event for each of them: the cut head of a line and
    the tail of the next one would make a request that no client sent.
    """
    first = Unwrapped(_COLOURS.sub("", line) if "\x1b" in line else line, layout=layout)
    # JSON can spell halves of surrogate pairs, which no table can keep.
    return [
        found if found.text.isascii() else found._replace(text=found.text.encode(errors="replace").decode())
        for found in _unwrapped(first, _DEPTH)
    ]


def unwrap(line: str, layout: Layout | None = None) -> Unwrapped:
    """Return the last log event of a line without its envelopes."""
    return events_in(line, layout)[-1]


def _unwrapped(outer: Unwrapped, depth: int) -> Iterator[Unwrapped]:
    inner = depth and not outer.lost and (_in_cri(outer) or _in_json(outer) or _in_lines(outer) or _in_quotes(outer))
    if not inner:
        yield from _several(outer) or [outer]
        return
    for one in inner:
        yield from _unwrapped(one, depth - 1)


def _in_cri(outer: Unwrapped) -> list[Unwrapped]:
    found = _CRI.match(outer.text)
    if found is None:
        return []
    time = time_in(found["time"], None) or outer.time
    ends = found["tag"] == "F"
    return [outer._replace(text=outer.text[found.end() :], time=time, stream=found["stream"], ends=ends)]


def _in_json(outer: Unwrapped) -> list[Unwrapped]:
    request = outer.text.find(MARKER)
    found = _JSON.search(outer.text, 0, min(_PREFIX, request if request >= 0 else _PREFIX))
    return (documents_in(outer, found.start()) or []) if found else []


def _in_lines(outer: Unwrapped) -> list[Unwrapped]:
    """Return the lines of a text with several requests, which a shipper has put together."""
    if "\n" not in outer.text or not _several(outer):
        return []
    return [outer._replace(text=text) for text in outer.text.split("\n") if text and not text.isspace()]


def _several(line: Unwrapped) -> list[Unwrapped]:
    """Return a text with several requests as one lost event for each; nothing where others are in the first alone.

    A client may put into its texts what looks like a request.
    """
    text, lost = line.text, line._replace(lost=True)
    first = text.find(MARKER)
    if line.lost or first < 0 or text.find(MARKER, first + 1) < 0:
        return []
    try:
        _, end = json.JSONDecoder().raw_decode(text, first + len(MARKER))
    except (ValueError, RecursionError):
        return requests_apart(lost)
    behind = requests_apart(lost._replace(text=text[end:]))
    return [lost._replace(text=text[:end]), *behind] if behind else []


def _in_quotes(outer: Unwrapped) -> list[Unwrapped]:
    """Unwrap a request in a quoted text, as logfmt and CSV have it."""
    text = outer.text
    if (request := text.find(MARKER)) < 0:
        return []
    begin = text.rfind('"', 0, request)
    if text.startswith('{\\"', request + len(MARKER)) and begin >= 0:
        try:
            inner, end = json.decoder.scanstring(text, begin + 1, False)  # type: ignore[attr-defined]  # noqa: FBT003
        except ValueError:
            return []
        return [outer._replace(text=text[:begin] + inner + text[end:])]
    if text.startswith('{""', request + len(MARKER)) and begin >= 0:
        return [outer._replace(text=text[:begin] + text[begin + 1 :].replace('""', '"'))]
    return []
