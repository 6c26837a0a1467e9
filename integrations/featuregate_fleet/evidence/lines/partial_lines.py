"""Lines that a container runtime has split: their parts are joined again. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from featuregate_fleet.evidence.lines.one_line import read_unwrapped
from featuregate_fleet.evidence.lines.request import LONGEST, MARKER, Unwrapped
from featuregate_fleet.evidence.reasons import CUT

_STREAMS: Final = frozenset({"stdout", "stderr"})
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|(?P<open>\\?)\Z)', re.DOTALL)
"""A text of JSON, also one that goes on in the next part."""


class LinePart(NamedTuple):
    """Where a line is, or a part of one."""

    at: int
    raw: str


class Joined(NamedTuple):
    """A line, and the parts of it that came before the last one."""

    line: Unwrapped
    parts: tuple[LinePart, ...] = ()


class _RequestEnds:
    """What the parts of one request say of its end: whether it may have come.

    The reader decides. It reads a line from its beginning, so that it is asked where the last part may have ended the
    request alone: with each part it would take the square of the time.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._open = ""
        """What a text of JSON that goes on begins with: its quote, and a backslash if the part ended with one."""
        self._over = False

    def with_part(self, text: str) -> bool:
        """Return whether the request may end with this part. After the end of a request no part ends it."""
        if self._over or not text:
            return False
        self._count(text)
        self._over = self._depth <= 0
        return self._over

    def _count(self, text: str) -> None:
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
    parts: list[LinePart]
    length: int
    ends: _RequestEnds | None = None
    """None before the reader has found that a request in the line is cut."""

    def add(self, line: Unwrapped, part: LinePart) -> bool:
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

    def add(self, line: Unwrapped, part: LinePart) -> tuple[Joined | None, Joined | None]:
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

    def begun(self) -> list[int]:
        """Return where the parts of lines begin of which the end did not come yet."""
        return sorted(part.at for one in self._begun.values() for part in one.parts)

    def without_end(self) -> list[Joined]:
        """Return the lines that have begun, and forget them."""
        begun = [one.joined(ends=None) for one in self._begun.values()]
        self._begun.clear()
        return begun
