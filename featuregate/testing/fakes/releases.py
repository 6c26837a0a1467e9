"""What new nodes of each release report, as captured from real nodes."""

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
