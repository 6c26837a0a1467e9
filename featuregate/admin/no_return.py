"""Which levels cannot be lowered again once they are raised, and which releases of Kafka no longer start then. Pure.

``metadata.version`` goes down only as far as no level in between changed the metadata (KIP-778), and ``kraft.version``
never goes down. A node does not start where it reads a level that it does not support. Which levels a release supports
is from real nodes of each release (``api_ranges.json``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import (
    KRAFT_VERSION,
    METADATA_VERSION,
    captured,
    is_safe_downgrade,
    level_name,
    metadata_levels,
)

if TYPE_CHECKING:
    from featuregate.admin.updates import Update


ONE_WAY: Final = frozenset({METADATA_VERSION, KRAFT_VERSION})
"""The features of which some levels cannot be lowered again; all others go down to 0."""


class NoReturn(NamedTuple):
    """A level that an update raises, and that cannot be lowered to what it was."""

    feature: str
    level: int
    """The level after the update."""
    lowest: int | None
    """The lowest level that it can be lowered to from there. None: the level is newer than this featuregate knows."""
    first_release: str | None
    """The oldest release that starts with ``lowest``; older ones are out of reach. None: not known."""

    def __str__(self) -> str:
        if self.lowest is None:
            return f"{self.feature}: this featuregate does not know {self.level}, nor whether it can be lowered again"
        below = "" if self.lowest == self.level else f" below {self.lowest} ({level_name(self.feature, self.lowest)})"
        after = f", and Kafka before {self.first_release} does not start any more" if self.first_release else ""
        return f"{self.feature}: {self.level} cannot be lowered{below} again{after}"


def no_return(updates: Iterable[Update], levels: Mapping[str, int]) -> tuple[NoReturn, ...]:
    """Return the levels that these updates raise for good.

    Parameters
    ----------
    levels
        Feature to level before the updates, as ``View.finalized``. A feature that is absent is at 0.
    """
    return tuple(_found(updates, levels))


def first_release_with(feature: str, level: int) -> str | None:
    """Return the oldest release whose nodes support a level, None where no captured one does."""
    return next((row.release for row in captured().values() if row.features.get(feature, (0, 0))[1] >= level), None)


def lowest_reachable(feature: str, level: int) -> int | None:
    """Return the lowest level that a feature can be lowered to from ``level``; None where that is not known."""
    if feature not in ONE_WAY:
        return 0
    if feature == KRAFT_VERSION:
        return level
    if level not in metadata_levels():
        return None
    return min(
        lower for lower in metadata_levels() if lower == level or (lower < level and is_safe_downgrade(level, lower))
    )


def _found(updates: Iterable[Update], levels: Mapping[str, int]) -> Iterator[NoReturn]:
    for update in updates:
        lowest, before = lowest_reachable(update.feature, update.level), levels.get(update.feature, 0)
        if update.level > before and (lowest is None or lowest > before):
            release = None if lowest is None else first_release_with(update.feature, lowest)
            yield NoReturn(update.feature, update.level, lowest, release)
