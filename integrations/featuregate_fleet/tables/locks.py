"""One writer at a time: locks of files next to the tables, or leases on a storage."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from featuregate_fleet.errors import TablesBroken, TablesBusy
from featuregate_fleet.files.storage import is_local, on_s3, spark_path
from featuregate_fleet.tables.leases import lease

_ALL: Final = "all clusters"
"""In place of a cluster, whose name has no spaces, on a storage where Delta Lake cannot keep two writers apart."""
_OTHER_DRIVER: Final = (
    "another process writes these tables, of this cluster or of another one, and on S3 Delta Lake allows one: wait for "
    "its end, or read all clusters in one process"
)
_SECONDS: Final = 60.0
_MAKING_SECONDS: Final = 600.0
"""Once for each table; the first rows are parsed in this time, too."""


def one_writer(tables: Path, cluster: str) -> AbstractContextManager[None]:
    """Refuse a second run over the same tables, which would share the checkpoint of the first one.

    On S3 it is also refused to another process for another cluster: Delta Lake may lose what one of two drivers writes.
    """
    return _turn(tables, cluster, f"another run writes the tables of {cluster}: wait for its end")


def adding_report(tables: Path, cluster: str) -> AbstractContextManager[None]:
    """Let one process at a time add a report; a run may go on meanwhile, and retain, forget and compact may not."""
    busy = f"the report was not kept: another process has been writing those of {cluster} for {_SECONDS:g} s"
    return _turn(tables, _reports(cluster), busy, _SECONDS)


def making_table(tables: Path, table: str) -> AbstractContextManager[None]:
    """Let one cluster at a time write the first rows of a table: two first commits would contradict each other."""
    busy = f"another process has been making the table {table} for {_MAKING_SECONDS:g} s"
    return _turn(tables, f"{table} table", busy, _MAKING_SECONDS)


@contextmanager
def no_other_writer(tables: Path, cluster: str) -> Iterator[None]:
    """Refuse a run over the rows of this cluster: files that it is writing would vanish. Other clusters go on."""
    busy = f"a report of {cluster} is kept just now: wait for its end"
    with one_writer(tables, cluster), _turn(tables, _reports(cluster), busy):
        yield


def _reports(cluster: str) -> str:
    return f"{cluster} reports"


@contextmanager
def _turn(tables: Path, whose: str, otherwise: str, seconds: float = 0) -> Iterator[None]:
    lock = _lock(tables, whose)
    if is_local(tables):
        tables.mkdir(parents=True, exist_ok=True)
        with alone(lock, otherwise, seconds):
            yield
        return
    with _DRIVER.of(tables, seconds) if on_s3(tables) else nullcontext(), lease(lock, otherwise, seconds):
        yield


def _lock(tables: Path, whose: str) -> Path:
    return tables / f".{whose}.lock"


class _Driver:
    """The leases by which this process alone writes tables on S3, of any cluster, from its first turn to its last."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._users: Counter[str] = Counter()
        self._leases: dict[str, ExitStack] = {}

    @contextmanager
    def of(self, tables: Path, seconds: float) -> Iterator[None]:
        name = spark_path(tables)
        with self._turn:
            if not self._users[name]:
                self._leases[name] = ExitStack()
                self._leases[name].enter_context(lease(_lock(tables, _ALL), _OTHER_DRIVER, seconds))
            self._users[name] += 1
        try:
            yield
        finally:
            with self._turn:
                self._users[name] -= 1
                if not self._users[name]:
                    self._leases.pop(name).close()


_DRIVER: Final = _Driver()


@contextmanager
def alone(lock: Path, otherwise: str, seconds: float = 0) -> Iterator[None]:
    """Hold a lock, or fail after some seconds with what the caller says."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 - --help needs none

    held = FileLock(
        lock, timeout=seconds, thread_local=False
    )  # a thread of Spark may take it, and another give it back
    try:
        held.acquire()
    except Timeout:
        raise TablesBusy(otherwise) from None
    except OSError as error:  # a disk that is full, or one that may not be written
        raise TablesBroken(f"{lock} cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        held.release()
