"""Lines that a container runtime has split: their parts are joined again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate_fleet.evidence.lines.one_line import read_unwrapped
from featuregate_fleet.evidence.lines.request import MARKER
from featuregate_fleet.evidence.reasons import CUT
from featuregate_fleet.evidence.text import LONGEST

if TYPE_CHECKING:
    from featuregate_fleet.evidence.lines.envelopes import Unwrapped

_STREAMS: Final = frozenset({"stdout", "stderr"})


class Part(NamedTuple):
    """Where a line is, or a part of one."""

    at: int
    length: int
    raw: str


class Joined(NamedTuple):
    """A line, and the parts of it that came before the last one."""

    line: Unwrapped
    parts: tuple[Part, ...] = ()


class PartialLines:
    """The lines that have begun in each stream of one container."""

    def __init__(self) -> None:
        self._begun: dict[str, Joined] = {}

    def add(self, line: Unwrapped, part: Part) -> tuple[Joined | None, Joined | None]:
        """Return the line that ends with a part, and one that has no end; None without such a line."""
        stream = line.stream
        if stream not in _STREAMS:
            return Joined(line), None
        begun, lost = self._begun.pop(stream, None), None
        if begun and (MARKER in line.text or len(begun.line.text) > LONGEST):
            begun, lost = None, begun  # a request within another one: the end of the first one is missing
        parts: tuple[Part, ...] = ()
        if begun:
            line, parts = begun.line._replace(text=begun.line.text + line.text, ends=line.ends), begun.parts
        if line.ends is False or (line.ends is None and MARKER in line.text and read_unwrapped(line) == CUT):
            self._begun[stream] = Joined(line, (*parts, part))
            return None, lost
        return Joined(line, parts), lost

    def without_end(self) -> list[Joined]:
        """Return the lines that have begun, and forget them."""
        begun = list(self._begun.values())
        self._begun.clear()
        return begun
