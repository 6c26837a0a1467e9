"""Files that processes share: they take turns, and each replaces a file as a whole."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK_SECONDS: Final = 3.0
"""How long a process waits for its turn."""


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Hold the lock beside a file, whose folder is made if there is none.

    Raises
    ------
    OSError
        TimeoutError where another process has the lock, or what the file system says.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415 - only apps that keep something pay for it

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire(timeout=LOCK_SECONDS)
    except Timeout:
        raise TimeoutError(f"another process has held its lock for {LOCK_SECONDS:.0f} s") from None
    try:
        yield
    finally:
        lock.release()


def replace_file(path: Path, text: str) -> None:
    """Write beside, flush, swap, flush the folder: a crash leaves the old file or the new one, whole.

    Where several threads or processes call it for one path, the last one wins. Raises OSError, and leaves nothing then.
    """
    beside = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
