"""A fork waits while another thread imports our code, or our code imports something or writes to a log.

The child could never import that again, and the stream of the log would be locked for good. It is here, and imports
next to nothing, because an app's thread may be the first that uses a name of the package.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock, get_ident

TYPE_CHECKING = False  # see featuregate
if TYPE_CHECKING:
    from types import FrameType

WAIT_SECONDS = 1.0
"""How long a fork waits for imports and logs in other threads."""
_IMPORTLIB = "<frozen importlib._bootstrap>"


def before_fork() -> None:
    """Wait while another thread is in such an import or log, for a second at the most."""
    never = allocate_lock()
    never.acquire()
    for _ in range(int(WAIT_SECONDS * 1000)):
        if not _is_busy():
            break
        never.acquire(timeout=0.001)


def _is_busy() -> bool:
    """Say whether our code imports something in another thread, or writes to a log."""
    here = get_ident()
    return any(_holds_a_lock(frame) for thread, frame in sys._current_frames().items() if thread != here)  # noqa: SLF001


def _holds_a_lock(frame: FrameType | None) -> bool:
    """Say whether a thread is in an import or a log that a frame of ours has begun, or in an import of ours."""
    found = False
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        found = found or name == "logging" or frame.f_code.co_filename == _IMPORTLIB
        if (found or frame.f_code.co_name == "<module>") and name.startswith("featuregate"):
            return True
        frame = frame.f_back
    return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork)
