"""Tells a text by its beginning, because a rotation renames a log, and may compress it."""

from __future__ import annotations

import os
import re
import zlib
from contextlib import suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Final

from featuregate_fleet.files.formats import BY_GZIP, GZIP, format_of, inflated
from featuregate_fleet.files.opening import open_log, path_of
from featuregate_fleet.files.storage import changed_last, is_local, uri_of

if TYPE_CHECKING:
    from featuregate_fleet.evidence.paths import LogFile

_BEGINNING: Final = 1024
"""Bytes of a text that tell it from others: some lines, of which each has its time."""
_RENAMED: Final = "another file has its name since it was listed, and none in this folder has its text"
_CANDIDATES: Final = 100
"""Files that may have the text of another one: those of a rotation by number, all of which are renamed at once."""
_SEGMENT: Final = re.compile(r"\d+(?:\.[0-9a-f]+)?-\d+-\d+")
COMPRESSED: Final = "+gzip"
SHORT: Final = "+short"
"""Stands before the length of a text that is too short to be known under another name."""


def content_of(file: LogFile) -> str | None:
    """Return a hash of the beginning of a text, which says by its end whether the text is compressed.

    That of a short text, which may be the same as another one, has its length. None for an empty one, for one that
    cannot be read, and for a segment of `featuregate_fleet.files.segments`, whose name no other file ever has.
    """
    if _SEGMENT.fullmatch(file.path.rpartition("/")[2]):
        return None
    try:
        with open_log(file) as opened:
            head, found = _beginning_of(opened, file.path, _BEGINNING)
    except (OSError, EOFError, zlib.error):  # its reader says so
        return None
    if found not in {None, GZIP}:
        return None
    short = f"{SHORT}{len(head)}" if len(head) < _BEGINNING else ""
    return sha256(head).hexdigest() + short + (COMPRESSED if found else "") if head else None


def has_grown_from(before: str, file: LogFile) -> bool:
    """Return whether a file with a content begins with the text of which this was the content."""
    if SHORT not in before:
        return file.content == before
    try:
        with open_log(file) as opened:
            return _has_text_of(file._replace(content=before), opened, file.path)
    except OSError:  # it has changed since its content was asked for
        return False


def open_text(file: LogFile) -> tuple[IO[bytes], str]:
    """Open the text that a file had when its content was looked at; return it with the path that it has by now.

    A rotation renames a file, and gives its name to another one. gzip makes another file of it.

    Raises
    ------
    FileNotFoundError
        There is no such file, or it has another text, and no other file of the folder has this one.
    OSError
        As for `featuregate_fleet.files.opening.open_log`, which also says when `StorageFailed` is raised.
    """
    failure: OSError = FileNotFoundError(_RENAMED)
    try:
        opened = open_log(file)
        if _has_text_of(file, opened, file.path):
            return opened, file.path
        opened.close()
    except OSError as error:  # a rotation may also leave a file that cannot be read yet
        failure = error
    for path in _candidates(path_of(file)) if file.content else ():
        named = file._replace(uri=uri_of(path), path=str(PurePosixPath(file.path).with_name(path.name)))
        with suppress(OSError):  # a link, a folder, or a file that is gone
            opened = open_log(named)
            if _is_whole(file, opened, path) and _has_text_of(file, opened, named.path):
                return opened, named.path
            opened.close()
    raise failure


def _candidates(path: Path) -> list[Path]:
    """Return the files that may have the text of one. Compressed ones are last, because gzip may be at work.

    A storage renames none.
    """
    if not is_local(path):
        return []
    twins = [path.with_name(name) for name in (twin_of(path.name),) if name]
    return sorted([*twins, *changed_last(path, _CANDIDATES)], key=lambda one: one.name.endswith(BY_GZIP))


def _is_whole(file: LogFile, opened: IO[bytes], path: Path) -> bool:
    """Return whether an open file may have all that a file had: another one may have begun to copy it."""
    return path.name.endswith(BY_GZIP) or os.fstat(opened.fileno()).st_size >= file.size


def _has_text_of(file: LogFile, opened: IO[bytes], path: str) -> bool:
    """Return whether an open file begins with what a file began with. It is then at its beginning."""
    if file.content is None:
        return True
    text, _, length = file.content.removesuffix(COMPRESSED).partition(SHORT)
    try:
        head, _ = _beginning_of(opened, path, int(length or _BEGINNING))
    except (OSError, EOFError, zlib.error):
        return False
    opened.seek(0)
    return sha256(head).hexdigest() == text


def text_of(content: str | None) -> str | None:
    """Return what of the content of a file stays when it is compressed."""
    return content and content.removesuffix(COMPRESSED)


def twin_of(path: str) -> str:
    """Return the name that gzip gives to a file, or has taken from it."""
    return path.removesuffix(BY_GZIP) if path.endswith(BY_GZIP) else path + BY_GZIP


def _beginning_of(opened: IO[bytes], path: str, length: int) -> tuple[bytes, str | None]:
    """Return the first bytes of a text, decompressed where that can be, and the format of the file."""
    head = b""
    found = format_of(opened, path)
    for part in inflated(opened) if found == GZIP else (opened.read(length),):
        head += part
        if len(head) >= length:
            break
    return head[:length], found


def begins_with(file: LogFile, text: bytes) -> bool:
    """Return whether the text of a file begins so; False for a file that cannot be read."""
    try:
        opened, path = open_text(file)
        with opened:
            return _beginning_of(opened, path, len(text))[0] == text
    except (OSError, EOFError, zlib.error):  # its reader says so
        return False
