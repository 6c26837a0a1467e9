"""The identity of an assignment: which messages may still be committed. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Assignment:
    """What a member was given between two changes of its partitions. A transaction keeps the one it runs in (R9)."""

    current: bool = True
    """Whether nothing has changed since. If not, other members own the messages, or the messages come again."""
