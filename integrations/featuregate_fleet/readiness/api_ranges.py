"""Which API versions a release serves, and to whom. Pure.

The ranges are those of the catalog, which were captured from real brokers. What a broker serves differs from what it
advertises in the few cases below.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from featuregate.catalog import CapturedRelease, api_name, captured

__all__ = ["API_VERSIONS", "Served", "describe", "dropped_in", "is_internal", "served"]

API_VERSIONS: Final = 18
"""A broker answers any version of ApiVersions, so that a client can negotiate (KIP-511)."""

_TELEMETRY: Final = frozenset({71, 72})
"""Served only where a broker has an exporter. Clients that find none go on without (KIP-714)."""

_INTERNAL: Final = frozenset({4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82})
"""APIs that brokers and controllers alone use: LeaderAndIsr to ControlledShutdown, the Raft quorum, and the
registration, heartbeats and forwarding of brokers (``listeners`` in Kafka's request schemas, and the APIs that need
CLUSTER_ACTION). Nodes use what the other node has, so that the check of clients does not apply."""

_PRODUCE: Final = 0
_OLDEST_PRODUCE: Final = 3
"""Brokers from 4.0 on advertise Produce from 0 on for librdkafka's sake, and refuse versions 0 to 2 (KAFKA-18659)."""
_PRODUCE_SINCE: Final = (4, 0)


class Served(NamedTuple):
    """The versions of an API that a release serves."""

    lowest: int
    highest: int

    def __str__(self) -> str:
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


def is_internal(api_key: int) -> bool:
    """Return whether only brokers and controllers use an API."""
    return api_key in _INTERNAL


def served(release: CapturedRelease, api_key: int) -> Served | None:
    """Return which versions of an API a release serves to clients; None if it does not have the API."""
    if api_key in _TELEMETRY:
        return Served(0, 2**15)
    if (found := release.apis.get(api_key)) is None:
        return None
    lowest, highest = found
    if api_key == _PRODUCE and _numbers(release.release) >= _PRODUCE_SINCE:
        lowest = max(lowest, _OLDEST_PRODUCE)
    return Served(0, 2**15) if api_key == API_VERSIONS else Served(lowest, highest)


def dropped_in(api_key: int, version: int, target: CapturedRelease) -> str | None:
    """Return the release that stopped serving a version, up to the target; None if that is not in the catalog."""
    releases = [release for release in captured().values() if _numbers(release.release) <= _numbers(target.release)]
    serving = [_serves(release, api_key, version) for release in releases]
    last = max((number for number, serves in enumerate(serving) if serves), default=-1)
    return releases[last + 1].release if 0 <= last < len(releases) - 1 else None


def _serves(release: CapturedRelease, api_key: int, version: int) -> bool:
    has = served(release, api_key)
    return has is not None and has.lowest <= version <= has.highest


def describe(release: CapturedRelease, api_key: int) -> str:
    """Say what a release serves of an API."""
    has = served(release, api_key)
    name = api_name(api_key)
    return f"Kafka {release.release} has no {name}" if has is None else f"Kafka {release.release} serves {name} {has}"


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
