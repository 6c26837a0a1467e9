"""Files of this machine: where they are, and how processes that share one replace it as a whole, in turn."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, Final

from featuregate.budgets import MOST_FILE_BYTES
from featuregate.errors import ConfigError
from featuregate.patterns import pattern

if TYPE_CHECKING:
    from pathlib import Path

LOCK_SECONDS: Final = 3.0
"""How long a process waits for its turn."""
_URI: Final = pattern(r"\s*(?:[A-Za-z][A-Za-z0-9+.\-]+:)+/")
"""One slash is enough: ``dbfs:/a`` is a URI, and pathlib makes ``s3:/a`` of ``s3://a``."""
_FILE_URI: Final = pattern(r"\s*file:(?://(?:localhost)?)?(/(?!/).*)", re.DOTALL | re.IGNORECASE)

_UNSEEN: Final = " \t\r\n\f\v\xa0\ufeff\u200b"
_NO_VALUE: Final = frozenset({"None", "null", "NULL", "nil", "<nil>", "undefined", "<no value>"})
"""How languages and Go's templates spell it. None of them writes "none", which people do call a folder."""
_VARIABLE: Final = pattern(r"\$[A-Za-z_{(]|%[A-Za-z_]\w*%|\{\{")
_QUOTES: Final = "\"'\u2018\u2019\u201c\u201d"

_OPENED_BY_THE_SHELL: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""What a shell calls the pipe of ``<(command)`` and of ``command |``."""


def load_modules() -> None:
    """Import what files need, before a thread does: see :mod:`featuregate.forks`."""
    for name in ("errno", "filelock", "hashlib", "stat", "urllib.parse"):
        import_module(name)


def require_text(key: str, place: object) -> None:
    """Raise `ConfigError` for an empty text: a variable that is not set. As a path it is the current folder.

    Likewise for what languages make of no value, and for quotes and variables, which files of variables keep: they
    begin the name of a file below the current folder. As a part of a path they are one folder for all that have it.
    """
    if not isinstance(place, (str, os.PathLike)):
        return
    text = str(place).strip(_UNSEEN)
    inside = text.strip(_QUOTES)
    if not any(each.isprintable() and each != " " for each in inside) or text in _NO_VALUE:
        raise ConfigError(key, "is empty: give a path, or leave it out")
    if inside != text:
        raise ConfigError(key, "has quotes around it, which would belong to the path: leave them out")
    if _VARIABLE.match(text):
        raise ConfigError(key, "begins with a variable that nothing has replaced by its value: give a path")
    if any(part in _NO_VALUE or _VARIABLE.match(part) for part in text.replace("\\", "/").split("/")):
        raise ConfigError(key, "has a variable, or no value, as a part of it: give a path in which all are replaced")


def local_path(key: str, place: str | os.PathLike[str]) -> Path:
    """Return the path of a file or folder of this machine, of a path or of a URI such as ``file:///var/lib``.

    The URI of a storage is also the name of a folder below the current one, where no other machine would look. A letter
    and a colon, or a colon without a slash behind it, are a name. ``~`` is the home folder, as in a shell. Raises
    `ConfigError` for ``key`` without the text, since a URI may hold a key.
    """
    require_text(key, place)
    from pathlib import Path  # noqa: PLC0415 - most apps keep no files
    from urllib.parse import unquote  # noqa: PLC0415 - likewise

    if file := _FILE_URI.fullmatch(str(place)):
        return Path(unquote(file[1]))
    if _URI.match(str(place)):
        raise ConfigError(
            key,
            "is a URI, and only files and folders of this machine can be used: give a path, such as that of a volume "
            "that is mounted; a local folder whose name looks like a URI needs its absolute path",
        )
    return Path(os.path.expanduser(place))  # noqa: PTH111 - pathlib raises for a user who is not known


def read_file(path: Path, most: int = MOST_FILE_BYTES) -> bytes:
    """Read a file once, as :func:`read_regular_file` does, or the pipe of a command that the shell has started.

    Such a pipe is read to its end, which is that of the command, and is empty for the next reader.
    """
    if str(path).startswith(_OPENED_BY_THE_SHELL):
        with path.open("rb") as pipe:
            return _read_at_most(pipe, most)
    return read_regular_file(path, most)


def read_regular_file(path: Path, most: int = MOST_FILE_BYTES) -> bytes:
    """Read a regular file of ``most`` bytes; never wait, as for the writer of a pipe.

    Raises `OSError`: it is a pipe, a device or a folder, has more bytes, or cannot be read; ``strerror`` says why.
    """
    import errno  # noqa: PLC0415 - most apps read no files
    import stat  # noqa: PLC0415 - likewise

    with os.fdopen(
        os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)), "rb"
    ) as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, and not a regular file", str(path))
        return _read_at_most(file, most)


def _read_at_most(file: BinaryIO, most: int) -> bytes:
    """Read an open file, or a pipe, to its end. Raises OSError where it has more than ``most`` bytes."""
    import errno  # noqa: PLC0415 - most apps read no files

    content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes")
    return content


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Hold the lock of a file, whose folder is made if there is none.

    Raises `OSError`: a TimeoutError where another process has the lock, or what the file system says.
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
    """Write a temporary file, flush, rename, flush the folder: a crash leaves the old file or the new one, whole.

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
