"""A folder of logs as an input of a run: what is new in it becomes pieces, which executors read and parse."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from heapq import heapreplace
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence import paths
from featuregate_fleet.evidence.columns import ROWS
from featuregate_fleet.files.opening import BY_GZIP
from featuregate_fleet.files.parsing import parse_groups
from featuregate_fleet.files.pieces import Piece, pieces_of
from featuregate_fleet.files.storage import Listed, is_local, list_logs, spark_path, uri_of
from featuregate_fleet.files.texts import WHOLE, Beginning, KnownText, beginning_of, name_by_path, names_of, read_before
from featuregate_fleet.runs.known_sources import KnownSources, Part
from featuregate_spark.reused_worker import ReusedWorkerTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

_BATCH: Final = 2**31
"""Bytes of files in one batch: a run that is to stop ends its batch first."""
_FILES_IN_A_BATCH: Final = 20_000
_LITTLE: Final = 2**20
"""Bytes for which more than one task takes longer than it saves."""
_OF_A_TASK: Final = 2**28
"""Bytes: each task writes a file for each kind of rows, which takes longer than to read less than that."""
_OPENED_AT_ONCE: Final = 16
"""Files of a storage or a mount, which answers after some milliseconds."""
_CLOSED: Final = 100
"""Files of a storage that could not be opened before, of which each look tries this number."""
_OF_A_FILE: Final = 4096
"""Bytes that take as long as to open a file."""


class Looked(NamedTuple):
    """A file that was opened to learn which text it has."""

    file: paths.LogFile
    """Without its source yet."""
    listed: Listed
    beginning: Beginning


class Again(NamedTuple):
    """What is read once more, where that is asked."""

    files: set[str]
    """The URIs of files, whether they have changed or not."""
    lines: dict[tuple[str | None, str | None], paths.ReadAgain]
    """By the names of texts and their brokers."""


class LogFolder:
    """Reads what is new below a folder, batch by batch."""

    def __init__(
        self, logs: Path, times: paths.LogTimes, names: Pseudonyms | None = None, again: Again | None = None
    ) -> None:
        self._logs = logs.resolve()
        self.uri = uri_of(self._logs).rstrip("/")
        self._times = times
        self._names = names
        self._again = again or Again(set(), {})
        self._files: list[Listed] = []
        self.left: dict[str, str] = {}
        """What the last look has left out, as `list_logs` has it."""
        self._there: frozenset[str] = frozenset()
        self.folders: list[str] = []
        """The brokers that have a folder."""

    @property
    def unread(self) -> list[paths.UnreadFile]:
        """What the last look has left out, but files that are being written."""
        left = {path: why for path, why in sorted(self.left.items()) if why != paths.BEING_WRITTEN}
        return [paths.UnreadFile(path, paths.broker_of(path), why) for path, why in left.items()]

    def emptied(self, known: KnownSources) -> set[str]:
        """Return the folder, or those of brokers in it, in which files were read, and which have none now."""
        if not self._files:
            return {spark_path(self._logs)} if known.has_below(f"{self.uri}/") else set()
        empty = [each for each in self.folders if not self._has_files(f"{self.uri}/{each}/")]
        return {f"{spark_path(self._logs)}/{each}" for each in empty if known.has_below(f"{self.uri}/{each}/")}

    def _has_files(self, prefix: str) -> bool:
        at = bisect_left(self._files, prefix, key=attrgetter("uri"))
        return any(each.uri.startswith(prefix) for each in self._files[at : at + 1])

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
        self._files, self.left = list_logs(self._logs, datetime.now(UTC))
        names = (path.name for path in self._logs.iterdir() if path.is_dir())
        self.folders = sorted(name for name in names if paths.broker_of(f"{name}/file"))
        self._there = frozenset(each.uri for each in self._files)
        # A storage may allow to read a file without another stamp of it; a disk changes the inode, and so the stamp.
        closed = {} if is_local(self._logs) else known.unopened(self._files)
        new = [*self._new(known), *list(closed.values())[:_CLOSED]]
        while chosen := batch_of(new):
            new = new[len(chosen) :]
            found = [each for each in self._look_at(chosen) if each.beginning.is_text or each.listed.uri not in closed]
            looked = [each for each in found if not self._is_output_at_work(each)]
            if pieces := self._pieces(looked, known):
                return pieces, len(pieces) < len(looked) or bool(new)
        return [], False

    def have_read(self, sources: Iterable[Mapping[str, Any]]) -> None:
        """Note what was read once more, by the rows of kind ``source`` of a batch."""
        for row in sources:
            self._again.files.discard(row["uri"])
            if row["again"]:
                self._again.lines.pop((row["source"], row["broker"]), None)

    def _new(self, known: KnownSources) -> list[Listed]:
        new = known.new(self._files)
        if not self._again.files:
            return new
        found = {each.uri for each in new} | self._again.files
        return [each for each in self._files if each.uri in found]

    def _pieces(self, looked: Sequence[Looked], known: KnownSources) -> list[Piece]:
        """Return what is to be read of each file, but for those with a text of which another one is read first."""
        lengths = {*known.lengths(), *(len(each.beginning.head) for each in looked)}
        names = [
            names_of(each.beginning.head, name_by_path(each.listed.stamp, each.file.path), lengths) for each in looked
        ]
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
        files = [paths.log_file(self.uri, each.uri, each.size, self._times) for each in chosen]
        if is_local(self._logs):  # it answers at once: threads would take four times as long as the looks
            looks = list(map(beginning_of, files))
        else:
            with ThreadPoolExecutor(_OPENED_AT_ONCE) as threads:
                looks = list(threads.map(beginning_of, files))
        looked = [Looked(*each) for each in zip(files, chosen, looks, strict=True)]
        return sorted(looked, key=lambda each: (each.beginning.packed, each.listed.uri))

    def _piece(self, each: Looked, source: str, texts: Sequence[KnownText]) -> Piece:
        listed, packed, broker = each.listed, each.beginning.packed, each.file.broker
        file = each.file._replace(source=source)
        final = listed.still or packed or not each.beginning.is_text
        before = max(texts, default=None) if packed else read_before(file, texts)
        name = (before and before.name) or source
        again = self._again.lines.get((name, broker))
        if again is None and listed.uri in self._again.files:
            again = paths.ReadAgain()
        piece = Piece(file, final=final, stamp=listed.stamp + WHOLE * final, name=name, again=again)
        if packed:
            return piece._replace(known=frozenset(texts))
        position, tail = (before.position, before.tail) if before else (0, None)
        if again and again.lines:  # they are somewhere in the text
            return piece._replace(end=listed.size, again=again._replace(start=min(again.start, position)))
        return piece._replace(start=position, tail=tail, end=listed.size)

    def _is_output_at_work(self, each: Looked) -> bool:
        """Return whether gzip may be writing a file: its input is there, which is read in its place."""
        twin = each.listed.uri.removesuffix(BY_GZIP)
        if not each.beginning.packed or each.listed.still or twin == each.listed.uri or twin not in self._there:
            return False
        of_twin = beginning_of(paths.log_file(self.uri, twin, 0))
        return of_twin.is_text and of_twin.head.startswith(each.beginning.head)


def batch_of(new: Sequence[Listed]) -> list[Listed]:
    """Return the first files, up to the bytes of a batch, and at least one."""
    totals = list(accumulate(each.size for each in new[:_FILES_IN_A_BATCH]))
    return list(new[: max(1, bisect_right(totals, _BATCH))])


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
