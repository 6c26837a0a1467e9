"""Names the files of which requests are missing, or that are left unread: each once, with what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from featuregate.printable import printable
from featuregate_fleet.evidence.columns import FROM_LOGS
from featuregate_fleet.evidence.lines.layouts import layouts_for
from featuregate_fleet.evidence.paths import OF_TOPICS
from featuregate_fleet.evidence.reasons import (
    LAYOUTS,
    NOTHING_MISSING,
    OF_FILES,
    TEXT_LOG,
    UNKNOWN_BROKER,
    UNKNOWN_LAYOUT,
    VANISHED,
)
from featuregate_fleet.evidence.unread import BEING_WRITTEN, LINKED, SPECIAL, UNLISTED, MissingRequests, some_of
from featuregate_fleet.runs.known_sources import WHOLE
from featuregate_fleet.tables.source_reader import file_at

if TYPE_CHECKING:
    from featuregate_fleet.tables.evidence_table import EvidenceTable

_HEAD: Final = 160
"""Characters of a line that a message shows: its layout, and not yet who sent the request."""
_WHY: Final = {
    LINKED: "symbolic links are not followed: put the file itself there",
    UNLISTED: "it cannot be listed: give this user the permission to list and to enter its folder",
    BEING_WRITTEN: "such names are those of files that are being written",
    SPECIAL: "pipes, sockets and devices are not read: take them out of the folder, and put files there",
}


class MissingEvidence:
    """The files of which requests are missing: each is named by ``say``."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._missing: dict[str, tuple[str, tuple[str, str], str]] = {}
        """By path, which text, which file, and why."""
        self._vanished: dict[str, MissingRequests] = {}
        """Those that a rotation may have renamed: they are named where the next batch does not find them, either."""
        self._left: set[str] = set()
        self._waiting: set[str] = set()

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of which requests are missing."""
        return tuple(self._missing)

    def of_batch(self, sources: Sequence[dict[str, Any]], table: EvidenceTable, batch: int) -> None:
        """Name the files of one batch, by its rows of kind ``source``."""
        read = [row for row in sources if row["reason"] is None]
        texts = {row["source"] for row in read}
        restored = {row["path"] for row in read if row["read"]} | {file_at(row["path"], row["stamp"]) for row in read}
        for path, (text, file, reason) in [*self._missing.items()]:
            if text in texts or (reason != VANISHED and not restored.isdisjoint((path, file))):
                del self._missing[path]
                self._vanished.pop(path, None)
        about = {row["path"]: (row["source"], file_at(row["path"], row["stamp"])) for row in sources}
        for one in (*_damaged(sources), *_without_rows(sources, table, batch)):
            self._missing[one.path] = *about[one.path], one.reason
            if one.reason == VANISHED:
                self._vanished[one.path] = one
            else:
                self._name(one)
        self._name_waiting(sources)

    def name_vanished(self) -> None:
        """Name the files that have vanished, once all that is there is read."""
        for one in self._vanished.values():
            self._name(one)
        self._vanished.clear()

    def _name(self, one: MissingRequests) -> None:
        self._say(printable(f"{one.path}: {why_missing(one)}"))

    def left_out(self, left: Mapping[str, str]) -> None:
        """Name the paths that are not read, each with its reason."""
        for reason, why in _WHY.items():
            paths = {path for path, of_path in left.items() if of_path == reason} - self._left
            # The names of files that are being written are often random: some of them are named once.
            if paths and not (reason == BEING_WRITTEN and reason in self._left):
                self._say(printable(f"{some_of(sorted(paths))}: not read, because {why}"))
                self._left.update(paths, {reason} & {BEING_WRITTEN})

    def _name_waiting(self, sources: Sequence[dict[str, Any]]) -> None:
        """Name the files without any line that has an end: one line of JSON may be a whole export."""
        waiting = [
            row["path"]
            for row in sources
            if not (row["position"] or row["read"] or row["reason"] or row["stamp"].endswith(WHOLE))
            and row["input"] == FROM_LOGS
        ]
        if new := sorted({path for path in waiting if not path.startswith(OF_TOPICS)} - self._waiting):
            self._waiting.update(new)
            self._say(
                printable(
                    f"{some_of(new)}: has no line that ends yet. It is read once its last line has an end, or once the "
                    "file was not written for an hour"
                )
            )


def _damaged(sources: Sequence[dict[str, Any]]) -> list[MissingRequests]:
    lines: dict[str, int] = {}
    for row in sources:
        lines[row["path"]] = lines.get(row["path"], 0) + row["read"]
    failed = {row["path"]: row for row in sources if row["reason"] is not None}
    return [MissingRequests(path, row["reason"], lines[path], row["why"] or "") for path, row in sorted(failed.items())]


def _without_rows(sources: Sequence[dict[str, Any]], table: EvidenceTable, batch: int) -> list[MissingRequests]:
    """Return the files without a row that have a line in quarantine which evidence misses."""
    of_logs = [row for row in sources if row["input"] == FROM_LOGS]
    with_rows = {row["path"] for row in of_logs if row["rows"]}  # a partition has a row for each broker
    wanted = sorted({row["path"] for row in of_logs if row["quarantined"]} - with_rows)
    if not wanted:
        return []
    lines = table.rows("quarantine").where((f.col("batch") == batch) & f.col("path").isin(wanted))
    first = [f.min_by(name, "at").alias(name) for name in ("reason", "raw")]
    lost = lines.where(~f.col("reason").isin(*NOTHING_MISSING)).groupBy("path")
    found = lost.agg(*first, f.sum("lines").alias("lines")).orderBy("path").collect()
    return [MissingRequests(row["path"], row["reason"], row["lines"], row["raw"][:_HEAD]) for row in found]


def why_missing(file: MissingRequests) -> str:
    """Say why requests of a file are missing, and what to do."""
    if file.reason in OF_FILES:
        read = f"only its first lines ({file.lines}) are read" if file.lines else "it is not read"
        return f"{read}: {file.head}. The next run tries it again once it has changed"
    return _why_lines(file)


def _why_lines(file: MissingRequests) -> str:
    what = f"none of its lines with a request is read ({file.lines} {file.reason})"
    again = f"run 'featuregate fleet run --again {file.reason}'"
    if file.reason == UNKNOWN_BROKER and file.path.startswith(OF_TOPICS):
        return f"{what}: give each record the node id of its broker, as its key or in the header of --broker-header"
    if file.reason == UNKNOWN_BROKER:
        return f"{what}: name its folder by the node id of the broker"
    if file.reason == TEXT_LOG:
        return f"{what}: brokers before 2.8 log requests as text, of which any client can write lines: upgrade them"
    begins = f"{what}. The first one begins with {file.head!r}. Layouts that are read: {LAYOUTS}. "
    if file.reason != UNKNOWN_LAYOUT:
        return f"{begins}Log a time with a date before the request, and hand in whole lines."
    if not (fitting := layouts_for(file.head)):
        return f"{begins}Log a time with a date before the request."
    ways = ", or ".join(f"--layout {layout!r}" for layout in fitting)
    return f"{begins}Say how its times are written: {ways}, and {again} with it."
