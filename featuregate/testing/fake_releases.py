"""What nodes of each release tell when they are new, from what the catalog captured of real ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from featuregate.catalog.levels import METADATA_VERSION, release_levels
from featuregate.catalog.releases import captured

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ReleaseFacts", "release_facts"]

_BROKERS_ONLY: Final = frozenset({0, 3})
"""Produce and Metadata: controllers have neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFacts:
    """What a new node of one release tells, in a cluster that was formatted for it."""

    api_ranges: Mapping[str, Mapping[int, tuple[int, int]]]
    """By role, ``broker`` or ``controller``: API key to lowest and highest version."""
    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]


def release_facts(release: str) -> ReleaseFacts:
    """Look a release up, such as ``"3.9"`` or ``"3.9.2"``; of a longer number, the captured release it begins with.

    Raises
    ------
    ValueError
        No broker of this release was captured.
    """
    known = next((row for row in captured().values() if f"{release}.".startswith(f"{row.release}.")), None)
    if known is None:
        raise ValueError(f"no broker of release {release} was captured, only of {', '.join(captured())}")
    supported = known.features
    levels = release_levels(supported[METADATA_VERSION][1]) if METADATA_VERSION in supported else {}
    return ReleaseFacts(
        api_ranges={
            "broker": known.apis,
            "controller": {key: versions for key, versions in known.apis.items() if key not in _BROKERS_ONLY},
        },
        supported=supported,
        finalized={name: level for name, level in levels.items() if 0 < level <= supported.get(name, (0, 0))[1]},
    )
