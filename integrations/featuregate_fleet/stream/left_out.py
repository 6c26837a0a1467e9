"""The files below a folder of logs that Spark leaves out of its lists, without a word."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from featuregate_fleet.evidence.unread import LINKED, SPECIAL, UNDECODED, UNLISTED
from featuregate_fleet.files.segments import PROGRESS
from featuregate_fleet.files.storage import FOLLOWED, is_local, kind_of, listing, stamps_below


def left_out(logs: Path, encoding: str) -> Iterator[tuple[str, str]]:
    """Yield links, pipes and the like, and files that Spark filters out (HadoopFSUtils) or Java loses.

    Each has its reason: a name that begins with ``_`` or ``.``, one that is not valid in the encoding that the JVM has
    for names, a link, also one to a folder, or what is neither file nor folder. No line is missing of an empty file.
    """
    if not is_local(logs):
        for stored, (size, _) in listing(logs).items():
            if size and any(map(_is_hidden, stored.split("/"))) and not stored.endswith(f"/{PROGRESS}"):
                yield stored, UNLISTED
        return
    stamps = stamps_below(logs)
    for folder, folders, names in os.walk(logs):
        below = Path(folder).relative_to(logs)
        of_folder = _why_left_out(below.parts, encoding)  # once: a folder may have very many files
        for name in {*names, *folders} - {PROGRESS}:
            of_name = _why_left_out((name,), encoding)
            why = UNLISTED if UNLISTED in {of_folder, of_name} else of_folder or of_name
            kind = kind_of(f"{folder}/{name}")
            if kind == stat.S_IFLNK:
                yield (below / name).as_posix(), LINKED
            elif kind == stat.S_IFREG:
                if why and (stamp := stamps((below / name).as_posix())) is not None and stamp[0]:
                    yield (below / name).as_posix(), why
            elif kind not in FOLLOWED and not why:
                yield (below / name).as_posix(), SPECIAL


def _why_left_out(names: Sequence[str], encoding: str) -> str | None:
    if any(map(_is_hidden, names)):
        return UNLISTED
    return None if all(_is_decoded(name, encoding) for name in names) else UNDECODED


def _is_decoded(name: str, encoding: str) -> bool:
    """Return whether a name is valid in an encoding. One that Python does not know has ASCII, at least."""
    try:
        os.fsencode(name).decode(encoding)
    except UnicodeDecodeError:
        return False
    except LookupError:
        return name.isascii()
    return True


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")
