"""Which release of Kafka a node runs, by what it advertises: no node says it. Pure.

Not distinguished are the patches of a release, a build between two releases and the older one, a broker newer than the
catalog and its newest release, and with ZooKeeper releases with the same APIs. A distribution that leaves out an
API looks like an older release.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from featuregate.catalog import (
    METADATA_VERSION,
    api_name,
    captured_as,
    captured_releases,
    level_name,
    metadata_levels,
    needed_for,
)
from featuregate.errors import ConfigError
from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange, served

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

ReleaseNumber = tuple[int, ...]
"""Such as (3, 9)."""


class KnownRelease(NamedTuple):
    """The newest release of which a broker has everything."""

    release: str
    others: tuple[str, ...] = ()
    """Older releases that the answer does not tell apart from it."""

    def __str__(self) -> str:
        newer = " or newer" if self.release == captured_releases()[-1] else ""
        return " or ".join((*self.others, self.release)) + newer


def release_of_broker(broker: BrokerAnswer) -> KnownRelease | None:
    """Return the release of a broker that has answered; None where it is unknown, as of a controller.

    Controllers list the APIs of another listener than the brokers that were captured.
    """
    is_told = broker.role == "broker" and broker.answered
    return _release(broker.api_ranges, broker.can_run(METADATA_VERSION)) if is_told else None


def releases_of_brokers(view: View) -> tuple[str, ...]:
    """Return the releases of the brokers that answered, oldest first; where one is unknown, it is the oldest."""
    known = map(release_of_broker, view.answering)
    found = {captured_releases()[0] if each is None else each.release for each in known}
    return tuple(release for release in captured_releases() if release in found)


def releases_of(view_or_release: View | str) -> tuple[str, ...]:
    """Return the release, or those of the brokers of a view, oldest first.

    Raises `ConfigError`: the release is unknown, or no broker of the view answered.
    """
    if isinstance(view_or_release, str):
        return (_known(view_or_release),)
    if not view_or_release.answering:
        raise ConfigError("view", "no broker answered, so that its release is not known")
    return releases_of_brokers(view_or_release)


def _known(release: str) -> str:
    parts = release.split(".")
    if not all(part.isascii() and part.isdigit() for part in parts) or captured_as(release) is None:
        known = captured_releases()
        raise ConfigError("release", f"{release!r} is not a known release of Kafka: {known[0]} to {known[-1]}")
    return release


@lru_cache(maxsize=256)
def _release(api_ranges: Mapping[int, ApiRange], can_run: SupportedRange | None) -> KnownRelease | None:
    for release in reversed(captured_releases()):
        if not _lacks(api_ranges, can_run, release):
            apis = needed_for(release).apis
            same = [other for other in captured_releases() if can_run is None and needed_for(other).apis == apis]
            return KnownRelease(release, tuple(other for other in same if other != release))
    return None


def lacks_of_release(broker: BrokerAnswer, release: str) -> tuple[str, ...]:
    """Return the APIs and the level of a release that a broker lacks; none: it is of the release, or newer."""
    return _lacks(broker.api_ranges, broker.can_run(METADATA_VERSION), release)


@lru_cache(maxsize=256)  # brokers that serve the same share one mapping, which keeps its hash
def _lacks(api_ranges: Mapping[int, ApiRange], can_run: SupportedRange | None, release: str) -> tuple[str, ...]:
    needed = needed_for(release)
    lacks = [
        f"{api_name(key)} {version}"
        for key, version in needed.apis.items()
        if (found := served(api_ranges, key)) is None or found.max < version
    ]
    if needed.metadata_level is not None and can_run is not None and can_run.max < needed.metadata_level:
        lacks.append(f"{METADATA_VERSION} {level_name(METADATA_VERSION, needed.metadata_level)}")
    return tuple(lacks)


def release_of_node(node: BrokerAnswer) -> ReleaseNumber | None:
    """Return the release of a node, also of a controller, by the newest ``metadata.version`` that it supports.

    None where it reports none. Of one newer than the catalog it is the newest of the catalog.
    """
    found = node.supported.get(METADATA_VERSION)
    return release_of_level(found.max) if found and found.max > 0 else None


def release_of_level(metadata_level: int) -> ReleaseNumber:
    """Return the release that brought a ``metadata.version``; of one newer than the table, the newest of the table."""
    known = metadata_levels()
    return tuple(map(int, known[max(1, min(metadata_level, max(known)))].release.split(".")))
