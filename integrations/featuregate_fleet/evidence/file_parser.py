"""Parses the lines of one file by the full parser, where the fast path has left them, and counts all of them. Pure."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.lines.cut_lines import read_head
from featuregate_fleet.evidence.lines.envelopes import events_in, unwrap
from featuregate_fleet.evidence.lines.layouts import Layout
from featuregate_fleet.evidence.lines.log_lines import KeptLines, connection_in
from featuregate_fleet.evidence.lines.one_line import read_unwrapped
from featuregate_fleet.evidence.lines.partial_lines import Joined, Part, PartialLines
from featuregate_fleet.evidence.lines.refusals import (
    Refusal,
    is_header,
    is_reason,
    lines_of_text,
    refusal_of,
    repeats_refusal,
)
from featuregate_fleet.evidence.lines.request import LoggedRequest
from featuregate_fleet.evidence.lines.text_format import is_of_text_log
from featuregate_fleet.evidence.lines.unwrapped import Unwrapped
from featuregate_fleet.evidence.quarantined_lines import QuarantinedLines
from featuregate_fleet.evidence.reasons import (
    CUT,
    FAILED,
    NO_REQUEST,
    PARSER,
    PART,
    RAW_LENGTH,
    TOO_LONG,
    UNKNOWN_BROKER,
)
from featuregate_fleet.evidence.text import LONGEST, Unreadable
from featuregate_fleet.evidence.usage import COMPLETED, REFUSED, SEEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from featuregate_fleet.evidence.paths import LogFile

_HEAD: Final = 2**16
"""Characters of a line that is too long."""


@dataclass(slots=True)
class Found:
    """What was found in some lines."""

    seen: list[dict[str, Any]] = field(default_factory=list)
    """Requests and refusals that the full parser has read."""
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    log_lines: list[pa.Array] = field(default_factory=list)
    files: list[dict[str, Any]] = field(default_factory=list)
    """Their counts."""


@dataclass(slots=True)
class FileParser:
    """Parses the lines of one file, and counts them."""

    file: LogFile
    kept: KeptLines = KeptLines.NONE
    again: int = 0
    """The number of its lines that were counted in quarantine before."""
    previous: str = ""
    after_empty: bool = False
    count: int = 0
    text_log: bool = False
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
                    self.partial.add(event, Part(row["at"], row["length"], row["value"]))
        self.previous = lines["value"][-1].as_py()
        self.after_empty = not self.previous.strip()

    def read(self, lines: pa.RecordBatch, numbers: Sequence[int], found: Found) -> list[dict[str, Any]]:
        """Read the next lines, those with these numbers by the full parser; return the requests that it has read."""
        seen = self._read_others(lines, numbers, found)
        if lines.num_rows:
            self.count += lines.num_rows
            self.previous = lines["value"][-1].as_py()
        return seen

    def give_up(self, rest: Unreadable, found: Found) -> None:
        """Put the rest of the file into quarantine, as one line."""
        self._put_aside([self._row(rest.at, rest.reason, rest.why, whole=False)], found)
        self.count += 1

    def end(self, found: Found, *, goes_on: bool) -> None:
        """Give up the lines of which the end did not come, and add what is left to say of the file, and its counts."""
        for begun in () if goes_on else self.partial.without_end():
            self._put_aside(self._lost(begun, CUT), found)
        found.quarantined += self.quarantine.end()
        counts = {
            "path": self.file.path,
            "uri": self.file.uri,
            "broker": self.file.broker,
            "size": self.file.size,
            "read": self.count - self.again,
            "rows": self.count - self.quarantine.count,
            "quarantined": self.quarantine.count - self.again,
            "content": self.file.content,
            "text_log": self.text_log,
        }
        found.files.append(counts)

    def _read_others(self, lines: pa.RecordBatch, numbers: Sequence[int], found: Found) -> list[dict[str, Any]]:
        """Read the lines with these numbers, which the fast path has left; return the requests in them."""
        values, before = lines["value"], len(found.seen)
        for number in numbers:
            line, at, length = (column[number].as_py() for column in lines.columns)  # one at a time: they may be long
            if length > LONGEST:
                event = _first_of(line[:_HEAD], self.layout)
                self.text_log = self.text_log or is_of_text_log(event.text)
                self._put_aside(self._lost(Joined(event, (Part(at, length, line),)), TOO_LONG), found)
                continue
            self._read_line(line, Part(at, length, line), partial(self._before, values, number), number, found)
        return found.seen[before:]

    def _read_line(self, line: str, part: Part, previous: Callable[[], Unwrapped], number: int, found: Found) -> None:
        try:
            events = events_in(line, self.layout)
        except Exception:  # noqa: BLE001 - one line may not end the reading of all others
            self._put_aside([self._quarantined(part, FAILED)], found)
            return
        self.count += len(events) - 1
        for event in events:
            of_event = part if len(events) == 1 else part._replace(raw=event.text, whole=False)
            try:
                seen, rows = self._of_event(event, of_event, previous, number)
            except Exception:  # noqa: BLE001 - likewise
                seen, rows = [], [self._quarantined(of_event, FAILED)]
            found.seen += seen
            self._put_aside(rows, found)
            previous = partial(Unwrapped, *event)

    def _of_event(
        self, event: Unwrapped, part: Part, previous: Callable[[], Unwrapped], number: int
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the request or refusal of an event, and rows for the quarantine."""
        self.text_log = self.text_log or is_of_text_log(event.text)
        whole, lost = self.partial.add(event, part) if self.file.broker else (Joined(event), None)
        rows = self._lost(lost, CUT) if lost else []
        seen: dict[str, Any] = {}
        match _understand(whole.line, previous) if whole else None:
            case LoggedRequest() | Refusal() | None if self.file.broker is None:
                rows.append(self._quarantined(part, UNKNOWN_BROKER))
            case LoggedRequest() as request:
                in_text = whole.line.text if whole and self.kept is not KeptLines.NONE else ""
                seen = asdict(request) | {"outcome": COMPLETED, "connection": connection_in(in_text)}
            case Refusal() as refusal:
                seen = refusal._asdict() | {"outcome": REFUSED}
            case str() as reason if whole:
                rows += self._lost(Joined(whole.line, (*whole.parts, part)), reason)
        if not seen:
            return [], rows
        pa.array([seen], SEEN)  # raises for what no table can keep
        return [seen | {"broker": self.file.broker, "line": number}], rows

    def _before(self, values: pa.StringArray, number: int) -> Unwrapped:
        return unwrap(str(values[number - 1].as_py()) if number else self.previous, self.layout)

    def _put_aside(self, rows: list[dict[str, Any]], found: Found) -> None:
        """Put lines into quarantine one after the other: one line may hold a million events."""
        found.quarantined += self.quarantine.add(rows)

    def _lost(self, line: Joined, reason: str) -> list[dict[str, Any]]:
        """Return rows for a line with its parts, with what its head says."""
        first, *others = line.parts
        head = read_head(line.line) if reason in {CUT, TOO_LONG} else None
        row = self._quarantined(first, reason, whole=not others) | (head._asdict() if head else {})
        return [row, *(self._quarantined(part, PART, whole=False) for part in others)]

    def _quarantined(self, part: Part, reason: str, *, whole: bool = True) -> dict[str, Any]:
        kept = part.whole and len(part.raw) <= RAW_LENGTH and part.length <= LONGEST
        return self._row(part.at, reason, part.raw[:RAW_LENGTH], whole=whole and kept)

    def _row(self, at: int, reason: str, raw: str, *, whole: bool) -> dict[str, Any]:
        return {
            "path": self.file.path,
            "uri": self.file.uri,
            "broker": self.file.broker,
            "time_zone": self.file.times.time_zone,
            "layout": self.file.times.layout,
            "not_after": self.file.not_after,
            "at": at,
            "reason": reason,
            "raw": raw,
            "whole": whole,
            "parser": PARSER,
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
