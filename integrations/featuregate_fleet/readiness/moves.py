"""The moves that an operator may ask about, as values, and as people write them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Self

from featuregate.catalog import CapturedRelease, api_key, captured, captured_as, features, level_named
from featuregate.errors import UnknownApi
from featuregate.requirements import ApiAtLeast, FeatureAtLeast, conditions_in, presets
from featuregate_fleet.readiness.api_ranges import DropApi, ReleaseApis


@dataclass(frozen=True, slots=True)
class _ReleaseMove(ReleaseApis):
    WAY: ClassVar[str]
    """Where that is from here."""

    @property
    def target(self) -> str:
        """The release."""
        return self.release.release

    @property
    def title(self) -> str:
        """The move, behind the name of the cluster."""
        return f"{self.WAY} Kafka {self.target}"

    @property
    def apis(self) -> Self:
        """What brokers serve then."""
        return self


@dataclass(frozen=True, slots=True)
class ToRelease(_ReleaseMove):
    """All brokers run a release, most often a newer one."""

    KIND: ClassVar = "to"
    WAY: ClassVar = "to"


@dataclass(frozen=True, slots=True)
class DowngradeTo(_ReleaseMove):
    """All brokers run an older release, with the levels and the coordinators' records that newer ones wrote."""

    KIND: ClassVar = "downgrade-to"
    WAY: ClassVar = "down to"
    version: str
    """The numbers of the release, with its patch where that is known: coordinators of patches differ."""

    @property
    def target(self) -> str:
        """The release."""
        return self.version


@dataclass(frozen=True, slots=True)
class _LevelMove:
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


Move = ToRelease | DowngradeTo | Finalize | Deprecate | DropApi


# ---------------------------------------------------------------- as people write them

_DROP: Final = re.compile(r"([A-Za-z_]+|api:[0-9]+)<([0-9]{1,5})")
_VERSION: Final = re.compile(r"[0-9]{1,5}(\.[0-9]{1,5})*")
_HIGHEST: Final = 2**15 - 1


class MoveText(NamedTuple):
    """How people write one kind of move."""

    read: Callable[[str], Move]
    """Returns the move, or raises ValueError with what is wrong."""
    form: str
    example: str
    meaning: str


def _release(text: str) -> CapturedRelease:
    found = captured_as(text) if _VERSION.fullmatch(text) else None
    if found is None:
        raise ValueError(f"{text!r} is none of the known releases: {', '.join(captured())}")
    return found


def _level(text: str) -> tuple[str, int]:
    feature, _, level = text.partition("=")
    if feature not in features():
        raise ValueError(f"{feature!r} is none of the known features: {', '.join(features())}")
    named = level_named(level) if feature == "metadata.version" and not level.isdecimal() else None
    if named:
        return feature, named.level
    if not re.fullmatch(r"[0-9]{1,5}", level) or int(level) > _HIGHEST:
        raise ValueError(f"{text!r} is not a feature with a level: write {feature}=1")
    return feature, int(level)


def _drop(text: str) -> DropApi:
    match = _DROP.fullmatch(text)
    key = match[1].partition(":")[2] if match else ""
    if not match or int(match[2]) > _HIGHEST or int(key or 0) > _HIGHEST:
        raise ValueError(f"{text!r} is not an API with a version: write 'Fetch<12', in quotes")
    if not int(match[2]):
        raise ValueError(f"{text!r} drops nothing: versions begin at 0")
    try:
        return DropApi(api_key(match[1]), int(match[2]))
    except UnknownApi as error:
        raise ValueError(str(error)) from None


MOVES: Final = {
    "to": MoveText(
        lambda text: ToRelease(_release(text)), "RELEASE", "4.2", "all brokers run this release, such as 4.2"
    ),
    "downgrade-to": MoveText(
        lambda text: DowngradeTo(_release(text), text), "RELEASE", "3.9", "all brokers run this older release"
    ),
    "finalize": MoveText(
        lambda text: Finalize(*_level(text)),
        "FEATURE=LEVEL",
        "transaction.version=2",
        "the controller finalizes a level, such as transaction.version=2",
    ),
    "deprecate": MoveText(
        lambda text: Deprecate(*_level(text)),
        "FEATURE=LEVEL",
        "metadata.version=3.7",
        "brokers support neither this level nor lower ones any more",
    ),
    "drop-api": MoveText(
        _drop, "NAME<VERSION", "Fetch<12", "brokers stop to serve older versions of an API, such as Fetch<12"
    ),
}
"""The kinds of moves, by their name."""
