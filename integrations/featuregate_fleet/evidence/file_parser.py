"""Parses the lines of one file by the full parser, where the fast path has left them, and counts all of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence import reasons
from featuregate_fleet.evidence.columns import FROM_LOGS, QUARANTINE, rows_of
from featuregate_fleet.evidence.lines.envelopes import events_in, unwrap
from featuregate_fleet.evidence.lines.one_line import is_as_text, read_head, read_unwrapped, refusal_in
from featuregate_fleet.evidence.lines.partial_lines import Joined, LinePart, PartialLines
from featuregate_fleet.evidence.lines.request import COMPLETED, LONGEST, LoggedRequest, Unwrapped
from featuregate_fleet.evidence.lines.times import Layout
from featuregate_fleet.evidence.usage import SEEN, placed

if TYPE_CHECKING:
    from featuregate_fleet.evidence.paths import LogFile, ReadAgain

_HEAD: Final = 2**16
"""Characters of a line that is too long."""
_ALIKE: Final = ("reason", "forwarded", "client_id", "api_key", "version", "in_utc")
MOST_SHARED: Final = 10_000
"""Rows that are held back until the end of the file."""
_SHARED_RAW: Final = 160
"""Characters of the first of some lines that are alike."""


class QuarantinedLines:
    """The lines of one file, or of a piece of it, that are not evidence: the number of rows is bounded.

    The first lines of each reason have a row each. Those after them share a row with others that are alike: of the same
    reason, and, of cut requests, with the same head, because a head is evidence.
    """

    def __init__(self) -> None:
        self.count = 0
        """How many lines there were."""
        self._of_reason: Counter[str] = Counter()
        self._shared: dict[tuple[Any, ...], dict[str, Any]] = {}

    def add(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Take a row for each of some lines; return those that go to the table now."""
        self.count += len(rows)
        own = [row for row in rows if not self._shares(row)]
        return own + self.end() if len(self._shared) > MOST_SHARED else own

    def end(self) -> list[dict[str, Any]]:
        """Return the rows that each represent several lines, and forget them."""
        shared = list(self._shared.values())
        self._shared.clear()
        return shared

    def _shares(self, row: dict[str, Any]) -> bool:
        self._of_reason[row["reason"]] += 1
        if self._of_reason[row["reason"]] <= reasons.ROWS_OF_REASON:
            return False
        first = row | {"lines": 0, "raw": row["raw"][:_SHARED_RAW]}
        shared = self._shared.setdefault(tuple(row.get(name) for name in _ALIKE), first)
        shared["lines"] += 1
        if shared.get("seen_at"):
            shared["seen_at"] = max(shared["seen_at"], row["seen_at"])
        return True


class Rest(Enum):
    """Who reads what follows the lines of a piece."""

    NONE = auto()
    """There is nothing."""
    NEXT = auto()
    """The next piece, which joins the parts of a line that this one has begun."""
    LATER = auto()
    """A later run, from the first part of a line that has no end yet."""


