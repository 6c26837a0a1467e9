"""Lines of files, in batches, become rows of the tables. Pure: executors run it within ``mapInArrow``.

Each line is counted once: it is a row, or it is in quarantine. A row is a line that was understood: a request, or one
of the lines about a refused request.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.columns import EVIDENCE_FILES, PARSED_USAGE, parsed_rows
from featuregate_fleet.evidence.lines.cut_lines import read_head
from featuregate_fleet.evidence.lines.envelopes import Unwrapped, unwrap
from featuregate_fleet.evidence.lines.fast_path import FIELDS, FastLines, nothing_read, read_lines
from featuregate_fleet.evidence.lines.layouts import Layout, reads_as_kafka
from featuregate_fleet.evidence.lines.log_lines import KeptLines, connection_in, line_rows
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
from featuregate_fleet.evidence.paths import LogFile, LogTimes
from featuregate_fleet.evidence.quarantined_lines import QuarantinedLines
from featuregate_fleet.evidence.reasons import CUT, NO_REQUEST, PARSER, PART, RAW_LENGTH, TOO_LONG, UNKNOWN_BROKER
from featuregate_fleet.evidence.sums import summed
from featuregate_fleet.evidence.text import LINES, LONGEST, Unreadable, lines_before
from featuregate_fleet.evidence.wall_times import placed, to_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_SEEN: Final = pa.struct([*FIELDS, ("outcome", pa.string()), ("in_utc", pa.bool_())])
_OF_LINE: Final = ("client_id", "client_host")
_COMPLETED: Final = "completed"
_REFUSED: Final = "refused"
_OF_FILE: Final = ("uri", "path", "broker", "time_zone", "layout", "not_after")
_HEAD: Final = 2**16
"""Characters of a line that is too long."""


def parse_file(
    file: LogFile,
    parts: Iterable[pa.RecordBatch | Unreadable],
    kept: KeptLines = KeptLines.NONE,
    start: int = 0,
    *,
    goes_on: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Parse the lines of one file, or of a piece of it, which are batches of `LINES` in order; yield `PARSED`.

    A line before ``start`` is of another piece: it counts there, and the next line may be the reason of its refusal, or
    another part of it. ``goes_on`` says that there is a next piece, which joins the parts of the last line.
    """
    parser = _Parser(file, kept)
    for part in parts:
        if isinstance(part, Unreadable):
            yield from parser.give_up(part)
            continue
        if before := lines_before(part, start):
            parser.follow(part.slice(0, before))
        if before < part.num_rows:
            yield from parser.parse(part.slice(before))
    if not goes_on:
        yield from parser.end()
    yield from parser.counted()


def parse_in_turns(
    parts: Iterable[tuple[LogFile, pa.RecordBatch]], kept: KeptLines = KeptLines.NONE
) -> Iterator[pa.RecordBatch]:
    """Parse lines of several files that take turns; yield `PARSED`. The counts have each file as it came last."""
    parsers: dict[tuple[str, str | None], _Parser] = {}
    for file, lines in parts:
        parser = parsers.setdefault((file.uri, file.broker), _Parser(file, kept))
        parser.file = file
        yield from parser.parse(lines)
    for parser in parsers.values():
        yield from parser.end()
        yield from parser.counted()


