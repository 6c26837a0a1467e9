"""A fork waits while another thread imports our code, or our code something: the child could never import that again.

It is here, and imports next to nothing, because an app's thread may be the first that uses a name of the package.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock, get_ident

TYPE_CHECKING = False  # see featuregate
if TYPE_CHECKING:
    from types import FrameType

IMPORT_SECONDS = 1.0
"""How long a fork waits for imports in other threads."""
_IMPORTLIB = "<frozen importlib._bootstrap>"


def before_fork() -> None:
    """Wait while another thread is in such an import, for a second at the most."""
    never = allocate_lock()
    never.acquire()
    for _ in range(int(IMPORT_SECONDS * 1000)):
        if not _is_importing():
            break
        never.acquire(timeout=0.001)


def _is_importing() -> bool:
    """Say whether our code imports something in another thread."""
    here = get_ident()
    return any(_imports(frame) for thread, frame in sys._current_frames().items() if thread != here)  # noqa: SLF001


def _imports(frame: FrameType | None) -> bool:
    """Say whether a thread is in an import that a frame of ours has begun, or of a module of ours."""
    importing = False
    while frame is not None:
        importing = importing or frame.f_code.co_filename == _IMPORTLIB
        is_module = frame.f_code.co_name == "<module>"
        if (importing or is_module) and frame.f_globals.get("__name__", "").startswith("featuregate"):
            return True
        frame = frame.f_back
    return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork)
