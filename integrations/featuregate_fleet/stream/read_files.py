"""Which files are in the tables: asked of them once, because no other process adds files while this one may write."""

from __future__ import annotations

import json
import os
from collections import defaultdict, deque
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from featuregate_fleet.evidence.paths import LogFile, LogTimes, broker_of, log_file
from featuregate_fleet.evidence.unread import LINKED, UNLISTED
from featuregate_fleet.files.pieces import COMPRESSED, SHORT, content_of, has_grown_from
from featuregate_fleet.files.segments import PROGRESS
from featuregate_fleet.files.storage import is_local, listing, path_in_uri, stamps_below, uri_of
from featuregate_fleet.tables.folder import BatchId, Tables
from featuregate_spark.arrow_tables import to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_IN_A_TURN: Final = 10_000
_WHOLE: Final = 2**62
"""Bytes of a compressed text, which was read as a whole."""


class ReadFiles:
    """The files of a cluster that were read, and the micro-batches that did."""

    def __init__(self, read: Iterable[tuple[Any, ...]] = ()) -> None:
        """Begin with query id, batch id, URI, path, size, and content where it is known, of files as they were read."""
        self._batches: set[BatchId] = set()
        self._uris: defaultdict[str, set[str]] = defaultdict(set)
        self._sizes: dict[str, int] = {}
        self._contents: dict[str, str] = {}
        self._looked_at: dict[str, tuple[int, object]] = {}
        self._up_to: dict[tuple[str | None, str], int] = {}
        self._paths: defaultdict[tuple[str | None, str], set[str]] = defaultdict(set)
        self._to_look_at: deque[str] = deque()
        self._unseen = 0
        self._listed = -1
        for query_id, batch_id, uri, path, size, *content in read:
            self.add(BatchId(query_id, batch_id), uri, path, size, *content)

    @classmethod
    def of(cls, tables: Tables) -> ReadFiles:
        """Return those that the tables have."""
        files = tables.read("evidence_files").where("uri not like 'kafka:%'")
        in_order = files.orderBy("written_at", "batch_id")
        columns = to_arrow(in_order.select("query_id", "batch_id", "uri", "path", "size", "content")).columns
        return cls(zip(*(column.to_pylist() for column in columns), strict=True))

    def add(self, batch: BatchId, uri: str, path: str, size: int, content: str | None = None) -> None:
        """Add a file that a micro-batch has read, when it had this size and content."""
        self._batches.add(batch)
        self._uris[batch.query_id].add(uri)
        if path not in self._sizes:
            self._to_look_at.appendleft(path)
            self._unseen += 1
        before = self._contents.get(path)
        if content is not None:
            self._contents[path] = content
        if content is not None and SHORT not in content:
            text, compressed, _ = content.partition(COMPRESSED)
            known = broker_of(path), text
            self._paths[known].add(path)
            self._up_to[known] = max(_WHOLE if compressed else size, self._up_to.get(known, 0))
        is_another = None not in {before, content} and before != content
        self._sizes[path] = size if is_another else max(size, self._sizes.get(path, 0))

    def add_all(self, batch: BatchId, files: Iterable[LogFile]) -> None:
        """Add the files that a micro-batch has read."""
        for file in files:
            self.add(batch, file.uri, file.path, file.size, file.content)

    @property
    def number(self) -> int:
        """How many files were read."""
        return len(self._sizes)

    def read_up_to(self, file: LogFile, logs: Path) -> int:
        """Return up to which byte the text of a file was read under a name that it has no more; otherwise 0.

        Where the other name still has this text, the file is a copy, and counts as another one.
        """
        known = file.broker, (file.content or "").removesuffix(COMPRESSED)
        if any(_has_content(logs / path, path, known[1]) for path in self._paths[known] - {file.path}):
            return 0
        return self._up_to.get(known, 0)

    def replaced(self, logs: Path, times: Mapping[str, LogTimes]) -> list[LogFile]:
        """Return the files that have the name of one that was read, and another content, or one that is damaged."""
        found = []
        stamps = stamps_below(logs)
        for path, before in self._contents.items():
            looked_at = stamps(path)
            if looked_at is not None and looked_at != self._looked_at.get(path):
                self._looked_at[path] = looked_at
                file = log_file(path_in_uri(logs), uri_of(logs / path), looked_at[0], times)
                file = file._replace(content=content_of(file))
                if file.content is None:  # damaged, or empty, or renamed just now
                    is_another = looked_at[0] > 0 and stamps(path) == looked_at
                else:
                    is_another = not has_grown_from(before, file)
                if is_another:
                    found.append(file)
        return sorted(found)

    def has_batch(self, batch: BatchId) -> bool:
        """Return whether a micro-batch is in the tables."""
        return batch in self._batches

    def has_of_others(self, uri: str, query_id: str) -> bool:
        """Return whether another query has read a file."""
        return any(uri in uris for query, uris in self._uris.items() if query != query_id)

    def missed(self, checkpoint: Path, just_read: Iterable[str]) -> list[str]:
        """Return the files that Spark has listed since the last call, and that are not read.

        Spark leaves out those that vanished, and says nothing.
        """
        listed = list(_listed(checkpoint, self._listed))
        self._listed = max((number for number, _ in listed), default=self._listed)
        just = set(map(_plain, just_read))
        left = [uri for _, uri in listed if _plain(uri) not in just]
        read = {_plain(uri) for uris in self._uris.values() for uri in uris} if left else set()
        return sorted({uri for uri in left if _plain(uri) not in read})

    def unlisted(self, logs: Path) -> dict[str, str]:
        """Return the files that Spark leaves out of its lists without a word, and links, where they are not read.

        Each has its reason: a name that begins with ``_`` or ``.``, or a link, also one to a folder.
        """
        return dict(sorted((path, reason) for path, reason in _left_out(logs) if path not in self._sizes))

    def changed(self, logs: Path) -> list[str]:
        """Return the files of another size than when they were read: what is new in them is not read.

        A log may have grown, or a rotation has given its name to another one.

        At first all files are looked at, then the new ones, and some of the others in each turn.
        """
        count = min(max(self._unseen, _IN_A_TURN), len(self._to_look_at))
        turn = [self._to_look_at.popleft() for _ in range(count)]
        self._to_look_at.extend(turn)
        self._unseen = 0
        stamps = stamps_below(logs)
        return sorted(path for path in turn if (now := stamps(path)) is not None and now[0] != self._sizes[path])


