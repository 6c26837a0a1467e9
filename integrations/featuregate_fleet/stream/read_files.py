"""Which files are in the tables: asked of them once, because no other process adds files while this one may write."""

from __future__ import annotations

import os
from contextlib import contextmanager
from errno import ENOSPC
from functools import partial
from itertools import islice
from sqlite3 import SQLITE_FULL, OperationalError, connect
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit
from weakref import finalize

from pyspark.sql import functions as f

from featuregate_fleet.evidence.paths import LogFile, LogTimes, broker_of, log_file
from featuregate_fleet.files.contents import COMPRESSED, SHORT, text_of, twin_of
from featuregate_fleet.files.opening import look_at_each
from featuregate_fleet.files.storage import path_in_uri, stamps_below, uri_of
from featuregate_fleet.stream.accounted_files import AccountedFiles
from featuregate_fleet.stream.last_look import LastLook
from featuregate_fleet.stream.left_out import left_out
from featuregate_fleet.stream.listed_files import listed_files
from featuregate_fleet.stream.other_contents import KnownFile, has_content, is_same, other_file
from featuregate_fleet.tables.folder import BatchId, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

FORGOTTEN: Final = ""
"""In place of the URI: the row has the counts of the files that `fleet retain` has taken from the list."""
_ADDED_AT_ONCE: Final = 1000
_IN_A_TURN: Final = 10_000
_WHOLE: Final = 2**62
"""Bytes of a compressed text, which was read as a whole."""
_SCHEMA: Final = """
pragma journal_mode = off;
pragma synchronous = off;
pragma cache_size = -16384;
create table files (
    number integer primary key, path text unique, size integer, content text, time integer, looked_at text
);
create table uris (uri text, query_id text, plain text, primary key (uri, query_id)) without rowid;
create index plain_uris on uris (plain);
create table forgotten (plain text primary key, uri text) without rowid;
create table texts (text text, broker text, path text, up_to integer, primary key (text, broker, path)) without rowid;
"""
_ADD: Final = """
insert into files (path, size, content, time) values (?, ?, ?, ?) on conflict (path) do update
set size = case when content <> excluded.content then excluded.size else max(size, excluded.size) end,
    content = coalesce(excluded.content, content), time = excluded.time
"""
_ADD_URI: Final = "insert or ignore into uris values (?, ?, ?)"
_ADD_TEXT: Final = """
insert into texts values (?, ?, ?, ?) on conflict (text, broker, path) do update
set up_to = max(up_to, excluded.up_to)
"""
_OF_TEXT: Final = "select path, up_to from texts where text = ? and broker = ?"
_CONTENTS: Final = """
select path, content, size, looked_at, time from files where content is not null and path > ? order by path limit 1000
"""
_LOOKED_AT: Final = "update files set looked_at = ? where path = ?"
_COME_BACK: Final = "select uri from forgotten where plain not in (select plain from uris)"
_TURN: Final = "select number, path, size from files where number > ? and number <= ? order by number limit ?"


class _Read(NamedTuple):
    """A file as it was read."""

    query_id: str
    batch_id: int
    uri: str
    path: str
    size: int
    content: str | None = None
    time: int | None = None


