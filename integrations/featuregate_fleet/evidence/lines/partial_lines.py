"""Lines that a container runtime has split: their parts are joined again. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from featuregate_fleet.evidence.lines.one_line import read_unwrapped
from featuregate_fleet.evidence.lines.request import LONGEST, MARKER, Unwrapped
from featuregate_fleet.evidence.reasons import CUT

_STREAMS: Final = frozenset({"stdout", "stderr"})


class LinePart(NamedTuple):
    """Where a line is, or a part of one."""

    at: int
    raw: str


class Joined(NamedTuple):
    """A line, and all its parts."""

    line: Unwrapped
    parts: tuple[LinePart, ...]


@dataclass(slots=True)
class _Begun:
    """A line that goes on. Its texts are joined once it ends."""

    line: Unwrapped
    """The first part."""
    texts: list[str] = field(default_factory=list)
    parts: list[LinePart] = field(default_factory=list)
    length: int = 0

    def joined(self, *, ends: bool | None = None) -> Joined:
        """Return the line as it is so far."""
        return Joined(self.line._replace(text="".join(self.texts), ends=ends), tuple(self.parts))


class PartialLines:
    """The lines that have begun in each stream of one container."""

    def __init__(self) -> None:
        self._begun: dict[str, _Begun] = {}

    def add(self, line: Unwrapped, part: LinePart) -> tuple[Joined | None, Joined | None]:
        """Return the line that ends with a part, and one that has no end; None without such a line."""
        stream = line.stream
        if stream not in _STREAMS:
            return Joined(line, (part,)), None
        begun, lost = self._begun.pop(stream, None), None
        if begun and (MARKER in line.text or begun.length > LONGEST):
            lost = begun.joined()  # a request within another one: the end of the first one is missing
            begun = None
        goes_on = not line.ends
        if line.ends is None and begun is None:  # a shipper may have stripped the line breaks of all lines
            goes_on = MARKER in line.text and read_unwrapped(line) == CUT
        begun = begun or _Begun(line)
        begun.texts.append(line.text)
        begun.parts.append(part)
        begun.length += len(line.text)
        if goes_on:
            self._begun[stream] = begun
            return None, lost
        return begun.joined(ends=line.ends), lost

    def begun(self) -> list[int]:
        """Return where the parts of lines begin of which the end did not come yet."""
        return sorted(part.at for one in self._begun.values() for part in one.parts)

    def without_end(self) -> list[Joined]:
        """Return the lines that have begun, and forget them."""
        begun = [one.joined() for one in self._begun.values()]
        self._begun.clear()
        return begun
