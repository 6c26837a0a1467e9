"""Names the files of which requests are missing, or that are left unread: each once, with what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from featuregate.printable import printable, some
from featuregate_fleet.evidence import reasons
from featuregate_fleet.evidence.columns import FROM_LOGS
from featuregate_fleet.evidence.lines.times import layouts_for
from featuregate_fleet.evidence.paths import BEING_WRITTEN, LINKED, OF_TOPICS, SPECIAL, UNLISTED
from featuregate_fleet.files.texts import WHOLE
from featuregate_fleet.tables.source_reader import SourceAt, around_failures, lost

if TYPE_CHECKING:
    from pyspark.sql import Row

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
        self._tell = say
        self._failed: list[SourceAt] = []
        """What was said of the texts and of the files of which one has failed."""
        self._not_understood: dict[str, str] = {}
        """The files without a row, by path, with their texts."""
        self._vanished: dict[str, str] = {}
        """What to say of those that a rotation may have renamed, where the next batch does not find them, either."""
        self._left: set[str] = set()
        self._waiting: set[str] = set()

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of which requests are missing."""
        return tuple(dict.fromkeys([*(one.path for one in lost(self._failed)), *self._not_understood]))

    def of_batch(self, sources: Sequence[dict[str, Any]], table: EvidenceTable, batch: int) -> None:
        """Name the files of one batch, by its rows of kind ``source``."""
        said = [SourceAt.of(row, batch) for row in sources]
        self._failed = around_failures([*self._failed, *said])
        read = {name for row in sources if row["read"] for name in (row["source"], row["path"])}
        self._not_understood = {
            path: text for path, text in self._not_understood.items() if read.isdisjoint((path, text))
        }
        self._name_damaged(sources)
        texts = {row["path"]: row["source"] for row in sources}
        for row in _without_rows(sources, table, batch):
            self._not_understood[row["path"]] = texts[row["path"]]
            self._say(f"{row['path']}: {why_not_understood(row['path'], row['reason'], row['lines'], row['raw'])}")
        self._name_waiting(sources)

    def name_vanished(self) -> None:
        """Name the files that have vanished, once all that is there is read."""
        still = self.paths
        for path, text in self._vanished.items():
            if path in still:
                self._say(text)
        self._vanished.clear()

    def left_out(self, left: Mapping[str, str]) -> None:
        """Name the paths that are not read, each with its reason."""
        for reason, why in _WHY.items():
            paths = {path for path, of_path in left.items() if of_path == reason} - self._left
            # The names of files that are being written are often random: some of them are named once.
            if paths and not (reason == BEING_WRITTEN and reason in self._left):
                self._say(f"{some(sorted(paths), 1)}: not read, because {why}")
                self._left.update(paths, {reason} & {BEING_WRITTEN})

    def _say(self, text: str) -> None:
        self._tell(printable(text))

    def _name_damaged(self, sources: Sequence[dict[str, Any]]) -> None:
        lines = Counter[str]()
        for row in sources:
            lines[row["path"]] += row["read"]
        failed = {row["path"]: row for row in sources if row["reason"] is not None}
        for path, row in sorted(failed.items()):
            read = f"only its first lines ({lines[path]}) are read" if lines[path] else "it is not read"
            text = f"{path}: {read}: {row['why'] or ''}. The next run tries it again once it has changed"
            if row["reason"] == reasons.VANISHED:
                self._vanished[path] = text
            else:
                self._say(text)

    def _name_waiting(self, sources: Sequence[dict[str, Any]]) -> None:
        """Name the files without any line that has an end: one line of JSON may be a whole export."""
        of_files = [row for row in sources if row["input"] == FROM_LOGS and not row["path"].startswith(OF_TOPICS)]
        begun = [row for row in of_files if not (row["position"] or row["read"] or row["reason"])]
        if new := sorted({row["path"] for row in begun if not row["stamp"].endswith(WHOLE)} - self._waiting):
            self._waiting.update(new)
            self._say(
                f"{some(new, 1)}: has no line that ends yet. It is read once its last line has an end, or once the "
                "file was not written for an hour"
            )


def _without_rows(sources: Sequence[dict[str, Any]], table: EvidenceTable, batch: int) -> list[Row]:
    """Return the files without a row that have a line in quarantine which evidence misses, with the first such line."""
    of_logs = [row for row in sources if row["input"] == FROM_LOGS]
    with_rows = {row["path"] for row in of_logs if row["rows"]}  # a partition has a row for each broker
    wanted = sorted({row["path"] for row in of_logs if row["quarantined"]} - with_rows)
    if not wanted:
        return []
    lines = table.rows("quarantine").where((f.col("batch") == batch) & f.col("path").isin(wanted))
    first = [f.min_by(name, "at").alias(name) for name in ("reason", "raw")]
    missing = lines.where(~f.col("reason").isin(*reasons.NOTHING_MISSING)).groupBy("path")
    return missing.agg(*first, f.sum("lines").alias("lines")).orderBy("path").collect()


def why_not_understood(path: str, reason: str, lines: int, first: str) -> str:
    """Say why no request of a file was understood, by the reason of the first one, and what to do."""
    what = f"none of its lines with a request is read ({lines} {reason})"
    if reason == reasons.UNKNOWN_BROKER and path.startswith(OF_TOPICS):
        return f"{what}: give each record the node id of its broker, as its key or in the header of --broker-header"
    if reason == reasons.UNKNOWN_BROKER:
        return f"{what}: name its folder by the node id of the broker"
    if reason == reasons.TEXT_LOG:
        return f"{what}: brokers before 2.8 log requests as text, of which any client can write lines: upgrade them"
    head = first[:_HEAD]
    begins = f"{what}. The first one begins with {head!r}. Layouts that are read: {reasons.LAYOUTS}. "
    if reason != reasons.UNKNOWN_LAYOUT:
        return f"{begins}Log a time with a date before the request, and hand in whole lines."
    if not (fitting := layouts_for(head)):
        return f"{begins}Log a time with a date before the request."
    ways = ", or ".join(f"--layout {layout!r}" for layout in fitting)
    again = f"run 'featuregate fleet run --again {reason}'"
    return f"{begins}Say how its times are written: {ways}, and {again} with it."
