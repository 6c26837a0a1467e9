"""What a fork may not meet, and who has to know of it: threads, locks and sockets do not survive one.

No thread runs in a forked child but the one that forked, and every socket is one of the parent, too. A module that
another thread was importing stays half a module there, whose lock no thread holds: an import of it never returns. So
what a thread of ours needs is imported by :func:`load` before the thread starts, and a fork waits while our code
imports something in another thread: see :mod:`featuregate.before_forks`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Final, Protocol

from featuregate.before_forks import before_fork
from featuregate.logs import get_logger

logger = get_logger("featuregate")

LOOP_MODULES: Final = (
    "asyncio",
    "concurrent.futures.thread",
    "difflib",
    "encodings.idna",
    "featuregate.loops.asyncio_loop",
    "json",
    "logging",
    "reprlib",
    "tokenize",
)
"""What a loop, a name server's answer, and the log of an exception need in any thread."""


class Forkable(Protocol):
    """An object that has threads, locks or sockets."""

    def forked(self) -> None:
        """Take new locks, forget the threads, let go of sockets: called in the child."""
        ...


_alive: weakref.WeakKeyDictionary[Forkable, None] = weakref.WeakKeyDictionary()


def follow_forks(owner: Forkable) -> None:
    """Call ``owner.forked()`` in each forked child for as long as the owner is alive, in the order of these calls."""
    _alive[owner] = None


def load(names: Iterable[str]) -> None:
    """Import modules in the caller's thread, for a thread that starts next. Where one is missing, its use says so."""
    for name in names:
        with suppress(ImportError, OSError):  # OSError: a library of the system is missing
            import_module(name)
    _wait_before_forks()


def _after_fork() -> None:
    for owner in list(_alive):
        try:
            owner.forked()
        except Exception:
            logger.exception("%r could not be made ready in a forked child", type(owner).__name__)


@cache
def _wait_before_forks() -> None:
    """Let forks wait for imports once more, before what the loaded modules do before a fork.

    The hook that was registered last is called first: that of logging takes its lock, which an import may wait for.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before_fork)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
