"""Tell objects with threads or sockets that their process is a forked child.

No thread runs there but the one that forked, and every socket is one of the parent, too.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """An object that has threads, locks or sockets."""

    def forked(self) -> None:
        """Take new locks, forget the threads, let go of sockets: called in the child."""
        ...


_alive: weakref.WeakSet[Forkable] = weakref.WeakSet()


def follow_forks(owner: Forkable) -> None:
    """Call ``owner.forked()`` in each forked child for as long as the owner is alive."""
    _alive.add(owner)


def _after_fork() -> None:
    for owner in list(_alive):
        owner.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
