"""What brokers of each release advertise, captured from real ones."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog.data import load

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CapturedRelease", "Needed", "captured", "captured_releases", "needed", "needed_for"]

_OPTIONAL: Final = frozenset({71, 72})
"""Telemetry: advertised only where an exporter is configured."""


class CapturedRelease(NamedTuple):
    """What one real broker of a release said to ApiVersions."""

    release: str
    apis: Mapping[int, tuple[int, int]]
    features: Mapping[str, tuple[int, int]]
    captured_from: str
    """Which build, and in which mode."""


class Needed(NamedTuple):
    """What a broker must advertise to count as one of a release or newer."""

    apis: Mapping[int, int]
    """API key to the highest version that it must reach."""
    metadata_level: int | None
    """The level that a broker which supports ``metadata.version`` at all must support."""


@functools.cache
def captured() -> Mapping[str, CapturedRelease]:
    """Return what was captured, by release, oldest first."""
    table = load("api_ranges") or {}
    return {release: _captured(release, table[release]) for release in sorted(table, key=_numbers)}


@functools.cache
def captured_releases() -> tuple[str, ...]:
    """Return the releases of which a broker was captured, oldest first."""
    return tuple(captured())


@functools.cache
def needed_for(release: str) -> Needed:
    """Return what a broker must advertise to count as one of ``release`` or newer."""
    return needed(release, captured())


def needed(release: str, table: Mapping[str, CapturedRelease]) -> Needed:
    """Work out what tells a release from older ones, by a table of what was captured.

    The highest version of each API counts. APIs that a later release has no more (those between ZooKeeper-era brokers)
    tell nothing, nor do those that depend on a configuration.
    """
    wanted = table[release]
    later = [other.apis for other in table.values() if _numbers(other.release) >= _numbers(release)]
    apis = {
        key: min(apis[key][1] for apis in later)
        for key in wanted.apis
        if key not in _OPTIONAL and all(key in apis for apis in later)
    }
    level = wanted.features.get("metadata.version")
    return Needed(apis, level[1] if level else None)


def _captured(release: str, row: Mapping[str, object]) -> CapturedRelease:
    match row:
        case {"apis": dict(apis), "features": dict(features), "captured_from": str(captured_from)}:
            by_key = {int(key): (low, high) for key, (low, high) in apis.items()}
            levels = {name: (low, high) for name, (low, high) in features.items()}
            return CapturedRelease(release, by_key, levels, captured_from)
    raise AssertionError(f"data/api_ranges.json is not what it should be at {release}")


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
