"""Tell objects with threads that their process is a forked child, where no thread runs but the one that forked."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["Forkable", "follow_forks"]


class Forkable(Protocol):
    """An object that has threads or locks."""

    def forked(self) -> None:
        """Take new locks, and forget the threads: called in the child."""
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
