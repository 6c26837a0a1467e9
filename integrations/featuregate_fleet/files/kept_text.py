"""Small texts that a run keeps for later ones. A crash leaves the text before or the new one, never half of one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from featuregate.files import replace_file
from featuregate_fleet.files.storage import OF_HADOOP, is_local, rename_over_none


def keep_text(path: Path, text: str) -> None:
    """Replace what `kept_text` returns."""
    if is_local(path):
        replace_file(path, text)
    elif path.protocol in OF_HADOOP:  # type: ignore[attr-defined]
        _keep_in_hadoop(path, text)
    else:  # an object is replaced as a whole
        path.write_text(text, encoding="utf-8")


def kept_text(path: Path) -> str | None:
    """Return the text that was kept last; None where there is none, or an empty one of an older release on HDFS."""
    for each in (path, _whole(path)):
        if each.exists():
            return each.read_text(encoding="utf-8") or None
    return None


def _keep_in_hadoop(path: Path, text: str) -> None:
    """HDFS shows a file while it is written, and renames none over another one: so the new one is whole before that."""
    half, whole = path.with_name(f".{path.name}.half"), _whole(path)
    half.write_text(text, encoding="utf-8")
    if whole.exists():  # of a process that was killed below
        _put_in_place(whole, path)
    rename_over_none(half, whole)
    _put_in_place(whole, path)


def _put_in_place(whole: Path, path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
    rename_over_none(whole, path)


def _whole(path: Path) -> Path:
    return path.with_name(f".{path.name}.whole")
