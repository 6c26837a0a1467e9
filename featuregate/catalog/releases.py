"""What brokers of each release advertise, captured from real brokers."""

import functools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from featuregate.catalog.load import load

_OPTIONAL: Final = frozenset({71, 72})
"""Telemetry: advertised only where an exporter is configured."""
_KRAFT_ONLY: Final = frozenset({55, 64, 74, 75, 80, 81})
"""Advertised by brokers in KRaft, and not by those of the same release with ZooKeeper (``listeners`` in the request
schemas of Apache Kafka 3.9.2). From 4.0 on there is only KRaft."""
_KRAFT_FOR_ALL: Final = (4, 0)
_PRODUCE: Final = 0
_OLDEST_PRODUCE: Final = 3
"""Brokers from 4.0 on advertise Produce from 0 on for librdkafka's sake, and refuse versions 0 to 2 (KAFKA-18659)."""
_PATCHED: Final = {"4.0": (1, {11: (0, 9)})}
"""The first patch of a release whose brokers serve other versions of an API than the captured release: 4.0.1 and newer
serve JoinGroup 0 and 1 again (KAFKA-19444)."""


class CapturedRelease(NamedTuple):
    """The ApiVersions response of one real broker of a release."""

    release: str
    apis: Mapping[int, tuple[int, int]]
    features: Mapping[str, tuple[int, int]]
    captured_from: str
    """The build and the mode of the broker."""

    def served(self, api_key: int) -> tuple[int, int] | None:
        """Return the versions of an API that it really serves; None if it does not have the API."""
        found = self.apis.get(api_key)
        if found and api_key == _PRODUCE and numbers_of(self.release) >= _KRAFT_FOR_ALL:
            return max(found[0], _OLDEST_PRODUCE), found[1]
        return found

    def serves(self, api_key: int, version: int) -> bool:
        """Return whether it serves a version of an API."""
        lowest, highest = self.served(api_key) or (0, -1)
        return lowest <= version <= highest


class Needed(NamedTuple):
    """What a broker of a release or a newer one must advertise."""

    apis: Mapping[int, int]
    """API key to the highest version that it must reach."""
    metadata_level: int | None
    """The level that a broker which supports ``metadata.version`` at all must support."""


@functools.cache
def captured() -> Mapping[str, CapturedRelease]:
    """Return what was captured, by release, oldest first."""
    table = load("api_ranges") or {}
    return {release: _captured(release, table[release]) for release in sorted(table, key=numbers_of)}


def captured_as(version: str) -> CapturedRelease | None:
    """Return what brokers of a version serve, such as ``4.0.1``: the capture of its release, with what a patch changed.

    None: no broker of the release was captured. Without a patch, ``4.0`` is the first one.
    """
    release = release_of(version)
    found = captured().get(release)
    patch, apis = _PATCHED.get(release, (0, {}))
    if found is None or not apis or numbers_of(version) < (*numbers_of(release), patch):
        return found
    return found._replace(release=version, apis={**found.apis, **apis})


@functools.cache
def captured_releases() -> tuple[str, ...]:
    """Return the releases of which a broker was captured, oldest first."""
    return tuple(captured())


@functools.cache
def needed_for(release: str) -> Needed:
    """Return what a broker of ``release`` or a newer one must advertise."""
    return needed(release, captured())


def needed(release: str, table: Mapping[str, CapturedRelease]) -> Needed:
    """Derive what distinguishes a release from older ones, from a table of captured releases.

    The highest version of each API counts. APIs that a later release has removed (those between ZooKeeper-era brokers)
    do not count, nor do those that depend on the mode or the configuration of a broker.
    """
    wanted = table[release]
    untold = _OPTIONAL if numbers_of(release) >= _KRAFT_FOR_ALL else _OPTIONAL | _KRAFT_ONLY
    later = [other.apis for other in table.values() if numbers_of(other.release) >= numbers_of(release)]
    apis = {
        key: min(apis[key][1] for apis in later)
        for key in wanted.apis
        if key not in untold and all(key in apis for apis in later)
    }
    level = wanted.features.get("metadata.version")
    return Needed(apis, level[1] if level else None)


def release_of(version: str) -> str:
    """Cut a version down to its release, as Kafka counts them: ``3.9.2`` is 3.9, and ``0.10.0.1`` is 0.10.0."""
    numbers = version.split(".")
    return ".".join(numbers[: 3 if numbers[0] == "0" else 2])


def _captured(release: str, row: Mapping[str, Any]) -> CapturedRelease:
    apis = {int(key): (lowest, highest) for key, (lowest, highest) in row["apis"].items()}
    features = {name: (lowest, highest) for name, (lowest, highest) in row["features"].items()}
    return CapturedRelease(release, apis, features, row["captured_from"])


def numbers_of(release: str) -> tuple[int, ...]:
    """Return the numbers of a release, by which releases are compared: ``3.9`` is (3, 9)."""
    return tuple(map(int, release.split(".")))
