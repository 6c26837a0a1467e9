"""The moves that an operator may ask about, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from featuregate.catalog import CapturedRelease, api_name
from featuregate.requirements import ApiAtLeast, FeatureAtLeast, conditions_in, presets
from featuregate_fleet.readiness.api_ranges import ReleaseApis, ServedApis, WithoutOldVersions


@dataclass(frozen=True, slots=True)
class ToRelease:
    """All brokers run a release, most often a newer one."""

    KIND: ClassVar = "to"
    release: CapturedRelease

    @property
    def target(self) -> str:
        """The release."""
        return self.release.release

    @property
    def title(self) -> str:
        """The move, behind the name of the cluster."""
        return f"to Kafka {self.target}"

    @property
    def apis(self) -> ServedApis:
        """What brokers serve then."""
        return ReleaseApis(self.release)


@dataclass(frozen=True, slots=True)
class DowngradeTo:
    """All brokers run an older release, with the levels and the coordinators' records that newer ones wrote."""

    KIND: ClassVar = "downgrade-to"
    release: CapturedRelease
    version: str
    """The numbers of the release, with its patch where that is known: coordinators of patches differ."""

    @property
    def target(self) -> str:
        """The release."""
        return self.version

    @property
    def title(self) -> str:
        """The move, behind the name of the cluster."""
        return f"down to Kafka {self.target}"

    @property
    def apis(self) -> ServedApis:
        """What brokers serve then."""
        return ReleaseApis(self.release)


@dataclass(frozen=True, slots=True)
class _LevelMove:
    """A move about one level of a feature."""

    DONE: ClassVar[str]
    """What the move has done to the level."""
    feature: str
    level: int

    @property
    def target(self) -> str:
        """The feature with its level."""
        return f"{self.feature}={self.level}"

    @property
    def title(self) -> str:
        """The move, behind the name of the cluster."""
        return f"with {self.target} {self.DONE}"

    @property
    def apis(self) -> None:
        """Brokers serve the same API versions at all levels."""
        return

    @property
    def used_with(self) -> Mapping[int, int]:
        """The APIs by which clients use the feature, each with the lowest version that does; by featuregate's presets.

        Empty for a feature that concerns the nodes alone.
        """
        found: dict[int, int] = {}
        for preset in presets.all():
            conditions = tuple(conditions_in(preset))
            if any(isinstance(each, FeatureAtLeast) and each.feature == self.feature for each in conditions):
                found |= {each.key: each.version for each in conditions if isinstance(each, ApiAtLeast)}
        return found


@dataclass(frozen=True, slots=True)
class Finalize(_LevelMove):
    """The controller finalizes another level of a feature, which may be a lower one (KIP-584)."""

    KIND: ClassVar = "finalize"
    DONE: ClassVar = "finalized"


@dataclass(frozen=True, slots=True)
class Deprecate(_LevelMove):
    """Brokers stop supporting a level of a feature, and all levels below it (KIP-584)."""

    KIND: ClassVar = "deprecate"
    DONE: ClassVar = "deprecated"


@dataclass(frozen=True, slots=True)
class DropApi:
    """Brokers stop serving the versions of an API below ``lowest`` (KIP-896)."""

    KIND: ClassVar = "drop-api"
    api_key: int
    lowest: int

    @property
    def target(self) -> str:
        """The versions that are dropped."""
        return f"{api_name(self.api_key)}<{self.lowest}"

    @property
    def title(self) -> str:
        """The move, behind the name of the cluster."""
        return f"without {api_name(self.api_key)} below {self.lowest}"

    @property
    def apis(self) -> ServedApis:
        """What brokers serve then."""
        return WithoutOldVersions(self.api_key, self.lowest)


Move = ToRelease | DowngradeTo | Finalize | Deprecate | DropApi
