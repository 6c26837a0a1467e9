"""The software of brokers, by what they advertise, and how far a roll of a cluster has come. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from featuregate import Release, View, evaluate
from featuregate.catalog import captured_releases
from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange

if TYPE_CHECKING:
    from featuregate.view.matrix import Group, Matrix

_CACHED: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """Brokers that answer the same."""

    group: Group
    release: str
    """The newest release of Apache Kafka of which the brokers have everything; empty where that is not known."""

    @property
    def title(self) -> str:
        """The release for people: brokers with all of the newest release that is known may be newer."""
        if not self.release:
            return "an unknown release"
        return f"release {self.release}{' or newer' if self.release == captured_releases()[-1] else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingUpgrade:
    """Brokers of several releases: the newest one, and the brokers that have it and that do not."""

    newest: str
    """As `Software.title`."""
    done: int
    left: int
    silent: int
    """Brokers that do not answer: they may be restarting."""


def release_of(broker: BrokerAnswer) -> str:
    """Return the newest release of Apache Kafka of which a broker has everything; empty where that is not known.

    Releases are known of brokers, not of controllers.
    """
    return _newest_release(broker.api_ranges, broker.supported) if broker.role == "broker" else ""


@lru_cache(maxsize=_CACHED)
def _newest_release(api_ranges: Mapping[int, ApiRange], supported: Mapping[str, SupportedRange]) -> str:
    answer = BrokerAnswer(node_id=None, host="", port=0, api_ranges=api_ranges, supported=supported)
    view = View(cluster_id=None, brokers=(answer,))
    releases = reversed(captured_releases())
    return next((release for release in releases if evaluate(view, Release(release)).open), "")


def software_of(matrix: Matrix) -> tuple[Software, ...]:
    """Return the software of each group of a matrix that has all APIs, newest first."""
    found = [Software(group=group, release=release_of(group.brokers[0])) for group in matrix.groups]
    order = {release: place for place, release in enumerate(captured_releases())}
    return tuple(sorted(found, key=lambda each: -order.get(each.release, -1)))


def roll_of(view: View, software: Iterable[Software]) -> RollingUpgrade | None:
    """Return how far a roll is; None where all brokers that answer have one release."""
    counts: dict[str, int] = {}
    for each in software:
        counts[each.title] = counts.get(each.title, 0) + len(each.group.brokers)
    if len(counts) < 2:  # noqa: PLR2004 - a roll is between two releases
        return None
    newest, *others = counts
    return RollingUpgrade(
        newest=newest, done=counts[newest], left=sum(counts[other] for other in others), silent=len(view.missing)
    )


def lacks(software: Software, matrix: Matrix) -> list[str]:
    """Return the versions and levels that other brokers have and these do not."""
    found = []
    for row in matrix.rows:
        if row.kind == "finalized" or not row.differs:
            continue
        known = [value for value in row.values if value is not None]
        lowest, highest = min(value[0] for value in known), max(value[-1] for value in known)
        own = row.values[software.group.index]
        if own is None:
            found.append(f"{row.name} {row.text((lowest, highest))}")
            continue
        if own[0] > lowest:
            found.append(f"{row.name} {row.text((lowest, own[0] - 1))}")
        if own[-1] < highest:
            found.append(f"{row.name} {row.text((own[-1] + 1, highest))}")
    return found
