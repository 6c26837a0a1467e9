"""Parses the lines of one file by the full parser, where the fast path has left them, and counts all of them. Pure."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.columns import FROM_LOGS
from featuregate_fleet.evidence.lines.cut_lines import read_head
from featuregate_fleet.evidence.lines.envelopes import events_in, unwrap
from featuregate_fleet.evidence.lines.layouts import Layout
from featuregate_fleet.evidence.lines.one_line import read_unwrapped
from featuregate_fleet.evidence.lines.partial_lines import Joined, LinePart, PartialLines
from featuregate_fleet.evidence.lines.refusals import (
    Refusal,
    is_header,
    is_reason,
    lines_of_text,
    refusal_of,
    repeats_refusal,
)
from featuregate_fleet.evidence.lines.request import LoggedRequest
from featuregate_fleet.evidence.lines.unwrapped import Unwrapped
from featuregate_fleet.evidence.quarantined_lines import QuarantinedLines
from featuregate_fleet.evidence.reasons import (
    CUT,
    FAILED,
    NO_REQUEST,
    PART,
    RAW_LENGTH,
    TEXT_LOG,
    TOO_LONG,
    UNKNOWN_BROKER,
)
from featuregate_fleet.evidence.text import LONGEST
from featuregate_fleet.evidence.usage import COMPLETED, REFUSED, SEEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from featuregate_fleet.evidence.paths import LogFile

_HEAD: Final = 2**16
"""Characters of a line that is too long."""


class Rest(Enum):
    """Who reads what follows the lines of a piece."""

    NONE = auto()
    """There is nothing."""
    NEXT = auto()
    """The next piece, which joins the parts of a line that this one has begun."""
    LATER = auto()
    """A later run, from the first part of a line that has no end yet."""


class AboutPiece(Protocol):
    """Says what rows of kind ``source`` have of a piece."""

    def __call__(self, begun: int | None = None) -> Mapping[str, object]:
        """Return it; ``begun`` is where a line begins that a later run reads again, from its first part."""


@dataclass(slots=True)
class Found:
    """What was found in some lines."""

    seen: list[dict[str, Any]] = field(default_factory=list)
    """Requests and refusals that the full parser has read."""
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)
    """The counts of files."""


@dataclass(slots=True)
class FileParser:
    """Parses the lines of one file, and counts them."""

    file: LogFile
    previous: str = ""
    after_empty: bool = False
    count: int = 0
    quarantine: QuarantinedLines = field(default_factory=QuarantinedLines)
    partial: PartialLines = field(default_factory=PartialLines)

    @property
    def layout(self) -> Layout | None:
        """Return the layout that the operator has named for these lines."""
        return Layout(self.file.times.layout, self.file.not_after) if self.file.times.layout else None

    def without_runs(self, lines: pa.RecordBatch) -> pa.RecordBatch:
        """Leave out each empty line that follows one: some kilobytes of gzip can hold millions."""
        empty = are_empty(lines["value"])
        after, self.after_empty = pa.array([self.after_empty]), empty[-1].as_py()
        return lines.filter(pc.invert(pc.and_(empty, pa.concat_arrays([after, empty[:-1]]))))

    def follow(self, lines: pa.RecordBatch) -> None:
        """Keep what the next line may belong together with: the last one of some lines, and those that have begun."""
        for row in lines.to_pylist():
            with suppress(Exception):  # the piece before has put this line into quarantine
                for event in events_in(row["value"], self.layout):
                    self.partial.add(event, LinePart(row["at"], row["length"], row["value"]))
        self.previous = lines["value"][-1].as_py()
        self.after_empty = not self.previous.strip()

    def read(self, lines: pa.RecordBatch, numbers: Sequence[int], found: Found) -> None:
        """Read the next lines, those with these numbers by the full parser."""
        self._read_others(lines, numbers, found)
        if lines.num_rows:
            self.count += lines.num_rows
            self.previous = lines["value"][-1].as_py()

    def end(self, found: Found, about: AboutPiece, rest: Rest) -> None:
        """Add what is left to say of the file, and its counts. ``about`` returns what its reader says of it.

        Lines of which the end did not come are given up, unless the next piece or a later run reads the rest of them.
        """
        for begun in self.partial.without_end() if rest is Rest.NONE else ():
            self._put_aside(self._lost(begun, CUT), found)
        again = self.partial.begun() if rest is Rest.LATER else []
        self.count -= len(again)  # where they are read again, they count
        found.quarantined += self.quarantine.end()
        counts = {
            "source": self.file.source,
            "input": FROM_LOGS,
            "path": self.file.path,
            "uri": self.file.uri,
            "broker": self.file.broker,
            "size": self.file.size,
            "read": self.count,
            "rows": self.count - self.quarantine.count,
            "quarantined": self.quarantine.count,
        }
        found.sources.append({**counts, **about(again[0] if again else None)})

    def _read_others(self, lines: pa.RecordBatch, numbers: Sequence[int], found: Found) -> None:
        """Read the lines with these numbers, which the fast path has left."""
        values = lines["value"]
        for number in numbers:
            line, at, length = (column[number].as_py() for column in lines.columns)  # one at a time: they may be long
            if length > LONGEST:
                event = _first_of(line[:_HEAD], self.layout)
                self._put_aside(self._lost(Joined(event, (LinePart(at, length, line),)), TOO_LONG), found)
                continue
            self._read_line(line, LinePart(at, length, line), partial(self._before, values, number), found)

    def _read_line(self, line: str, part: LinePart, previous: Callable[[], Unwrapped], found: Found) -> None:
        try:
            events = events_in(line, self.layout)
        except Exception:  # noqa: BLE001 - one line may not end the reading of all others
            self._put_aside([self._quarantined(part, FAILED)], found)
            return
        self.count += len(events) - 1
        for event in events:
            of_event = part if len(events) == 1 else part._replace(raw=event.text)
            try:
                seen, rows = self._of_event(event, of_event, previous)
            except Exception:  # noqa: BLE001 - likewise
                seen, rows = [], [self._quarantined(of_event, FAILED)]
            found.seen += seen
            self._put_aside(rows, found)
            previous = partial(Unwrapped, *event)

    def _of_event(
        self, event: Unwrapped, part: LinePart, previous: Callable[[], Unwrapped]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the request or refusal of an event, and rows for the quarantine."""
        whole, lost = self.partial.add(event, part) if self.file.broker else (Joined(event), None)
        rows = self._lost(lost, CUT) if lost else []
        seen: dict[str, Any] = {}
        match _understand(whole.line, previous) if whole else None:
            case found if self.file.broker is None and (found == TEXT_LOG or not isinstance(found, str)):
                rows.append(self._quarantined(part, UNKNOWN_BROKER))
            case LoggedRequest() as request:
                seen = asdict(request) | {"outcome": COMPLETED}
            case Refusal() as refusal:
                seen = refusal._asdict() | {"outcome": REFUSED}
            case str() as reason if whole:
                rows += self._lost(Joined(whole.line, (*whole.parts, part)), reason)
        if not seen:
            return [], rows
        pa.array([seen], SEEN)  # raises for what no table can keep
        return [seen | {"broker": self.file.broker}], rows

    def _before(self, values: pa.StringArray, number: int) -> Unwrapped:
        return unwrap(str(values[number - 1].as_py()) if number else self.previous, self.layout)

    def _put_aside(self, rows: list[dict[str, Any]], found: Found) -> None:
        """Put lines into quarantine one after the other: one line may hold a million events."""
        found.quarantined += self.quarantine.add(rows)

    def _lost(self, line: Joined, reason: str) -> list[dict[str, Any]]:
        """Return rows for a line with its parts, with what its head says."""
        first, *others = line.parts
        head = read_head(line.line) if reason in {CUT, TOO_LONG} else None
        row = self._quarantined(first, reason) | (head._asdict() if head else {})
        return [row, *(self._quarantined(part, PART) for part in others)]

    def _quarantined(self, part: LinePart, reason: str) -> dict[str, Any]:
        return {
            "source": self.file.source,
            "path": self.file.path,
            "broker": self.file.broker,
            "at": part.at,
            "reason": reason,
            "raw": part.raw[:RAW_LENGTH],
        }


def _first_of(line: str, layout: Layout | None) -> Unwrapped:
    """Return the beginning of a line without its envelopes."""
    try:
        return events_in(line, layout)[0]
    except Exception:  # noqa: BLE001 - it is in quarantine anyway
        return Unwrapped(line, layout=layout)


def _understand(line: Unwrapped, previous: Callable[[], Unwrapped]) -> LoggedRequest | Refusal | str | None:
    """Return what a line says, the reason why it is for the quarantine, or None for a line of a refusal."""
    found = read_unwrapped(line)
    if found != NO_REQUEST:
        return found
    before: Unwrapped | None = None
    understood: Refusal | str | None = NO_REQUEST
    for one in lines_of_text(line):
        if is_header(one.text):
            before, understood = one, None
        elif is_reason(one.text):
            before = before or previous()
            if (refusal := refusal_of(one.text, before)) is not None:
                return refusal
            # Where a file or a micro-batch begins with a reason, the line before it with the time is not here.
            understood = None if repeats_refusal(one.text, before.text) else CUT
    return understood


def are_empty(texts: pa.StringArray) -> pa.BooleanArray:
    """Return which lines have nothing but white space."""
    return pc.or_(pc.utf8_is_space(texts), pc.equal(pc.binary_length(texts), 0))
