"""Levels that cannot be lowered again, or leave something behind; and which releases of Kafka start with a level. Pure.

``metadata.version`` goes down only as far as no level in between changed the metadata (KIP-778), and ``kraft.version``
never goes down. A node does not start where it reads a level that it does not support or that was lowered: it loads the
metadata log from its newest snapshot on (seen: 4.3.0 to 3.9.2, 4.2.0 to 4.0.0), and writes a snapshot after some time,
for no change of a level. Which levels a release supports is from real nodes (``api_ranges.json``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import (
    KRAFT_VERSION,
    METADATA_VERSION,
    captured,
    effects_of,
    is_safe_downgrade,
    level_name,
    metadata_levels,
)

if TYPE_CHECKING:
    from featuregate.admin.updates import Update
    from featuregate.view.cluster_view import View


UNTIL: Final = "wait until every node has written a snapshot of the metadata log (an hour by default)"
"""`WHAT_TO_DO` in short."""
WHAT_TO_DO: Final = (
    "wait until every node has written a snapshot since then (__cluster_metadata-0/*.checkpoint; by "
    "metadata.log.max.snapshot.interval.ms each hour), or restart the nodes with a shorter interval"
)
ONE_WAY: Final = frozenset({METADATA_VERSION, KRAFT_VERSION})
"""The features of which some levels cannot be lowered again; all others go down to 0."""


class NoReturn(NamedTuple):
    """A level that an update raises, and that cannot be lowered to what it was, or not without traces."""

    feature: str
    level: int
    """The level after the update."""
    lowest: int | None
    """The lowest level that it can be lowered to from there. None: the level is newer than this featuregate knows."""
    first_release: str | None
    """The oldest release that starts with ``lowest``; older ones are out of reach. None: not known."""
    stays: tuple[str, ...] = ()
    """The configs that stay as the level has changed them when it is lowered again."""

    def __str__(self) -> str:
        if self.stays:
            return (
                f"{self.feature}: {self.level} can be lowered again, and {' and '.join(self.stays)} "
                f"{'stay' if len(self.stays) > 1 else 'stays'} as it has changed it"
            )
        if self.lowest is None:
            return f"{self.feature}: this featuregate does not know {self.level}, nor whether it can be lowered again"
        below = "" if self.lowest == self.level else f" below {self.lowest} ({level_name(self.feature, self.lowest)})"
        after = f", and Kafka before {self.first_release} does not start any more" if self.first_release else ""
        return f"{self.feature}: {self.level} cannot be lowered{below} again{after}"


def no_return(updates: Iterable[Update], levels: Mapping[str, int]) -> tuple[NoReturn, ...]:
    """Return the levels that these updates raise for good.

    ``levels``: feature to level before the updates, as ``View.finalized``. A feature that is absent is at 0.
    """
    found = []
    for update in updates:
        lowest, before = lowest_reachable(update.feature, update.level), levels.get(update.feature, 0)
        if update.level <= before:
            continue
        release = None if lowest is None else first_release_with(update.feature, lowest)
        stays: set[str] = set()
        if lowest is not None and lowest <= before:
            stays = {each.name for each in effects_of(update.feature, before, update.level) if each.stays}
        if stays or lowest is None or lowest > before:
            found.append(NoReturn(update.feature, update.level, lowest, release, tuple(sorted(stays))))
    return tuple(found)


class WayBack(NamedTuple):
    """A level that an update raises, and that older releases of Kafka do not start with."""

    feature: str
    level: int
    lower_to: int
    """The level before the update, or the lowest one that can be reached."""
    first_release: str | None
    """The oldest release whose nodes start with the level; None: not known."""

    def __str__(self) -> str:
        if self.first_release is None:
            return f"{self.feature}: this featuregate does not know which releases of Kafka start with {self.level}"
        return (
            f"{self.feature}: Kafka before {self.first_release} does not start with {self.level}; to go back, lower it "
            f"to {self.lower_to}, then {UNTIL}"
        )


def way_back(updates: Iterable[Update], levels: Mapping[str, int]) -> tuple[WayBack, ...]:
    """Return the levels that these updates raise, and with which older nodes do not start until they are lowered.

    A level that no update can lower, and one with which the same releases start as before, is not among them.
    """
    found = []
    for update in updates:
        before = levels.get(update.feature, 0)
        if update.level > before:
            lowest = lowest_reachable(update.feature, update.level)
            target = before if lowest is None else max(before, lowest)
            first = first_release_with(update.feature, update.level)
            if first is None or first != first_release_with(update.feature, target):
                found.append(WayBack(update.feature, update.level, target, first))
    return tuple(found)


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


def oldest_release_now(levels: Mapping[str, int]) -> tuple[str, tuple[str, ...]] | None:
    """Return the oldest release whose nodes start with these levels as they are, and the levels that ask for it.

    None where no level asks for any, or where one is newer than this featuregate knows.
    """
    releases = list(captured())
    firsts = {name: first_release_with(name, level) for name, level in sorted(levels.items()) if level}
    known = [first for first in firsts.values() if first is not None]
    if not known or len(known) < len(firsts):
        return None
    oldest = max(known, key=releases.index)
    return oldest, tuple(name for name, first in firsts.items() if first == oldest)


def may_be_in_log(view: View, updates: Iterable[Update]) -> dict[str, int]:
    """Return levels that the metadata log may hold though no update lowers them: feature to the lowest of them.

    Nodes report the levels of now. A level that was raised and lowered before is seen nowhere, and stays in the log
    until the next snapshot. It is one that a node here supports, that goes down to the level of now, and that nodes of
    the release to go back to do not support: the release of the wanted ``metadata.version``, where there is one.
    """
    wanted = {update.feature: update.level for update in updates if update.upgrade_type != "upgrade"}
    target = metadata_levels().get(wanted.get(METADATA_VERSION, -1))
    row = captured().get(target.release) if target is not None else None
    found: dict[str, int] = {}
    for feature, level in wanted.items():
        now = view.level(feature)
        top = max((node.supported.get(feature, (0, 0))[1] for node in view.answering), default=0)
        if now is not None and now <= level:
            served = row.features.get(feature, (0, 0))[1] if row is not None else level
            steps = metadata_levels() if feature == METADATA_VERSION else range(top + 1)
            hidden = (step for step in steps if max(now, served) < step <= top)
            lowest = next((step for step in hidden if (lowest_reachable(feature, step) or 0) <= now), None)
            if lowest is not None:
                found[feature] = lowest
    return found


def stays_in_log(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the levels that one request lowers, and that stay in the log after it: feature to the level before.

    ``before``, ``after``: feature to level, for the features of the request.
    """
    return {name: before[name] for name, level in sorted(after.items()) if level < before.get(name, 0)}


def in_log(older: str) -> str:
    """Say what follows from a level in the log for older nodes, such as ``a node of Kafka before 4.0``."""
    return f"may be in the metadata log still: {older} that reads it there does not start"
