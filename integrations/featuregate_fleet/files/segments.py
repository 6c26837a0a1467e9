"""Cuts a live log into segments of whole lines, because Spark never reads what is appended to a file.

The segments of a broker are in one folder, as ``<inode>.<mark>-<start>-<end>`` with the bytes of the log between which
they are. They appear whole: written under a hidden name, and linked to their own.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
from hashlib import sha256
from secrets import token_hex
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from featuregate.files import replace_file
from featuregate_fleet.errors import LogTruncated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_LONGEST: Final = 64 * 2**20
"""Bytes of a segment. A line that is longer is cut."""
_HEAD: Final = 1024
PROGRESS: Final = ".progress.json"
"""The one file in the folder of a broker that is not a segment."""
_MARK_BYTES: Final = 4


class _Progress(NamedTuple):
    """Up to where a log is in segments."""

    inode: int
    end: int
    head: int
    """How many of its first bytes ``digest`` is of: a short log has fewer."""
    digest: str
    mark: str = ""
    """Made when the log was first seen: once a log is deleted, another one gets its inode. An older release made none,
    and finishes its log under the names that it has begun with."""

    def name(self, start: int, end: int | str) -> str:
        """Return the name of a segment: no other log ever had it, so that no reader takes it for one it has read."""
        return f"{self.inode}{self.mark}-{start}-{end}"


class Segmenter:
    """Cuts one live log into segments; the next process goes on where the last one has ended.

    ``log`` is the file to which the broker appends. A rotation renames it, and begins another one of the same name.
    ``folder`` is that of the broker, and takes the segments of one log. ``change`` is applied to the lines of a segment
    before they are written.
    """

    def __init__(self, log: Path, folder: Path, change: Callable[[bytes], bytes] = bytes) -> None:
        self._log = log
        self._folder = folder
        self._change = change
        self._file: IO[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """Close the log."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def collect(self) -> list[str]:
        """Write what was appended since the last call, and return the names of the new segments.

        Raises
        ------
        LogTruncated
            The log lost bytes that it had, or its rotation did not keep it: lines may be lost.
        OSError
            The log cannot be read, or a segment cannot be written.
        """
        return [name for file, complete in self._files() for name in self._segments(file, complete=complete)]

    def _files(self) -> Iterator[tuple[IO[bytes], bool]]:
        """Yield the log at hand, its successors if it was rotated, and whether each of them is complete."""
        if self._file is None:
            self._file = self._last_file()
        while self._file is not None:
            newest = _inode(self._log)
            about = os.fstat(self._file.fileno())
            complete = newest is not None and newest != about.st_ino
            yield self._file, complete
            # Open until then, so that its successor cannot get its inode.
            if not complete or (successor := _opened(self._successor(about))) is None:
                return
            self.close()
            self._file = successor

    def _last_file(self) -> IO[bytes] | None:
        """Open the log that the last process has collected from. It may have been renamed since."""
        progress = self._progress()
        if progress is None:
            return _opened(self._log)
        for path in (self._log, *self._siblings()):
            if _inode(path) == progress.inode and (file := _opened(path)) is not None:
                return file
        raise LogTruncated(
            f"{self._log}: its rotation did not keep the log that was collected before, up to byte {progress.end}. "
            + self._anew()
        )

    def _successor(self, about: os.stat_result) -> Path:
        """Return the log that was begun when another one was rotated: the newest, or one that is rotated already."""
        for path in self._log.parent.glob(f"{self._log.name}.*.gz"):
            if path.stat().st_mtime_ns > about.st_mtime_ns and self._is_another_log(path):
                raise LogTruncated(
                    f"{path} was compressed before it was collected. Compress logs one rotation later, or collect more "
                    f"often. {self._anew()}"
                )
        later = [path for path in self._siblings() if path.stat().st_mtime_ns > about.st_mtime_ns]
        return min(later, key=lambda path: path.stat().st_mtime_ns, default=self._log)

    def _is_another_log(self, path: Path) -> bool:
        """Return whether a compressed log is not the one that was collected last, which may be compressed, too."""
        progress = self._progress()
        try:
            with gzip.open(path) as file:
                head = file.read(progress.head) if progress else b""
        except EOFError:
            head = b""
        # Without any bytes it is being written, and what it is made of is there until that is done.
        return progress is not None and bool(head) and sha256(head).hexdigest() != progress.digest

    def _siblings(self) -> list[Path]:
        found = self._log.parent.glob(f"{self._log.name}.*")
        return [path for path in found if path.suffix != ".gz" and not path.is_symlink()]

    def _segments(self, file: IO[bytes], *, complete: bool) -> Iterator[str]:
        """Write segments up to the last line break, or up to the end of a log that is complete."""
        progress = self._begin(file)
        file.seek(progress.end)
        while block := file.read(_LONGEST):
            whole = block[: block.rfind(b"\n") + 1]
            if (not whole and len(block) == _LONGEST) or (complete and len(block) < _LONGEST):
                whole = block
            if not whole:
                return
            end = progress.end + len(whole)
            yield self._write(progress.name(progress.end, end), self._change(whole))
            progress = self._keep(file, progress, end)
            file.seek(end)

    def _begin(self, file: IO[bytes]) -> _Progress:
        """Return up to where this log is in segments."""
        inode, progress = os.fstat(file.fileno()).st_ino, self._progress()
        if progress is None or progress.inode != inode:
            return self._keep(file, _Progress(inode, 0, 0, "", f".{token_hex(_MARK_BYTES)}"), 0)
        if os.fstat(file.fileno()).st_size < progress.end or _digest(file, progress.head) != progress.digest:
            raise LogTruncated(
                f"{self._log} lost bytes that it had: copytruncate loses lines. Rotate it by renaming. {self._anew()}"
            )
        while made := next(self._folder.glob(progress.name(progress.end, "*")), None):  # killed before it kept that
            progress = progress._replace(end=int(made.name.split("-")[2]))
        return progress

    def _write(self, name: str, text: bytes) -> str:
        hidden = self._folder / f".{name}"
        try:
            with hidden.open("wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.link(hidden, self._folder / name)
        finally:
            hidden.unlink(missing_ok=True)  # half of it would keep a full disk full
        return name

    def _progress(self) -> _Progress | None:
        kept = self._folder / PROGRESS
        try:
            return _Progress(**json.loads(kept.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise LogTruncated(
                f"{kept} is damaged, so that it is not known which lines of {self._log} are collected. {self._anew()}"
            ) from error

    def _keep(self, file: IO[bytes], progress: _Progress, end: int) -> _Progress:
        head = min(end, _HEAD)
        kept = progress._replace(end=end, head=head, digest=_digest(file, head))
        replace_file(self._folder / PROGRESS, json.dumps(kept._asdict()))
        return kept

    def _anew(self) -> str:
        return f"To begin with the log as it is, take another folder than {self._folder}."


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _opened(path: Path) -> IO[bytes] | None:
    """Open a log, which must not be a link; None between the renaming of one and the first line of the next one."""
    try:
        return open(path, "rb", opener=_without_links)
    except FileNotFoundError:
        return None


def _without_links(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(f"{path} is a symbolic link, which is not followed: name the log itself") from error
        raise


def _digest(file: IO[bytes], head: int) -> str:
    file.seek(0)
    return sha256(file.read(head)).hexdigest()
