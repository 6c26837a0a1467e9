"""What a door is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuzzing.mutants import Change


@dataclass(frozen=True, kw_only=True)
class Door:
    """A place where bytes of a peer come in. ``enter`` may raise the errors that it ``documents``, and no others."""

    name: str
    enter: Callable[[bytes], object]
    examples: Callable[[], Sequence[bytes]]
    change: Change
    documents: tuple[type[Exception], ...] = ()
