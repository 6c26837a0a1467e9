"""Lines of files, in batches, become rows of the table. Pure: executors run it within ``mapInArrow``.

Each line is counted once: it is a row, or it is in quarantine. A row is a line that was understood: a request, or one
of the lines about a refused request.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.columns import rows_from
from featuregate_fleet.evidence.file_parser import FileParser, FileText, Found, are_empty, quarantine_rows
from featuregate_fleet.evidence.lines.fast_path import FastLines, lines_before, read_lines
from featuregate_fleet.evidence.lines.times import reads_as_kafka
from featuregate_fleet.evidence.usage import usage_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from featuregate_fleet.evidence.paths import LogFile, ReadAgain

_LINES_AT_ONCE: Final = 4096
_BYTES_AT_ONCE: Final = 4 * 2**20
"""Lines that reach one of these do not wait for those of the next file."""


def parse_files(texts: Iterable[FileText]) -> Iterator[pa.RecordBatch]:
    """Parse the lines of files, those of small ones together; yield `featuregate_fleet.evidence.columns.ROWS`.

    Each batch has rows of one kind. Those of usage and of hours are partial sums.
    """
    waiting = _Waiting()
    for text in texts:
        parser = FileParser(text.file)
        yield from waiting.begin(parser)
        for part in text.parts():
            parser.file = text.file
            if before := lines_before(part, text.start):
                parser.follow(part.slice(0, before))
            for counts, lines in _runs(part.slice(before), text.again):
                if counts:
                    yield from waiting.add(parser, lines)
                else:
                    parser.previous = lines["value"][-1].as_py()
        waiting.ended.append((parser, text))
    yield from waiting.parse()


def _runs(lines: pa.RecordBatch, again: ReadAgain | None) -> Iterator[tuple[bool, pa.RecordBatch]]:
    if again is None or not lines.num_rows:
        yield True, lines
        return
    counts = pc.or_(pc.greater_equal(lines["at"], again.start), pc.is_in(lines["at"], pa.array(again.at, pa.int64())))
    changes = pc.indices_nonzero(pc.not_equal(counts[1:], counts[:-1])).to_pylist()
    for begin, end in pairwise([0, *(change + 1 for change in changes), lines.num_rows]):
        yield counts[begin].as_py(), lines.slice(begin, end - begin)


def parse_in_turns(
    parts: Iterable[tuple[LogFile, pa.RecordBatch]], more: Mapping[str, object]
) -> Iterator[pa.RecordBatch]:
    """Parse lines of several files that take turns; yield rows as `parse_files` does.

    The counts have each file as it came last. ``more`` is what else the rows of kind ``source`` have.
    """
    parsers: dict[tuple[str, str | None], FileParser] = {}
    waiting = _Waiting()
    for file, lines in parts:
        parser = parsers.setdefault((file.uri, file.broker), FileParser(file))
        parser.file = file
        yield from waiting.begin(parser)
        yield from waiting.add(parser, lines)
        yield from waiting.parse()  # while the file is as it came with these lines
    for parser in parsers.values():
        yield from waiting.begin(parser)
        waiting.ended.append((parser, FileText(parser.file, more=more)))
    yield from waiting.parse()


@dataclass(slots=True)
class _Waiting:
    """Lines of files that are read at once: Arrow's kernels take as long for one line as for some hundred."""

    found: Found = field(default_factory=Found)
    lines: list[tuple[FileParser, pa.RecordBatch]] = field(default_factory=list)
    ended: list[tuple[FileParser, FileText]] = field(default_factory=list)
    """Files that end with these lines."""
    count: int = 0
    size: int = 0
    kind: tuple[str, bool] | None = None
    """What the lines have in common: their time zone, and whether their brokers are known, and the fast path reads
    their times as the full parser does."""

    def begin(self, parser: FileParser) -> Iterator[pa.RecordBatch]:
        """Begin with a file, whose lines wait together with others of its kind."""
        kind = parser.file.times.time_zone, bool(parser.file.broker) and reads_as_kafka(parser.layout)
        if self.kind != kind:
            yield from self.parse()
        self.kind = kind

    def add(self, parser: FileParser, lines: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add the next lines of a file."""
        if not lines.num_rows:
            return
        self.lines.append((parser, lines))
        self.count += lines.num_rows
        self.size += lines.nbytes
        if self.count >= _LINES_AT_ONCE or self.size >= _BYTES_AT_ONCE:
            yield from self.parse()

    def parse(self) -> Iterator[pa.RecordBatch]:
        """Parse the lines that wait, and yield what is found in them and the counts of the files that end."""
        if self.kind is None:
            return
        time_zone, is_fast = self.kind
        found, fast = self.found, self._read(is_fast=is_fast)
        for parser, text in self.ended:
            parser.end(found, text)
        brokers = [(str(parser.file.broker), lines.num_rows) for parser, lines in self.lines]
        yield from usage_of(fast, brokers, found.seen, time_zone)
        if found.quarantined:
            yield quarantine_rows(found.quarantined, time_zone)
        if found.sources:
            yield rows_from("source", found.sources)
        self.found, self.lines, self.ended, self.count, self.size = Found(), [], [], 0, 0

    def _read(self, *, is_fast: bool) -> FastLines | None:
        texts = self._without_runs()
        fast = None
        if is_fast and len(texts):
            with suppress(Exception):  # one line may not end the reading of all others: each is for the full parser
                fast = read_lines(texts)
        all_read = fast.read if fast else pa.repeat(pa.scalar(value=False), len(texts))
        others = pc.indices_nonzero(pc.invert(all_read)).to_pylist()
        at, trusted = 0, [pa.array([], pa.bool_())]
        for parser, lines in self.lines:
            end = at + lines.num_rows
            numbers = [number - at for number in others[bisect_left(others, at) : bisect_left(others, end)]]
            parser.read(lines, numbers, self.found)
            read = all_read.slice(at, lines.num_rows)
            if parser.text_at is not None:
                before = pc.less(lines["at"], parser.text_at)
                parser.distrust(lines, pc.indices_nonzero(pc.and_not(read, before)).to_pylist(), self.found)
                read = pc.and_(read, before)
            trusted.append(read)
            at = end
        return fast and fast._replace(read=pa.concat_arrays(trusted))

    def _without_runs(self) -> pa.StringArray:
        texts = _texts(self.lines)
        if not pc.any(are_empty(texts)).as_py():
            for parser, _ in self.lines:
                parser.after_empty = False
            return texts
        self.lines = [(parser, parser.without_runs(lines)) for parser, lines in self.lines]
        return _texts(self.lines)


def _texts(lines: Sequence[tuple[FileParser, pa.RecordBatch]]) -> pa.StringArray:
    """Return the texts of all lines. Those of one batch are not copied."""
    texts = [batch["value"] for _, batch in lines]
    return texts[0] if len(texts) == 1 else pa.concat_arrays([*texts, pa.array([], pa.string())])
