"""Lines that a container runtime has split: their parts are joined again. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate_fleet.evidence.lines.one_line import read_unwrapped
from featuregate_fleet.evidence.lines.request import MARKER
from featuregate_fleet.evidence.lines.text_format import TEXT_HEADERS, read_tail
from featuregate_fleet.evidence.reasons import CUT
from featuregate_fleet.evidence.text import LONGEST

if TYPE_CHECKING:
    from featuregate_fleet.evidence.lines.unwrapped import Unwrapped

_STREAMS: Final = frozenset({"stdout", "stderr"})
_LONGEST_HEADER: Final = max(map(len, TEXT_HEADERS))
_LONGEST_TAIL: Final = 16_384
"""Characters behind the bodies of a request as text: the connection, times, the principal and the listener."""
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|(?P<open>\\?)\Z)', re.DOTALL)
"""A text of JSON, also one that goes on in the next part."""


class Part(NamedTuple):
    """Where a line is, or a part of one."""

    at: int
    length: int
    raw: str
    whole: bool = True
    """Whether it is all of the line, and not one of several events in it."""


class Joined(NamedTuple):
    """A line, and the parts of it that came before the last one."""

    line: Unwrapped
    parts: tuple[Part, ...] = ()


class _RequestEnds:
    """What the parts of one request say of its end: whether it may have come.

    The reader decides. It reads a line from its beginning, so that it is asked where the last part may have ended the
    request alone: with each part it would take the square of the time.
    """

    def __init__(self) -> None:
        self._header = ""
        self._recent = ""
        self._depth = 0
        self._open = ""
        """What a text of JSON that goes on begins with: its quote, and a backslash if the part ended with one."""
        self._over = False

    def with_part(self, text: str) -> bool:
        """Return whether the request may end with this part. After the end of a request no part ends it."""
        if self._over or not text:
            return False
        known = len(self._header) >= _LONGEST_HEADER
        self._header += text[: _LONGEST_HEADER - len(self._header)]
        is_text = self._header.startswith(TEXT_HEADERS)
        if is_text or not known:
            self._recent = (self._recent + text)[-_LONGEST_TAIL:]
        if not known or not is_text:
            self._count(text)
        if is_text:
            named = self._header.startswith(TEXT_HEADERS[0])
            self._over = read_tail(self._recent, named_listener=named) is not None
        elif len(self._header) == _LONGEST_HEADER:
            self._over = self._depth <= 0
        return self._over or not known  # how it is spelled may decide alone

    def _count(self, text: str) -> None:
        """Count the objects of JSON that are open, outside of texts."""
        text, self._open, at = self._open + text, "", 0
        for found in _STRING.finditer(text):
            self._depth += _opened(text[at : found.start()])
            at = found.end()
            if found["open"] is not None:
                self._open = '"' + found["open"]
        self._depth += _opened(text[at:])


def _opened(text: str) -> int:
    return text.count("{") - text.count("}")


@dataclass(slots=True)
class _Begun:
    """A line that goes on. Its texts are joined where they are read."""

    line: Unwrapped
    """The first part."""
    texts: list[str]
    parts: list[Part]
    length: int
    ends: _RequestEnds | None = None
    """None before the reader has found that a request in the line is cut."""

    def add(self, line: Unwrapped, part: Part) -> bool:
        """Add a part, and return whether the line goes on."""
        self.texts.append(line.text)
        self.parts.append(part)
        self.length += len(line.text)
        may_end = self.ends is None or self.ends.with_part(line.text)
        if line.ends is not None:
            return not line.ends
        return not may_end or self._is_cut()

    def joined(self, *, ends: bool | None, parts: int | None = None) -> Joined:
        """Return the line as it is so far, with the first parts or with all."""
        return Joined(self.line._replace(text="".join(self.texts), ends=ends), tuple(self.parts[:parts]))

    def _is_cut(self) -> bool:
        line = self.joined(ends=None).line
        _, marker, request = line.text.partition(MARKER)
        if not marker or read_unwrapped(line) != CUT:
            return False
        if self.ends is None:
            self.ends = _RequestEnds()
            self.ends.with_part(request)
        return True


class PartialLines:
    """The lines that have begun in each stream of one container."""

    def __init__(self) -> None:
        self._begun: dict[str, _Begun] = {}

    def add(self, line: Unwrapped, part: Part) -> tuple[Joined | None, Joined | None]:
        """Return the line that ends with a part, and one that has no end; None without such a line."""
        stream = line.stream
        if stream not in _STREAMS:
            return Joined(line), None
        begun, lost = self._begun.pop(stream, None), None
        if begun and (MARKER in line.text or begun.length > LONGEST):
            lost = begun.joined(ends=None)  # a request within another one: the end of the first one is missing
            begun = None
        begun = begun or _Begun(line, [], [], 0)
        if begun.add(line, part):
            self._begun[stream] = begun
            return None, lost
        return begun.joined(ends=line.ends, parts=-1), lost

    def without_end(self) -> list[Joined]:
        """Return the lines that have begun, and forget them."""
        begun = [one.joined(ends=None) for one in self._begun.values()]
        self._begun.clear()
        return begun
