"""When a run has looked at all files that were read, so that the runs after it open only those that have changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from featuregate_fleet.files.kept_text import keep_text, kept_text
from featuregate_fleet.files.storage import is_local

_MARK: Final = "files_looked_at"
_APART: Final = 300 * 10**6
"""Microseconds between the looks that are kept."""


@dataclass(slots=True)
class LastLook:
    """A look, and the folders of the files, which a rename changes without a trace in the files."""

    at: int = 0
    """Microseconds since 1970."""
    folders: dict[str, int | None] = field(default_factory=dict)
    """Their inodes, by their paths below the logs."""
    seen: dict[str, int | None] = field(default_factory=dict)
    """Those of now; None for one that vanishes meanwhile."""

    @classmethod
    def kept_in(cls, checkpoint: Path) -> LastLook:
        """Return the look that a run has kept. Without one, or with a damaged one, a run opens more files."""
        try:
            said = json.loads(kept_text(checkpoint / _MARK) or "{}")
            return cls(int(said["at"]), dict(said["folders"]))
        except (KeyError, TypeError, ValueError):
            return cls()

    def of_file(self, logs: Path, path: str) -> int:
        """Return when a file was looked at: 0 where its folder is another one since, or was not there."""
        folder = path.rpartition("/")[0] or "."
        if folder not in self.seen:
            self.seen[folder] = _inode(logs / folder)
        now = self.seen[folder]
        return self.at if now is not None and now == self.folders.get(folder) else 0

    def keep(self, checkpoint: Path, at: int) -> None:
        """Keep that what was found in a look is in the tables."""
        if at - self.at > _APART:
            keep_text(checkpoint / _MARK, json.dumps({"at": at, "folders": self.seen}))
            self.at, self.folders = at, self.seen
        self.seen = {}


def _inode(folder: Path) -> int | None:
    """Return the inode of a folder; a storage has none, and files there are written where they are renamed."""
    try:
        return folder.stat().st_ino if is_local(folder) else 0
    except OSError:
        return None
