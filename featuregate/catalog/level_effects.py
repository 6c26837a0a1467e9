"""What a level changes in addition to itself, as measured on real clusters (``scripts/effects.py``). Pure."""

from __future__ import annotations

import functools
from typing import NamedTuple

from featuregate.catalog.load import load


class Effect(NamedTuple):
    """One difference that a level made, and whether it stays when the level is lowered again."""

    feature: str
    level: int
    kind: str
    """``config``, ``acl``, ``group``, ``quota`` or ``user``."""
    where: str
    """Whose value it is: ``a broker with a value in its properties``."""
    name: str
    """``min.insync.replicas``."""
    before: str
    after: str
    lowered_again: str | None
    """The value after the level was lowered again; None where it cannot be."""
    releases: tuple[str, ...]
    """The releases on which it was measured."""

    @property
    def stays(self) -> bool:
        """Whether lowering the level does not bring the value back."""
        return self.lowered_again != self.before


@functools.cache
def effects() -> tuple[Effect, ...]:
    """Return every measured effect."""
    return tuple(Effect(*row)._replace(releases=tuple(row[-1])) for row in load("effects")["effects"])


def effects_of(feature: str, before: int, level: int) -> tuple[Effect, ...]:
    """Return the effects of raising a feature from one level to another."""
    return tuple(each for each in effects() if each.feature == feature and before < each.level <= level)


def effects_measured(feature: str, level: int) -> bool:
    """Return whether the effects of a level were measured on some release."""
    return any([feature, level] in levels for levels in load("effects")["measured"].values())
