"""What new nodes of each release report, as captured from real nodes, and when they start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from featuregate.catalog.levels import METADATA_VERSION, release_levels
from featuregate.catalog.load import load
from featuregate.catalog.releases import CapturedRelease, captured

if TYPE_CHECKING:
    from featuregate.roles import Role

_KRAFT_VERSION: Final = "kraft.version"
_FIRST_WITH_FEATURES: Final = (2, 7)
_NOT_SERVED: Final = (0, -1)
_DISABLED: Final = (0, 0)
_FORWARDED: Final = frozenset({19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81})
"""The APIs that ApiKeys.java of Apache Kafka 3.9 marks as forwardable, by key."""
_FIRST_EPOCH: Final = 100
"""An arbitrary offset of the metadata log of a KRaft cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFacts:
    """What a node of one release reports, in a new cluster of this release."""

    release: str
    """The captured one, such as ``3.9``."""
    api_ranges: Mapping[Role, Mapping[int, tuple[int, int]]]
    """API key to lowest and highest version, for brokers and, with KRaft, for controllers."""
    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    epoch: int
    """-1 before 2.7, the first release with features; 0 with ZooKeeper, where no feature was ever finalized."""

    def ranges(self, role: Role) -> Mapping[int, tuple[int, int]]:
        """Return the API ranges of a node of this role; ValueError where the release has no such nodes."""
        if role not in self.api_ranges:
            raise ValueError(f"{self.release} was captured with ZooKeeper, so it has no controllers")
        return self.api_ranges[role]


def release_facts(release: str) -> ReleaseFacts:
    """Return the facts of a release, such as ``"3.9"``. A patch release such as ``"3.9.2"`` counts as its minor one.

    Raises `ValueError`: no broker of this release was captured.
    """
    known = next((row for row in captured().values() if f"{release}.".startswith(f"{row.release}.")), None)
    if known is None:
        raise ValueError(f"no broker of release {release} was captured, only of {', '.join(captured())}")
    supported = known.features
    levels = release_levels(supported[METADATA_VERSION][1]) if METADATA_VERSION in supported else {}
    # With a fixed set of voters, kafka-storage leaves kraft.version at 0 in every release.
    finalized = {name: level for name, level in levels.items() if level > 0 and name != _KRAFT_VERSION}
    controllers = load("api_ranges")[known.release].get("controller_apis")
    by_role: dict[Role, Mapping[int, tuple[int, int]]] = {"broker": known.apis}
    if controllers is not None:
        by_role["controller"] = {int(key): (lowest, highest) for key, (lowest, highest) in controllers.items()}
    return ReleaseFacts(
        release=known.release,
        api_ranges=by_role,
        supported=supported,
        finalized={name: level for name, level in finalized.items() if level <= supported.get(name, (0, 0))[1]},
        epoch=_first_epoch(known),
    )


def _first_epoch(known: CapturedRelease) -> int:
    if known.features:
        return _FIRST_EPOCH
    return 0 if tuple(map(int, known.release.split("."))) >= _FIRST_WITH_FEATURES else -1


def start_problem(role: Role, supported: Mapping[str, tuple[int, int]], levels: Mapping[str, int]) -> str:
    """Return why a node cannot start in a cluster with these levels, in Kafka's words; empty if it can.

    A controller ends when it reads a record that it does not support, a broker when its registration is refused.
    """
    if METADATA_VERSION not in supported:
        return ""  # a node from before KRaft goes by no level
    for name in dict.fromkeys((METADATA_VERSION, *supported, *levels)):
        lowest, highest = supported.get(name, _DISABLED)
        level = levels.get(name, 0)
        if lowest <= level <= highest or (name not in levels and (role == "controller" or name == METADATA_VERSION)):
            continue
        if role == "controller":
            return f"it cannot replay level {level} of {name}: it supports {lowest}-{highest}"
        if name == METADATA_VERSION:
            return f"No MetadataVersion with feature level {level}"
        return (
            f"Unable to register because the broker does not support finalized version {level} of {name}. The broker "
            f"wants a version between {lowest} and {highest}, inclusive."
        )
    return ""


def forwarded(
    broker: Mapping[int, tuple[int, int]], controller: Mapping[int, tuple[int, int]]
) -> Mapping[int, tuple[int, int]]:
    """Return the ranges of a broker, whose forwarded APIs are those that the active controller serves, too."""
    ranges = {}
    for key, own in broker.items():
        other = controller.get(key, _NOT_SERVED) if key in _FORWARDED else own
        common = max(own[0], other[0]), min(own[1], other[1])
        if common[0] <= common[1]:
            ranges[key] = common
    return ranges
