"""What an operator asks of a cluster: other finalized levels. Values only; nothing is asked here.

:func:`upgrade`, :func:`downgrade`, :func:`disable` and :func:`to_release` make them, :class:`featuregate.Admin` and
:func:`featuregate.plans.plan` take them. The rules are those of Kafka's own client (``FeatureUpdate.java`` and
``KafkaAdminClient.updateFeatures`` of Apache Kafka 4.3.1), and the texts of the errors too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from featuregate.catalog import METADATA_VERSION, features, level_named, release_levels
from featuregate.errors import InvalidUpdate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Update", "UpgradeType", "checked", "disable", "downgrade", "to_release", "upgrade"]

UpgradeType = Literal["upgrade", "safe_downgrade", "unsafe_downgrade"]
"""Which direction a level may go (``FeatureUpdate.UpgradeType``).

No release of Kafka carries out an unsafe downgrade of ``metadata.version``; for other features it is like a safe one.
"""

_HIGHEST: Final = 2**15 - 1


@dataclass(frozen=True, slots=True)
class Update:
    """The level that one feature should have.

    Raises
    ------
    InvalidUpdate
        The feature has no name, the level is negative or above 32767, or it is 0 by an upgrade.
    """

    feature: str
    level: int
    """0 disables the feature, which counts as a downgrade."""
    upgrade_type: UpgradeType = "upgrade"

    def __post_init__(self) -> None:
        if not self.feature.strip():
            raise InvalidUpdate("Provided feature can not be empty.")
        if self.level == 0 and self.upgrade_type == "upgrade":
            raise InvalidUpdate(
                "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE "
                "when the provided maxVersionLevel:0 is < 1."
            )
        if self.level < 0:
            raise InvalidUpdate("Cannot specify a negative version level.")
        if self.level > _HIGHEST:
            raise InvalidUpdate(f"{self.level} is no level: the highest is {_HIGHEST}")


def upgrade(levels: Mapping[str, int]) -> tuple[Update, ...]:
    """Raise features to these levels. Raises `InvalidUpdate`."""
    return tuple(Update(feature, level) for feature, level in levels.items())


def downgrade(levels: Mapping[str, int], *, unsafe: bool = False) -> tuple[Update, ...]:
    """Lower features to these levels; 0 disables one. Raises `InvalidUpdate`."""
    kind: UpgradeType = "unsafe_downgrade" if unsafe else "safe_downgrade"
    return tuple(Update(feature, level, kind) for feature, level in levels.items())


def disable(*names: str, unsafe: bool = False) -> tuple[Update, ...]:
    """Lower features to 0. Raises `InvalidUpdate`."""
    return downgrade(dict.fromkeys(names, 0), unsafe=unsafe)


def to_release(version: str) -> tuple[Update, ...]:
    """Raise every feature to the level that goes with a release (``4.2``) or a ``metadata.version`` (``4.2-IV0``).

    That is what ``kafka-features upgrade --release-version`` sends: features whose level there is 0 are left alone.

    Raises
    ------
    InvalidUpdate
        The release is not known; it names those that are.
    """
    named = level_named(version)
    if named is None:
        raise InvalidUpdate(f"no metadata.version is called {version!r}, such as 4.2-IV1, and no release, such as 4.2")
    levels = release_levels(named.level)
    return upgrade({name: levels[name] for name in features() if name == METADATA_VERSION or levels[name]})


def checked(updates: Iterable[Update]) -> tuple[Update, ...]:
    """Return updates that can be sent together: at least one, and no feature twice. Raises `InvalidUpdate`."""
    wanted = tuple(updates)
    if not wanted:
        raise InvalidUpdate("Feature updates can not be null or empty.")
    seen: set[str] = set()
    for update in wanted:
        if update.feature in seen:
            raise InvalidUpdate(f"Feature {update.feature} was specified more than once.")
        seen.add(update.feature)
    return wanted
