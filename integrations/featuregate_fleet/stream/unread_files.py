"""Names the files below a folder of logs that a run leaves unread, and keeps them for verdicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from featuregate.printable import printable
from featuregate_fleet.evidence.lines.layouts import layouts_for
from featuregate_fleet.evidence.reasons import LAYOUTS, OF_FILES, ROWS_OF_REASON, UNKNOWN_BROKER, UNKNOWN_LAYOUT
from featuregate_fleet.evidence.unread import (
    CHANGED,
    LINKED,
    SPECIAL,
    UNDECODED,
    UNLISTED,
    MissingRequests,
    is_being_written,
    some_of,
    unread_file,
)
from featuregate_fleet.files.formats import BY_GZIP

if TYPE_CHECKING:
    from featuregate_fleet.stream.read_files import ReadFiles
    from featuregate_fleet.tables.folder import Tables

_WHY: Final = {
    UNLISTED: "Spark does not list names that begin with '_'",
    UNDECODED: (
        "Java cannot decode the name in its locale: rename the file, or run with LC_ALL=C.UTF-8 if the name is in UTF-8"
    ),
    LINKED: "symbolic links are not followed: put the file itself there",
    SPECIAL: "pipes, sockets and devices are not read: take them out of the folder, and put files there",
}


class MissingEvidence:
    """The files of which requests are missing: each is named at once, by ``say``."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.paths: list[str] = []
        self._say = say

    def report(self, file: MissingRequests) -> None:
        """Name a file."""
        self.paths.append(file.path)
        self._say(printable(f"{file.path}: {why_missing(file)}"))


def why_missing(file: MissingRequests) -> str:
    """Say why requests of a file are missing, and what to do."""
    if file.reason in OF_FILES:
        read = f"only its first lines ({file.lines}) are read" if file.lines else "it is not read"
        return f"{read}: {file.head}. Restore it under its name, and run 'featuregate fleet replay'"
    what = f"none of its lines with a request is read ({file.lines} {file.reason})"
    if file.reason == UNKNOWN_BROKER and file.path.startswith("kafka:"):
        return f"{what}: give each record the node id of its broker, as its key or in the header of --broker-header"
    if file.reason == UNKNOWN_BROKER:
        return (
            f"{what}: name its folder by the node id of the broker, and read the logs for another --cluster, because "
            "these lines stay in the quarantine of this one"
        )
    begins = f"{what}. The first one begins with {file.head!r}. Layouts that are read: {LAYOUTS}. "
    if file.reason != UNKNOWN_LAYOUT:
        return f"{begins}Log a time with a date before the request, and hand in whole lines."
    if not (fitting := layouts_for(file.head)):
        return f"{begins}Log a time with a date before the request."
    ways = ", or ".join(f"--layout {layout!r}" for layout in fitting)
    return (
        f"{begins}Say how its times are written: {ways}. Read the file with it for another --cluster, or take "
        f"'featuregate fleet replay', which has the first {ROWS_OF_REASON} of its lines."
    )


class UnreadFiles:
    """The files that one run leaves unread: it names each once."""

    def __init__(self, logs: Path, read: ReadFiles, tables: Tables, say: Callable[[str], None], encoding: str) -> None:
        self._say = say
        self._logs = logs
        self._encoding = encoding
        self._read = read
        self._tables = tables
        self._changed: set[str] = set()
        self._restored: set[str] = set()
        self._unlisted: dict[str, str] = {}
        """With their reasons."""
        self._being_written = False

    @property
    def undecoded(self) -> set[str]:
        """Those that no other process will put right: the run does not succeed."""
        return {path for path, reason in self._unlisted.items() if reason == UNDECODED}

    def look(self) -> None:
        """Name what is new since the last look, and keep all of it."""
        changed = set(self._read.changed(self._logs)) - self._changed - self._restored
        packed = {path for path in changed if path.endswith(BY_GZIP)}
        restored = packed & self._tables.files_in_quarantine() if packed else packed
        for path in sorted(restored):
            self._say(
                f"{path} could not be read to its end, and has changed since: run 'featuregate fleet replay', which "
                "reads the rest of it"
            )
        self._restored |= restored
        changed -= restored
        for path in sorted(changed):
            self._say(
                f"{path} has changed since it was read, and what is new in it is not read: hand in rolled files, "
                "under names that do not change"
            )
        self._changed |= changed
        found = self._read.unlisted(self._logs, self._encoding)
        unlisted = {path: reason for path, reason in found.items() if not is_being_written(path)}
        for reason, why in _WHY.items():
            if new := [path for path in unlisted if unlisted[path] == reason and path not in self._unlisted]:
                self._say(f"{some_of(new)}: not read, because {why}")
        self._unlisted = unlisted
        if len(found) > len(unlisted) and not self._being_written:
            self._being_written = True  # once: the names of such files are often random
            self._say(
                f"{some_of([path for path in found if is_being_written(path)])}: not read, because such names are "
                "those of files that are being written"
            )
        self._tables.leave_unread(
            {unread_file(path, CHANGED) for path in self._changed} | {unread_file(*each) for each in unlisted.items()}
        )
