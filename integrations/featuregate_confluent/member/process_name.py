"""The stable name of this process among its siblings: what its v2 producer's ``transactional.id`` ends with.

A process that dies inside a transaction leaves it open. Its successor ends it at once if it has the same
``transactional.id``; else its partitions stay blocked until the broker aborts the transaction, which
takes ``transaction.timeout.ms`` and up to 10 s more (``transaction.abort.timed.out.transaction.cleanup.interval.ms``).
"""

from __future__ import annotations

import hashlib
import secrets
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from filelock import FileLock, Timeout

from featuregate.errors import ConfigError
from featuregate.files import local_path

if TYPE_CHECKING:
    import os
    from pathlib import Path

PROCESSES: Final = 1024
"""Processes of one app on one host; a larger number means that the locks of the folder do not work."""
LONGEST: Final = 100
"""Characters of one part of a name. Names stand in file names, ACLs and logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessName:
    """A name that no sibling has while this is held; keep it as long as the producer lives."""

    name: str
    """Letters, digits and ``_.-~%`` alone; at most 105 characters."""
    stable: bool
    """Whether this process gets the same name when it is started again."""
    why: str
    """Where the name comes from, and what follows from that."""
    _lock: FileLock | None = field(default=None, repr=False, compare=False)

    def release(self) -> None:
        """Let a sibling have the name. Call it when the producer is closed, not before; again does nothing."""
        if self._lock is not None:
            self._lock.release()


def claim_process_name(
    app_id: str, *, instance_id: str | None = None, state_dir: str | os.PathLike[str] | None = None
) -> ProcessName:
    """Return the name of this process: of ``instance_id``, else of the host and the lowest free number, else random.

    Numbers are taken by file locks in ``state_dir``. The system frees a lock however its process ends, so that the one
    which is started in its place gets the same number. Hosts that share the folder do not share numbers; two hosts (or
    containers) that have the same host name must not have the same ``app_id`` and different folders. Raises ConfigError
    (``instance_id`` is empty, or ``state_dir`` cannot hold locks).
    """
    if instance_id is not None:
        if not instance_id:
            raise ConfigError("instance_id", "must not be empty: leave it out, or give each process its own")
        return ProcessName(name=_safe(instance_id), stable=True, why=f"this is instance {instance_id!r}")
    if state_dir is not None:
        return _numbered(app_id, local_path("state_dir", state_dir), PROCESSES)
    return ProcessName(
        name=secrets.token_hex(8),
        stable=False,
        why=(
            "there is neither an instance id nor a state folder, so the name is random: "
            "after a crash the takeover waits for transaction.timeout.ms and up to 10 s more"
        ),
    )


def _numbered(app_id: str, folder: Path, most: int) -> ProcessName:
    host = _safe(socket.gethostname() or "localhost")
    lock_name = f"{_safe(app_id)}-process-{host}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(most):
            lock = _try_lock(folder / f"{lock_name}-{number}.lock")
            if lock is not None:
                why = (
                    f"number {number} was free in {folder}; the next process of {app_id!r} here gets it after this one"
                )
                return ProcessName(name=f"{host}-{number}", stable=True, why=why, _lock=lock)
    except OSError as error:
        raise ConfigError("state_dir", f"{folder} cannot hold locks: {error.strerror or error}") from error
    raise ConfigError("state_dir", f"{folder}: all {most} numbers of {app_id!r} on {host} are taken")


def _try_lock(path: Path) -> FileLock | None:
    # The thread that stops the app may be another than the thread that started it.
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock


def _safe(text: str) -> str:
    """Spell any text with safe characters, and never two texts alike."""
    safe = quote(text, safe="", errors="surrogatepass")
    if len(safe) <= LONGEST:
        return safe
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{safe[: LONGEST - len(digest) - 1]}~{digest}"
