"""The files below a folder of logs that Spark leaves out of its lists, without a word."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from featuregate_fleet.evidence.unread import LINKED, UNDECODED, UNLISTED
from featuregate_fleet.files.segments import PROGRESS
from featuregate_fleet.files.storage import is_local, listing

if TYPE_CHECKING:
    from collections.abc import Iterator


def left_out(logs: Path, encoding: str) -> Iterator[tuple[str, str]]:
    """Yield links, and the files that Spark filters out (HadoopFSUtils) or Java loses, if anything is in them.

    Each has its reason: a name that begins with ``_`` or ``.``, one that is not valid in the encoding that the JVM has
    for names, or a link, also one to a folder.
    """
    if not is_local(logs):
        for stored, (size, _) in listing(logs).items():
            if size and any(map(_is_hidden, stored.split("/"))) and not stored.endswith(f"/{PROGRESS}"):
                yield stored, UNLISTED
        return
    for folder, folders, names in os.walk(logs):
        below = Path(folder).relative_to(logs)
        for name in {*names, *folders} - {PROGRESS}:
            path, place = Path(folder, name), below / name
            if path.is_symlink():
                yield place.as_posix(), LINKED
            elif (why := _why_left_out(place, encoding)) and path.is_file() and path.stat().st_size:
                yield place.as_posix(), why


def _why_left_out(place: Path, encoding: str) -> str | None:
    if any(map(_is_hidden, place.parts)):
        return UNLISTED
    return None if _is_decoded(os.fsencode(place), encoding) else UNDECODED


def _is_decoded(name: bytes, encoding: str) -> bool:
    """Return whether a name is valid in an encoding. One that Python does not know has ASCII, at least."""
    try:
        name.decode(encoding)
    except UnicodeDecodeError:
        return False
    except LookupError:
        return name.isascii()
    return True


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")