@dataclass
class FileText:
    """The lines of one file, or of a piece of it; which file that is may be known once they are read."""

    file: LogFile
    lines: Iterable[pa.RecordBatch] = ()
    start: int = 0
    """A line before it is of another piece: it counts there, and the next line may be the reason of its refusal, or
    another part of it."""
    again: ReadAgain | None = None
    """Where lines are read once more, which ones; None for all."""
    rest: Rest = Rest.NONE
    more: Mapping[str, object] = field(default_factory=dict)

    def parts(self) -> Iterable[pa.RecordBatch]:
        """Return batches of `featuregate_fleet.evidence.lines.fast_path.LINES`, in order, up to what cannot be read."""
        return self.lines

    def about(self, begun: int | None) -> Mapping[str, object]:  # noqa: ARG002 - readers of files need it
        """Return what else the row of kind ``source`` says; a later run reads on from the line at ``begun``."""
        return self.more


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
    text_at: int | None = None
    """Where the first request as text is: any line behind it may be of a text of a client."""
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
                    if self.text_at is None and is_as_text(event.text):
                        self.text_at = row["at"]
                    self.partial.add(event, LinePart(row["at"], row["value"]))
        self.previous = lines["value"][-1].as_py()
        self.after_empty = not self.previous.strip()

    def read(self, lines: pa.RecordBatch, numbers: Sequence[int], found: Found) -> None:
        """Read the next lines: those with these numbers, which the fast path has left, by the full parser."""
        values = lines["value"]
        for number in numbers:
            line, at, length = (column[number].as_py() for column in lines.columns)  # one at a time: they may be long
            part = LinePart(at, line)
            if length > LONGEST:
                event = Unwrapped(line[:_HEAD], layout=self.layout)
                with suppress(Exception):  # it is in quarantine anyway
                    event = events_in(event.text, self.layout)[0]
                self._put_aside(self._lost(Joined(event, (part,)), reasons.TOO_LONG), found)
            else:
                self._read_line(line, part, partial(self._before, values, number), found)
        if lines.num_rows:
            self.count += lines.num_rows
            self.previous = values[-1].as_py()

    def distrust(self, lines: pa.RecordBatch, numbers: Sequence[int], found: Found) -> None:
        """Put lines into quarantine that the fast path has read, and that a client may have written."""
        for number in numbers:
            part = LinePart(lines["at"][number].as_py(), lines["value"][number].as_py())
            self._put_aside([self._quarantined(part, reasons.TEXT_LOG)], found)

    def end(self, found: Found, text: FileText) -> None:
        """Add what is left to say of the file, and its counts.

        Lines of which the end did not come are given up, unless the next piece or a later run reads the rest of them.
        """
        self.file = text.file
        for begun in self.partial.without_end() if text.rest is Rest.NONE else ():
            self._put_aside(self._lost(begun, reasons.CUT), found)
        again = self.partial.begun() if text.rest is Rest.LATER else []
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
        found.sources.append({**counts, **text.about(again[0] if again else None)})

    def _read_line(self, line: str, part: LinePart, previous: Callable[[], Unwrapped], found: Found) -> None:
        try:
            events = events_in(line, self.layout)
        except Exception:  # noqa: BLE001 - one line may not end the reading of all others
            self._put_aside([self._quarantined(part, reasons.FAILED)], found)
            return
        self.count += len(events) - 1
        for event in events:
            of_event = part if len(events) == 1 else part._replace(raw=event.text)
            try:
                seen, rows = self._of_event(event, of_event, previous)
            except Exception:  # noqa: BLE001 - likewise
                seen, rows = [], [self._quarantined(of_event, reasons.FAILED)]
            found.seen += seen
            self._put_aside(rows, found)
            previous = partial(Unwrapped, *event)

    def _of_event(
        self, event: Unwrapped, part: LinePart, previous: Callable[[], Unwrapped]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        whole, lost = self.partial.add(event, part) if self.file.broker else (Joined(event, (part,)), None)
        rows = self._lost(lost, reasons.CUT) if lost else []
        seen: list[dict[str, Any]] = []
        said = read_unwrapped(whole.line) if whole else None
        match refusal_in(whole.line, previous) if whole and said == reasons.NO_REQUEST else said:
            case found if self.file.broker is None and (found == reasons.TEXT_LOG or not isinstance(found, str)):
                rows.append(self._quarantined(part, reasons.UNKNOWN_BROKER))
            case LoggedRequest() as request if self.text_at is not None and request.outcome == COMPLETED and whole:
                rows += self._lost(whole, reasons.TEXT_LOG)
            case LoggedRequest() as request:
                seen = [asdict(request) | {"broker": self.file.broker}]
                pa.array(seen, SEEN)  # raises for what no table can keep
            case str() as reason if whole:
                if self.text_at is None and reason == reasons.TEXT_LOG:
                    self.text_at = part.at
                rows += self._lost(whole, reason)
        return seen, rows

    def _before(self, values: pa.StringArray, number: int) -> Unwrapped:
        return unwrap(str(values[number - 1].as_py()) if number else self.previous, self.layout)

    def _put_aside(self, rows: list[dict[str, Any]], found: Found) -> None:
        """Put lines into quarantine one after the other: one line may hold a million events."""
        found.quarantined += self.quarantine.add(rows)

    def _lost(self, line: Joined, reason: str) -> list[dict[str, Any]]:
        first, *others = line.parts
        head = read_head(line.line) if reason in {reasons.CUT, reasons.TOO_LONG} else {}
        row = self._quarantined(first, reason) | head
        return [row, *(self._quarantined(part, reasons.PART) for part in others)]

    def _quarantined(self, part: LinePart, reason: str) -> dict[str, Any]:
        return {
            "source": self.file.source,
            "path": self.file.path,
            "broker": self.file.broker,
            "at": part.at,
            "reason": reason,
            "raw": part.raw[: reasons.RAW_LENGTH],
        }


def are_empty(texts: pa.StringArray) -> pa.BooleanArray:
    """Return which lines have nothing but white space."""
    return pc.or_(pc.utf8_is_space(texts), pc.equal(pc.binary_length(texts), 0))


def quarantine_rows(rows: Sequence[dict[str, Any]], time_zone: str) -> pa.RecordBatch:
    """Return rows of files of one time zone as `featuregate_fleet.evidence.columns.ROWS`."""
    rows = [{"lines": 1, **row} for row in rows]
    found = pa.array(rows, pa.struct([*QUARANTINE, ("in_utc", pa.bool_())]))
    times = placed(found.field("seen_at"), found.field("in_utc"), time_zone)
    columns = [times if name == "seen_at" else found.field(name) for name in QUARANTINE.names]
    return rows_of("quarantine", pa.StructArray.from_arrays(columns, fields=list(QUARANTINE)))
