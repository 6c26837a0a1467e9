"""A folder of logs as an input of a run: what is new in it becomes pieces, which executors read and parse."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from heapq import heapreplace
from operator import itemgetter
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence.columns import ROWS
from featuregate_fleet.evidence.paths import LogFile, LogTimes, broker_of, log_file
from featuregate_fleet.evidence.unread import BEING_WRITTEN, UnreadFile, unread_file
from featuregate_fleet.files.formats import BY_GZIP
from featuregate_fleet.files.opening import look_at_each, open_log
from featuregate_fleet.files.parsing import parse_groups
from featuregate_fleet.files.pieces import Piece, pieces_of
from featuregate_fleet.files.storage import is_local, path_in_uri
from featuregate_fleet.files.texts import Beginning, KnownText, beginning_of, has_time, ids_of, name_of, tail_at
from featuregate_fleet.runs.known_sources import WHOLE, KnownSources
from featuregate_fleet.runs.listing import Listed, Listing, list_logs
from featuregate_fleet.runs.parts import Part
from featuregate_spark.reused_worker import ReusedWorkerTask

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

_BATCH: Final = 2**31
"""Bytes of files in one batch: a run that is to stop ends its batch first."""
_FILES_IN_A_BATCH: Final = 20_000
_LITTLE: Final = 2**20
"""Bytes for which more than one task takes longer than it saves."""
_OF_A_TASK: Final = 2**26
_OF_A_FILE: Final = 4096
"""Bytes that take as long as to open a file."""


class Looked(NamedTuple):
    """A file that was opened to learn which text it has."""

    file: LogFile
    """Without its source yet."""
    listed: Listed
    beginning: Beginning | None

    @property
    def packed(self) -> bool:
        """Whether it is compressed."""
        return self.beginning is not None and self.beginning.packed


class LogFolder:
    """Reads what is new below a folder, batch by batch."""

    def __init__(
        self, logs: Path, times: LogTimes, names: Pseudonyms | None = None, again: Collection[str] = ()
    ) -> None:
        """``again`` has the URIs of files that are read from their beginnings once more."""
        self._logs = logs.resolve()
        self._times = times
        self._names = names
        self._again = set(again)
        self.listing = Listing([], {})
        """The listing of the last look."""
        self._there: frozenset[str] = frozenset()
        self.folders: list[str] = []
        """The brokers that have a folder."""

    @property
    def unread(self) -> list[UnreadFile]:
        """What the last look has left out, but files that are being written."""
        left = self.listing.left
        return [unread_file(path, left[path]) for path in sorted(left) if left[path] != BEING_WRITTEN]

    def part(self, spark: SparkSession, known: KnownSources) -> Part | None:
        """Return what is new, up to the bytes of a batch; None where nothing is."""
        pieces, more = self.look(known)
        if not pieces:
            return None
        groups = divide([part for piece in pieces for part in pieces_of(piece)], spark.sparkContext.defaultParallelism)
        read = ReusedWorkerTask(partial(parse_groups, groups=groups, names=self._names))
        numbers = spark.range(0, len(groups), 1, len(groups))
        return Part(rows=numbers.mapInArrow(read, from_arrow_schema(ROWS)), more=more)

    def look(self, known: KnownSources) -> tuple[list[Piece], bool]:
        """List the folder; return what is to be read of each file that has changed, and whether there is more."""
        self.listing, self.folders = list_logs(self._logs, datetime.now(UTC)), sorted(folders_of_brokers(self._logs))
        self._there = frozenset(each.uri for each in self.listing.files)
        new = self._new(known)
        while chosen := batch_of(new):
            new = new[len(chosen) :]
            looked = [each for each in self._look_at(chosen) if not self._is_output_at_work(each)]
            if pieces := self._pieces(looked, known):
                return pieces, len(pieces) < len(looked) or bool(new)
        return [], False

    def have_read(self, again: Collection[str]) -> None:
        """Note that the files with these URIs were read once more, and that this is committed."""
        self._again.difference_update(again)

    def _new(self, known: KnownSources) -> list[Listed]:
        new = known.new(self.listing.files)
        if not self._again:
            return new
        found = {each.uri for each in new} | self._again
        return [each for each in self.listing.files if each.uri in found]

    def _pieces(self, looked: Sequence[Looked], known: KnownSources) -> list[Piece]:
        """Return what is to be read of each file, but for those with a text of which another one is read first."""
        lengths = {*known.lengths(), *(len(each.beginning.head) for each in looked if each.beginning)}
        names = [names_of(each, lengths) for each in looked]
        texts = known.texts({name for of_file in names for name in of_file})
        taken: set[tuple[str | None, str]] = set()
        pieces: list[Piece] = []
        for each, of_file in zip(looked, names, strict=True):
            keys = [(each.file.broker, name) for name in of_file]
            if taken.isdisjoint(keys):
                pieces.append(self._piece(each, of_file[0], [text for key in keys for text in texts.get(key, ())]))
            taken.add(keys[0])
        return pieces

    def _look_at(self, chosen: Sequence[Listed]) -> list[Looked]:
        """Open the files. Plain ones are first: a compressed one may have the text of one of them."""
        root = path_in_uri(self._logs)
        files = [log_file(root, each.uri, each.size, self._times) for each in chosen]
        # A disk answers at once: threads would take four times as long as the looks.
        looks = map(beginning_of, files) if is_local(self._logs) else look_at_each(beginning_of, files)
        looked = [Looked(*each) for each in zip(files, chosen, looks, strict=True)]
        return sorted(looked, key=lambda each: (each.packed, each.listed.uri))

    def _piece(self, each: Looked, source: str, texts: Sequence[KnownText]) -> Piece:
        listed, packed = each.listed, each.packed
        again = listed.uri in self._again
        file = each.file._replace(source=source)
        final = listed.still or packed or each.beginning is None
        piece = Piece(file, final=final, stamp=listed.stamp + WHOLE * final, again=again)
        if not packed:
            before = read_before(file, texts)
            start, tail = (before.position, before.tail) if before and not again else (0, None)
            return piece._replace(start=start, tail=tail, end=listed.size, name=name_of(before, source))
        return piece._replace(known=frozenset(texts))

    def _is_output_at_work(self, each: Looked) -> bool:
        """Return whether gzip may be writing a file: its input is there, which is read in its place."""
        twin = each.listed.uri.removesuffix(BY_GZIP)
        if not each.packed or each.listed.still or twin == each.listed.uri or twin not in self._there:
            return False
        head = each.beginning.head if each.beginning else b""
        of_twin = beginning_of(log_file(path_in_uri(self._logs), twin, 0))
        return of_twin is not None and of_twin.head.startswith(head)


def folders_of_brokers(logs: Path) -> set[str]:
    """Return the names of the folders below ``logs`` that are node ids."""
    return {path.name for path in logs.iterdir() if path.is_dir() and broker_of(f"{path.name}/file")}


def batch_of(new: Sequence[Listed]) -> list[Listed]:
    """Return the first files, up to the bytes of a batch."""
    total = 0
    chosen: list[Listed] = []
    for each in new[:_FILES_IN_A_BATCH]:
        total += each.size
        if chosen and total > _BATCH:
            break
        chosen.append(each)
    return chosen


def names_of(each: Looked, lengths: Collection[int]) -> list[str]:
    """Return what may name the text of a file, the longest beginning first; the first one names it from now on.

    A text without the time of an event may be that of any log. It is known by its path and inode alone.
    """
    by_path = f"{each.listed.stamp.rpartition(' ')[2]} {each.file.path}"
    head = each.beginning.head if each.beginning else b""
    return [*ids_of(head, lengths), by_path] if has_time(head) else [by_path]


def read_before(file: LogFile, texts: Sequence[KnownText]) -> KnownText | None:
    """Return up to which byte a file of plain text was read, under any name: where it has what was before that."""
    try:
        with open_log(file) as opened:
            found = [text for text in texts if text.position <= file.size and has_tail(opened, text)]
            return max(found, default=None)
    except OSError:  # its reader says so
        return None


def has_tail(opened: IO[bytes], text: KnownText) -> bool:
    """Return whether an open file has the bytes before a position that a text had."""
    return tail_at(opened, text.position) == text.tail


def divide(pieces: Sequence[Piece], cores: int) -> list[list[Piece]]:
    """Divide pieces among tasks by their bytes: one task for little, and up to eight for each core."""
    sizes = [max(_OF_A_FILE, (piece.file.size if piece.end is None else piece.end - piece.start)) for piece in pieces]
    wanted = 1 if sum(sizes) < _LITTLE else max(cores, min(8 * cores, sum(sizes) // _OF_A_TASK))
    groups: list[list[Piece]] = [[] for _ in range(min(wanted, len(pieces)))]
    loads = [(0, number) for number in range(len(groups))]  # a heap
    for size, piece in sorted(zip(sizes, pieces, strict=True), key=itemgetter(0), reverse=True):
        load, number = loads[0]
        heapreplace(loads, (load + size, number))
        groups[number].append(piece)
    return groups