def parse_quarantined(rows: Iterable[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Parse lines again that were put into quarantine whole, as rows of ``QUARANTINE``; yield `PARSED`.

    A file's counts change by what is no longer in quarantine.
    """
    for (uri, path, broker, *times, not_after), of_file in groupby(rows, itemgetter(*_OF_FILE)):
        lines = list(of_file)
        values = [(row["raw"], row["at"], len(row["raw"].encode())) for row in lines]
        batch = pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(zip(*values, strict=True), LINES, strict=True)],
            schema=LINES,
        )
        file = LogFile(uri, path, broker, 0, LogTimes(*times), not_after=not_after)
        parser = _Parser(file, text_log=any(row["text_log"] for row in lines))
        yield from parser.parse(batch)
        yield from parser.end()
        yield from parser.counted(again=sum(row["lines"] for row in lines))


@dataclass(slots=True)
class _Found:
    """What the full parser has found."""

    seen: list[dict[str, Any]] = field(default_factory=list)
    """Requests and refusals."""
    quarantined: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _Parser:
    """Parses the lines of one file, and counts them."""

    file: LogFile
    kept: KeptLines = KeptLines.NONE
    previous: str = ""
    after_empty: bool = False
    read: int = 0
    text_log: bool = False
    quarantine: QuarantinedLines = field(default_factory=QuarantinedLines)
    partial: PartialLines = field(default_factory=PartialLines)

    @property
    def _layout(self) -> Layout | None:
        return Layout(self.file.times.layout, self.file.not_after) if self.file.times.layout else None

    def parse(self, lines: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Parse the next lines. A run of empty ones counts as one."""
        lines = self._without_runs(lines)
        if not lines.num_rows:
            return
        is_fast = self.file.broker and reads_as_kafka(self._layout)
        fast = read_lines(lines["value"]) if is_fast else nothing_read(lines.num_rows)
        others = pc.indices_nonzero(pc.invert(fast.read)).to_pylist()
        found = self._read_others(lines, others)
        yield from self._rows(found, fast)
        if self.kept is not KeptLines.NONE:
            of_line = {row["line"]: row for row in found.seen}
            others = [of_line.get(number) for number in range(lines.num_rows)]
            yield parsed_rows("log_lines", line_rows(self.file, lines, fast.rows(), others, self.kept))
        self.read += lines.num_rows
        self.previous = lines["value"][-1].as_py()

    def _without_runs(self, lines: pa.RecordBatch) -> pa.RecordBatch:
        """Leave out each empty line that follows one: some kilobytes of gzip can hold millions."""
        texts = lines["value"]
        empty = pc.or_(pc.utf8_is_space(texts), pc.equal(pc.binary_length(texts), 0))
        after, self.after_empty = pa.array([self.after_empty]), empty[-1].as_py()
        if not pc.any(empty).as_py():
            return lines
        return lines.filter(pc.invert(pc.and_(empty, pa.concat_arrays([after, empty[:-1]]))))

    def follow(self, lines: pa.RecordBatch) -> None:
        """Keep what the next line may belong together with: the last one of some lines, and those that have begun."""
        for row in lines.to_pylist():
            self.partial.add(unwrap(row["value"], self._layout), Part(row["at"], row["length"], row["value"]))
        self.previous = lines["value"][-1].as_py()
        self.after_empty = not self.previous.strip()

    def end(self) -> Iterator[pa.RecordBatch]:
        """Give up the lines of which the end did not come."""
        found = _Found()
        for begun in self.partial.without_end():
            self._lost(begun, CUT, found)
        yield from self._rows(found, nothing_read(0))

    def _rows(self, found: _Found, fast: FastLines) -> Iterator[pa.RecordBatch]:
        if self.file.broker:
            yield from _usage(self.file, fast, found.seen)
        yield from self.quarantine.add(self.file, found.quarantined)

    def give_up(self, rest: Unreadable) -> Iterator[pa.RecordBatch]:
        """Put the rest of the file into quarantine, as one line."""
        yield from self.quarantine.add(self.file, [self._row(rest.at, rest.reason, rest.why, whole=False)])
        self.read += 1

    def counted(self, again: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield what is left to say of the file, and its counts.

        ``again`` is the number of lines that were counted in quarantine before.
        """
        yield from self.quarantine.end(self.file)
        counts = {
            "path": self.file.path,
            "uri": self.file.uri,
            "broker": self.file.broker,
            "size": self.file.size,
            "read": self.read - again,
            "rows": self.read - self.quarantine.count,
            "quarantined": self.quarantine.count - again,
            "content": self.file.content,
            "text_log": self.text_log,
        }
        yield parsed_rows("evidence_files", pa.array([counts], pa.struct(list(EVIDENCE_FILES))))

    def _read_others(self, lines: pa.RecordBatch, numbers: list[int]) -> _Found:
        """Read the lines with these numbers, which the fast path has left."""
        found, values, layout = _Found(), lines["value"], self._layout
        texts, ats, lengths = lines.take(pa.array(numbers, pa.int64())).columns
        for number, text, at, length in zip(numbers, texts, ats.to_pylist(), lengths.to_pylist(), strict=True):
            line = text.as_py()  # one at a time: they may be long
            part = Part(at, length, line)
            unwrapped = unwrap(line[:_HEAD] if length > LONGEST else line, layout)
            self.text_log = self.text_log or is_of_text_log(unwrapped.text)
            if length > LONGEST:
                self._lost(Joined(unwrapped, (part,)), TOO_LONG, found)
                continue
            whole, lost = self.partial.add(unwrapped, part) if self.file.broker else (Joined(unwrapped), None)
            if lost:
                self._lost(lost, CUT, found)
            match _understand(whole.line, partial(self._before, values, number)) if whole else None:
                case LoggedRequest() | Refusal() | None if self.file.broker is None:
                    found.quarantined.append(self._quarantined(part, UNKNOWN_BROKER))
                case LoggedRequest() as request:
                    in_text = whole.line.text if whole and self.kept is not KeptLines.NONE else ""
                    of_line = {"outcome": _COMPLETED, "line": number, "connection": connection_in(in_text)}
                    found.seen.append(asdict(request) | of_line)
                case Refusal() as refusal:
                    found.seen.append(refusal._asdict() | {"outcome": _REFUSED, "line": number})
                case str() as reason if whole:
                    self._lost(Joined(whole.line, (*whole.parts, part)), reason, found)
        return found

    def _before(self, values: pa.StringArray, number: int) -> str:
        return str(values[number - 1].as_py()) if number else self.previous

    def _lost(self, line: Joined, reason: str, found: _Found) -> None:
        """Put a line into quarantine, with its parts, and keep what its head says."""
        first, *others = line.parts
        head = read_head(line.line) if reason in {CUT, TOO_LONG} else None
        found.quarantined.append(self._quarantined(first, reason, whole=not others) | (head._asdict() if head else {}))
        found.quarantined += [self._quarantined(part, PART, whole=False) for part in others]

    def _quarantined(self, part: Part, reason: str, *, whole: bool = True) -> dict[str, Any]:
        kept = len(part.raw) <= RAW_LENGTH and part.length <= LONGEST
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


def _understand(line: Unwrapped, previous: Callable[[], str]) -> LoggedRequest | Refusal | str | None:
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
            before = before or unwrap(previous(), line.layout)
            if (refusal := refusal_of(one.text, before)) is not None:
                return refusal
            # Where a file or a micro-batch begins with a reason, the line before it with the time is not here.
            understood = None if repeats_refusal(one.text, before.text) else CUT
    return understood


def _usage(file: LogFile, fast: FastLines, others: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Count the requests of one broker."""
    if pc.any(fast.read).as_py():
        yield parsed_rows("api_usage", _counted(file, fast))
    if others:
        table = pa.Table.from_struct_array(pa.array(others, _SEEN))
        times = placed(table["time"], table["in_utc"], file.times.time_zone)
        columns = {
            "broker": pa.repeat(pa.scalar(file.broker), len(table)),
            "hour": pc.floor_temporal(times, unit="hour"),
            "count": pa.repeat(pa.scalar(1, pa.int64()), len(table)),
            "first_seen": times,
            "last_seen": times,
        }
        for name, column in columns.items():
            table = table.append_column(name, column)
        yield parsed_rows("api_usage", summed(table))


def _counted(file: LogFile, fast: FastLines) -> pa.StructArray:
    """Count the lines of the fast path by the numbers of their texts, which is faster than by the texts."""
    lines = pa.table({"api": fast.api.index, "client": fast.client.index})
    for name in _OF_LINE:
        lines = lines.append_column(name, getattr(fast, name))
    lines = lines.append_column("time", to_utc(pa.chunked_array([fast.time]), file.times.time_zone))
    lines = lines.append_column("hour", pc.floor_temporal(lines["time"], unit="hour")).filter(fast.read)
    counts = [("time", "count"), ("time", "min"), ("time", "max")]
    by_texts = lines.group_by(["api", "client", *_OF_LINE, "hour"], use_threads=False)  # a task has one core
    counted = by_texts.aggregate(counts).combine_chunks().to_batches()[0]
    columns = {
        "broker": pa.repeat(pa.scalar(file.broker), len(counted)),
        "hour": counted["hour"],
        "outcome": pa.repeat(pa.scalar(_COMPLETED), len(counted)),
        **{name: counted[name] for name in _OF_LINE},
        "count": counted["time_count"],
        "first_seen": counted["time_min"],
        "last_seen": counted["time_max"],
        "text_log": pa.nulls(len(counted), pa.bool_()),
    }
    for texts, numbers in ((fast.api, counted["api"]), (fast.client, counted["client"])):
        columns |= {name: texts.of(name, numbers) for name in texts.values.type.names}
    return pa.StructArray.from_arrays([columns[name] for name in PARSED_USAGE.names], fields=list(PARSED_USAGE))
