"""A lock on a storage: an object with a number, which its holder writes again every few seconds.

The holder of the highest number has the lock. An object is made on the condition that there is none of its name, so of
two processes one gets a number. A holder that was killed writes no more, and the next process takes the next number. No
clocks are compared: a process that waits watches whether the object changes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Final, NamedTuple

from featuregate_fleet.errors import StorageFailed, TablesBusy
from featuregate_fleet.files.storage import OF_HADOOP, make_folder, read_now, rename_over_none, spark_path

SECONDS: Final = 30.0
"""A holder that has not written for this long is dead."""
_BEATS: Final = 6
"""How often a holder writes in that time."""
_DIGITS: Final = 12


_FREE: Final = "free"
"""The text of an object whose holder has given it up. HDFS shows an empty one for a moment while it is written."""


class _Number(NamedTuple):
    number: int
    text: str


@contextmanager
def lease(lock: Path, otherwise: str, wait: float = 0, seconds: float = SECONDS) -> Iterator[None]:
    """Hold a lock of this name, or raise `TablesBusy` with what the caller says, once another holder has lived on.

    Raises
    ------
    StorageFailed
        The storage does not answer, or makes an object that is there already.
    TablesBusy
        Another process has the lock, or took it because this one could not write for ``seconds``.
    """
    make_folder(lock.parent)
    number = _taken(lock, otherwise, wait, seconds)
    holder = _Holder(lock, number, seconds)
    holder.start()
    try:
        yield
    finally:
        holder.stop()
    if holder.lost:
        raise TablesBusy(
            f"this process could not write to {spark_path(lock.parent)} for {seconds:g} s, and may have lost its turn "
            "to another one: run it again"
        )


class _Holder(threading.Thread):
    """Writes the object of a lock again and again until it is given up."""

    def __init__(self, lock: Path, number: int, seconds: float) -> None:
        super().__init__(name="featuregate fleet lease", daemon=True)
        self.lost = False
        self._lock = lock
        self._number = number
        self._seconds = seconds
        self._given_up = threading.Event()

    def run(self) -> None:
        alive = monotonic()
        while not self._given_up.wait(self._seconds / _BEATS):
            with suppress(Exception):  # of any backend: the next beat may get through
                if _newest(self._lock).number > self._number:
                    self.lost = True
                    return
                _object(self._lock, self._number).write_text(_mark())
                alive = monotonic()
            if monotonic() - alive > self._seconds:
                self.lost = True

    def stop(self) -> None:
        self._given_up.set()
        self.join()
        if not self.lost:
            with suppress(Exception):  # it runs out by itself
                _object(self._lock, self._number).write_text(_FREE)


def _taken(lock: Path, otherwise: str, wait: float, seconds: float) -> int:
    """Return the number under which this process has the lock."""
    until = monotonic() + wait
    while True:
        newest = _newest(lock)
        if newest.text != _FREE and _lives(lock, newest, seconds):
            if monotonic() >= until:
                raise TablesBusy(otherwise)
        elif _made(_object(lock, newest.number + 1)):
            _remove_older(lock, newest.number)
            return newest.number + 1


def _lives(lock: Path, seen: _Number, seconds: float) -> bool:
    """Return whether an object changes before it has run out."""
    pause, until = threading.Event(), monotonic() + seconds
    while monotonic() < until:
        pause.wait(seconds / _BEATS / 2)
        if _newest(lock) != seen:
            return True
    return False


def _newest(lock: Path) -> _Number:
    while number := max(_numbers(lock), default=0):
        with suppress(FileNotFoundError):  # the next holder has removed it since
            return _Number(number, read_now(_object(lock, number)))
    return _Number(0, _FREE)


def _numbers(lock: Path) -> list[int]:
    return [int(path.name.rpartition(".")[2]) for path in lock.parent.glob(f"{lock.name}.*")]


def _object(lock: Path, number: int) -> Path:
    return lock.with_name(f"{lock.name}.{number:0{_DIGITS}}")


def _made(made: Path) -> bool:
    """Make an object unless there is one; return whether it was this process."""
    mark = _mark()
    if made.protocol in OF_HADOOP:  # type: ignore[attr-defined]
        return _renamed(made, mark)
    try:
        _write_new(made, mark)
    except FileExistsError:
        return False
    try:
        _write_new(made, mark)
    except FileExistsError:
        return True
    raise StorageFailed(
        f"{spark_path(made.parent)}: this storage, or its backend, replaces an object that was to be made only where "
        "there is none, so that two runs could write at once: take another storage, or a newer backend"
    )


def _write_new(made: Path, mark: str) -> None:
    with made.open("xb") as file:
        file.write(mark.encode())


def _renamed(made: Path, mark: str) -> bool:
    half = made.with_name(f".{token_hex(8)}.half")
    half.write_text(mark)
    with suppress(OSError):  # what some backends say of a target that exists
        rename_over_none(half, made)
    with suppress(FileNotFoundError):
        half.unlink()
    return made.exists() and read_now(made) == mark


def _remove_older(lock: Path, number: int) -> None:
    for older in _numbers(lock):
        if older <= number:
            with suppress(FileNotFoundError):
                _object(lock, older).unlink()


def _mark() -> str:
    return token_hex(8)