def _listed(checkpoint: Path, after: int) -> Iterator[tuple[int, str]]:
    """Yield number and file of the entries in Spark's list of files that are newer than one of its numbers.

    Each number has a file. Each tenth one also has the entries of those before, in the same order.
    """
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        if int(log.name.partition(".")[0]) > after:
            entries = map(json.loads, reversed(log.read_text().splitlines()[1:]))
            for entry in takewhile(lambda entry: entry["batchId"] > after, entries):
                yield entry["batchId"], entry["path"]


def _plain(uri: str) -> str:
    """Return the path of a file for comparisons: Spark's own log spells it in another way than the rows."""
    path = urlsplit(uri).path
    while (decoded := unquote(path)) != path:
        path = decoded
    return path


def _has_content(place: Path, path: str, text: str) -> bool:
    """Return whether the text of a file begins with that of another one."""
    content = content_of(LogFile(uri_of(place), path, None, 0)) if place.is_file() else None
    return (content or "").removesuffix(COMPRESSED) == text


def _left_out(logs: Path) -> Iterator[tuple[str, str]]:
    """Yield links, and the files whose names Spark filters out (HadoopFSUtils), unless nothing is in them."""
    if not is_local(logs):
        for stored, (size, _) in listing(logs).items():
            if size and any(map(_is_hidden, stored.split("/"))) and not stored.endswith(f"/{PROGRESS}"):
                yield stored, UNLISTED
        return
    for folder, folders, names in os.walk(logs):
        below = Path(folder).relative_to(logs)
        hidden = any(map(_is_hidden, below.parts))
        for name in {*names, *folders} - {PROGRESS}:
            path = Path(folder, name)
            if path.is_symlink():
                yield (below / name).as_posix(), LINKED
            elif (hidden or _is_hidden(name)) and path.is_file() and path.stat().st_size:
                yield (below / name).as_posix(), UNLISTED


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")
