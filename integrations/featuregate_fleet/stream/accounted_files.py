"""How far Spark's own list of files was compared with the tables, kept for later runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate_fleet.files.kept_text import keep_text, kept_text
from featuregate_fleet.stream.listed_files import listed_files

if TYPE_CHECKING:
    from pathlib import Path

_MARK: Final = "files_accounted_for"


class AccountedFiles(NamedTuple):
    """The files of the list up to a number."""

    number: int = -1
    """The newest one in the list."""
    left_out: tuple[str, ...] = ()
    """The files up to there that are in no table: those behind links, pipes and the like."""

    @classmethod
    def kept_in(cls, checkpoint: Path) -> AccountedFiles | None:
        """Return what was kept. None before the first run, of an older release, which kept nothing, and if damaged."""
        try:
            said = json.loads(kept_text(checkpoint / _MARK) or "")
            return cls(int(said["number"]), tuple(said["left_out"]))
        except (KeyError, TypeError, ValueError):
            return None

    @classmethod
    def all_of(cls, checkpoint: Path) -> AccountedFiles:
        """Return all files that are in the list now."""
        return cls(max((number for number, _ in listed_files(checkpoint, -1)), default=-1))

    def keep(self, checkpoint: Path) -> None:
        """Keep it for later runs."""
        keep_text(checkpoint / _MARK, json.dumps(self._asdict()))