class ReadFiles:
    """The files of a cluster that were read, and the micro-batches that did.

    They are in a temporary file of this process, and not in its memory: there may be millions.
    """

    def __init__(self, read: Iterable[tuple[Any, ...]] = ()) -> None:
        """Begin with query id, batch id, URI, path, size, and content and time where they are known, as they were read.

        ``time`` is when the row was written, or soon before the content was looked at, in microseconds since 1970.
        """
        self._files = connect("", check_same_thread=False, isolation_level=None)  # SQLite deletes it at its end
        finalize(self, self._files.close)  # Python 3.13 warns of a connection that is left open
        self._files.executescript(_SCHEMA)
        self._batches: set[BatchId] = set()
        self._number = self._turn = self._seen = 0
        self._listed: int | None = None
        self._accounted = AccountedFiles()
        self._look = LastLook()
        self.waiting: set[str] = set()
        """The files that gzip is writing: one that was read may have had the name of one of them."""
        self.shortened: int | None = None
        """When files were taken from the list, in microseconds since 1970."""
        self._add_each(read)

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """Write to the temporary file once."""
        self._files.execute("begin")
        try:
            yield
        except OperationalError as error:
            if error.sqlite_errorcode == SQLITE_FULL:
                raise OSError(ENOSPC, f"the list of files that were read does not fit below TMPDIR: {error}") from error
            raise
        except BaseException:
            self._files.execute("rollback")
            raise
        self._files.execute("commit")

    @classmethod
    def of(cls, tables: Tables, but: str | None = None) -> ReadFiles:
        """Return those that the tables have, without those of one query."""
        columns = ("query_id", "batch_id", "uri", "path", "size", "content")
        files = tables.read("evidence_files").where("uri not like 'kafka:%'").orderBy("written_at", "batch_id")
        others = files if but is None else files.where(f.col("query_id") != but)
        rows = others.select(*columns, f.unix_micros("written_at").alias("time")).toLocalIterator()
        found = cls()
        found._add_each(found._but_forgotten(rows))
        return found

    def _but_forgotten(self, rows: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of files, and keep when others were taken from the list."""
        for row in rows:
            if row["uri"] == FORGOTTEN:
                self.shortened = row["time"]
            else:
                yield row

    def add_all(self, batch: BatchId, files: Iterable[LogFile], time: int) -> None:
        """Add the files that a micro-batch has read, whose contents were looked at after this time."""
        self._add_each((*batch, file.uri, file.path, file.size, file.content, time) for file in files)

    def _add_each(self, read: Iterable[tuple[Any, ...]]) -> None:
        rows = iter(read)
        with self._at_once():
            while some := [_Read(*row) for row in islice(rows, _ADDED_AT_ONCE)]:
                self._batches |= {BatchId(row.query_id, row.batch_id) for row in some}
                self._files.executemany(_ADD, ((row.path, row.size, row.content, row.time) for row in some))
                self._files.executemany(_ADD_URI, ((row.uri, row.query_id, path_of_uri(row.uri)) for row in some))
                self._files.executemany(
                    _ADD_TEXT, (_text_read(row) for row in some if SHORT not in (row.content or SHORT))
                )
            (self._number,) = self._files.execute("select count(*) from files").fetchone()

    @property
    def number(self) -> int:
        """How many files were read."""
        return self._number  # a thread that shows it asks, which must not use the connection

    def read_up_to(self, file: LogFile, logs: Path) -> int:
        """Return up to which byte the text of a file was read under a name that it has no more; otherwise 0.

        Where the other name still has this text, the file is a copy, and counts as another one, but not where gzip has
        made one of the other: it is at work, or keeps both.
        """
        text = text_of(file.content) or ""
        twin = twin_of(file.path)
        of_twin = self._read_as(twin, text)
        known = self._files.execute(_OF_TEXT, (text, file.broker or "")).fetchall()
        if any(has_content(logs / path, path, text) for path, _ in known if path not in {file.path, twin}):
            return of_twin
        return max((up_to for _, up_to in known), default=of_twin)

    def _read_as(self, path: str, text: str) -> int:
        """Return up to which byte a text was read from a file; otherwise 0."""
        row = self._files.execute("select size, content from files where path = ?", (path,)).fetchone()
        size, content = row or (0, None)
        if not content or text_of(content) != text:
            return 0
        return _WHOLE if content.endswith(COMPRESSED) else int(size)

    def replaced(self, logs: Path, times: Mapping[str, LogTimes]) -> list[LogFile]:
        """Return the files that have the name of one that was read, and another content, or one that is damaged.

        Also those with the name of one that was forgotten: Spark takes them for the files that it has listed before.
        """
        stamps = stamps_below(logs)
        found = look_at_each(lambda one: other_file(logs, one, stamps, times), self._to_look_at(logs, stamps))
        return sorted(file for file in found if file is not None)

    def _to_look_at(self, logs: Path, stamps: Callable[[str], tuple[int, object] | None]) -> Iterator[KnownFile]:
        for some in self._known_contents():
            seen: list[tuple[str, str]] = []
            for path, content, size, looked_at, time in some:
                if (stamp := stamps(path)) is None or looked_at == repr(stamp):
                    continue
                seen.append((repr(stamp), path))
                known_at = max(time or 0, self._look.of_file(logs, path))
                if looked_at is not None or not is_same(size, known_at, stamp):
                    yield KnownFile(path, content, stamp)
            self._files.executemany(_LOOKED_AT, seen)
        for (uri,) in self._files.execute(_COME_BACK).fetchall():
            path = log_file(path_in_uri(logs), uri, 0).path
            if (stamp := stamps(path)) is not None:
                yield KnownFile(path, None, stamp)

    def _known_contents(self) -> Iterator[list[tuple[str, str, int, str | None, int | None]]]:
        last = ""
        while rows := self._files.execute(_CONTENTS, (last,)).fetchall():
            yield rows
            last = rows[-1][0]

    def have_looked(self, checkpoint: Path, at: int) -> None:
        """Keep, for later runs, that what `replaced` has returned at a time is in the tables.

        ``at`` is in microseconds since 1970. Without it each run would open all files that were read soon after they
        were written.
        """
        self._look.keep(checkpoint, at)

    def has_batch(self, batch: BatchId) -> bool:
        """Return whether a micro-batch is in the tables."""
        return batch in self._batches

    def has_of_others(self, uri: str, query_id: str) -> bool:
        """Return whether another query has read a file."""
        found = self._files.execute("select 1 from uris where uri = ? and query_id <> ?", (uri, query_id))
        return found.fetchone() is not None

    def missed(self, checkpoint: Path) -> list[str]:
        """Return the files that Spark has listed since the last call, or run, and that are not read.

        Spark leaves out those that vanished, and says nothing.
        """
        if self._listed is None:
            kept = AccountedFiles.kept_in(checkpoint)
            self._accounted = kept or self._accounted
            self._look = LastLook.kept_in(checkpoint)
            self._listed = (kept or self._without_mark(checkpoint)).number
            if self.shortened is not None:
                self._remember(uri for number, uri in listed_files(checkpoint, -1) if number <= self._listed)
        missed, last = {uri for uri in self._accounted.left_out if not self._has_uri(uri)}, self._listed
        for number, uri in listed_files(checkpoint, self._listed):
            last = max(last, number)
            if not self._has_uri(uri):
                missed.add(uri)
        self._listed = last
        return sorted(missed)

    def _without_mark(self, checkpoint: Path) -> AccountedFiles:
        """Return that nothing was compared, or all of a list of which files were forgotten.

        Those would look like files that were never read. The ones that are there are read, as files that come back.
        """
        return AccountedFiles() if self.shortened is None else AccountedFiles.all_of(checkpoint)

    @property
    def left_out(self) -> frozenset[str]:
        """The files that `missed` returns again, because they were left out before."""
        return frozenset(self._accounted.left_out)

    def _remember(self, listed: Iterable[str]) -> None:
        """Keep the files that Spark will not list again, and that are not in the tables any more."""
        with self._at_once():
            for uri in listed:
                if not self._has_uri(uri):
                    self._files.execute("insert or ignore into forgotten values (?, ?)", (path_of_uri(uri), uri))

    def _has_uri(self, uri: str) -> bool:
        return self._files.execute("select 1 from uris where plain = ?", (path_of_uri(uri),)).fetchone() is not None

    def account_for(self, checkpoint: Path, left_out: Iterable[str]) -> None:
        """Keep that all files which `missed` has looked at are in the tables, for later runs, but those left out.

        They are behind links, or pipes and the like: a file may get the name later, and Spark will not list it again.
        """
        accounted = self._accounted if self._listed is None else AccountedFiles(self._listed, tuple(left_out))
        if accounted != self._accounted:
            accounted.keep(checkpoint)
            self._accounted = accounted

    def unlisted(self, logs: Path, encoding: str) -> dict[str, str]:
        """Return the files that Spark leaves out of its lists without a word, and links, where they are not read.

        Each has its reason, as for `featuregate_fleet.stream.left_out.left_out`. Bytes that are not text are escaped: a
        table cannot keep them.
        """
        found = ((path, reason) for path, reason in left_out(logs, encoding) if not self.has_path(path))
        return dict(sorted((os.fsencode(path).decode(errors="backslashreplace"), reason) for path, reason in found))

    def has_path(self, path: str) -> bool:
        """Return whether a file with this name was read. A name that is not text is in no table."""
        found = self._files.execute("select 1 from files where path = cast(? as text)", (os.fsencode(path),))
        return found.fetchone() is not None

    def as_it_was(self, path: str, logs: Path) -> LogFile | None:
        """Return a file with the size and the content that it had when it was read; None for one that was not."""
        found = self._files.execute("select size, content from files where path = ?", (path,))
        file = partial(LogFile, uri_of(logs / path), path, broker_of(path))
        return next((file(size, content=content) for size, content in found), None)

    def changed(self, logs: Path) -> list[str]:
        """Return the files of another size than when they were read: what is new in them is not read.

        A log may have grown, or a rotation has given its name to another one.

        At first all files are looked at, then the new ones, and some of the others in each turn.
        """
        stamps = stamps_below(logs)
        sizes = (one for one in self._next() if one[0] not in self.waiting)
        return sorted(path for path, size in sizes if (now := stamps(path)) is not None and now[0] != size)

    def _next(self) -> Iterator[tuple[str, int]]:
        """Yield the files that are new, and some of the others."""
        (last,) = self._files.execute("select coalesce(max(number), 0) from files").fetchone()
        seen, self._seen = self._seen, last
        yield from self._files.execute("select path, size from files where number > ?", (seen,))
        others = max(0, _IN_A_TURN - (last - seen))
        turn = self._files.execute(_TURN, (self._turn, seen, others)).fetchall()
        turn += self._files.execute(_TURN, (0, min(seen, self._turn), others - len(turn))).fetchall()
        self._turn = turn[-1][0] if turn else self._turn
        yield from ((path, size) for _, path, size in turn)


def _text_read(row: _Read) -> tuple[str, str, str, int]:
    """Return the text of a file, its broker and path, and up to which byte it was read."""
    text, compressed, _ = str(row.content).partition(COMPRESSED)
    return text, broker_of(row.path) or "", row.path, _WHOLE if compressed else row.size


def path_of_uri(uri: str) -> str:
    """Return the path of a file for comparisons: Spark's own log spells it in another way than the rows."""
    path = urlsplit(uri).path
    while (decoded := unquote(path)) != path:
        path = decoded
    return path
