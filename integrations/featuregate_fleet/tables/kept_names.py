"""What names the tables of a cluster have: the hashes of one key alone, or those in the clear."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from featuregate.errors import ConfigError
from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.files.kept_text import keep_text, kept_text

if TYPE_CHECKING:
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

_CLEAR: Final = "clear"
_PROBE: Final = "featuregate fleet"


def check_names(folder: Path, cluster: str, names: Pseudonyms | None) -> None:
    """Refuse another key than that of the first run, and names in the clear next to hashes: they would not add up."""
    before, said = _before(folder, cluster), _said(names)
    if before is not None and before != said:
        raise ConfigError(f"the tables {folder}", f"the principals of {cluster} are {_problem(before, said)}")


def keep_names(folder: Path, cluster: str, names: Pseudonyms | None) -> None:
    """Check the key, and keep for later runs which one it is. The key itself is not kept."""
    check_names(folder, cluster, names)
    try:
        if kept_text(_mark(folder, cluster)) is None:
            keep_text(_mark(folder, cluster), _said(names))
    except OSError as error:
        raise TablesBroken(f"the tables {folder} cannot be written: {error.strerror}") from error


def _mark(folder: Path, cluster: str) -> Path:
    return folder / f".{cluster}.names"


def _before(folder: Path, cluster: str) -> str | None:
    """Return what the last run has kept; an older release hashed nothing."""
    if kept := kept_text(_mark(folder, cluster)):
        return kept
    return _CLEAR if (folder / "_checkpoints" / cluster).exists() else None


def _said(names: Pseudonyms | None) -> str:
    return names.of(_PROBE) if names else _CLEAR


def _problem(before: str, said: str) -> str:
    if before == _CLEAR:
        return "in the clear: give another folder of --tables, or no --hash-principals"
    if said == _CLEAR:
        return "hashed: give their key by --hash-principals"
    return "hashed by another key: give that key, or another folder of --tables"
