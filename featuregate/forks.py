"""What a fork may not meet, and who has to know of it: threads, locks and sockets do not survive one.

No thread runs in a forked child but the one that forked, and every socket is one of the parent, too. A module that
another thread was importing stays half a module there, whose lock no thread holds: an import of it never returns. So
what a thread of ours needs is imported by :func:`load` before the thread starts, and a fork waits while our code
imports something in another thread.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import Final, Protocol

from featuregate.logs import get_logger

logger = get_logger("featuregate")

IMPORT_SECONDS: Final = 1.0
"""How long a fork waits for imports in other threads."""
LOOP_MODULES: Final = (
    "asyncio",
    "concurrent.futures.thread",
    "difflib",
    "encodings.idna",
    "json",
    "reprlib",
    "tokenize",
)
"""What a loop, a name server's answer, and the log of an exception need in any thread."""

_IMPORTLIB: Final = "<frozen importlib._bootstrap>"


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


def _before_fork() -> None:
    until = time.monotonic() + IMPORT_SECONDS
    while _is_importing() and time.monotonic() < until:
        time.sleep(0.001)


def _is_importing() -> bool:
    """Say whether our code imports something in another thread."""
    here = threading.get_ident()
    return any(_imports(frame) for thread, frame in sys._current_frames().items() if thread != here)  # noqa: SLF001


def _imports(frame: FrameType | None) -> bool:
    """Say whether a thread is in an import that a frame of ours has begun."""
    importing = False
    while frame is not None:
        importing = importing or frame.f_code.co_filename == _IMPORTLIB
        if importing and frame.f_globals.get("__name__", "").startswith("featuregate"):
            return True
        frame = frame.f_back
    return False


def _after_fork() -> None:
    for owner in list(_alive):
        try:
            owner.forked()
        except Exception:
            logger.exception("%r could not be made ready in a forked child", type(owner).__name__)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
