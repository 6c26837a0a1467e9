"""One writer at a time: locks of files beside the tables."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from featuregate_fleet.errors import TablesBroken, TablesBusy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_REPORTS: Final = "all reports"
"""In place of a cluster, whose name has no spaces."""
_REPORT_SECONDS: Final = 60.0


def one_writer(tables: Path, cluster: str) -> AbstractContextManager[None]:
    """Refuse a second run over the same tables, which would share the checkpoint of the first one."""
    tables.mkdir(parents=True, exist_ok=True)
    return alone(tables / f".{cluster}.lock", f"another run writes the tables of {cluster}: wait for its end")


def adding_report(tables: Path) -> AbstractContextManager[None]:
    """Let one process at a time add a report; a run may go on meanwhile, and retain, forget and compact may not."""
    busy = f"the report was not kept: another process has been writing the table readiness for {_REPORT_SECONDS:g} s"
    return alone(tables / f".{_REPORTS}.lock", busy, _REPORT_SECONDS)


@contextmanager
def no_other_writer(tables: Path, cluster: str) -> Iterator[None]:
    """Refuse all runs over these tables, also those of other clusters: files that they are writing would vanish."""
    with ExitStack() as locks:
        locks.enter_context(one_writer(tables, cluster))
        others = {lock.name[1 : -len(".lock")] for lock in tables.glob(".*.lock")} | {_REPORTS}
        for other in sorted(others - {cluster}):
            locks.enter_context(one_writer(tables, other))
        yield


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
