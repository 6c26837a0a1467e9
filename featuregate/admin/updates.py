"""What an operator asks of a cluster: other finalized levels. Values only; nothing is asked here. Pure.

:func:`upgrade`, :func:`downgrade`, :func:`disable` and :func:`to_release` make them, :class:`featuregate.Admin` and
:func:`featuregate.admin.plans.plan` take them. The rules are those of Kafka's own client (``FeatureUpdate.java`` and
``KafkaAdminClient.updateFeatures`` of Apache Kafka 4.3.1), and the texts of the errors too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from featuregate.catalog import (
    KRAFT_VERSION,
    METADATA_VERSION,
    features,
    level_named,
    quorum_keeps_kraft_version,
    release_levels,
)
from featuregate.errors import InvalidUpdate

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

UpgradeType = Literal["upgrade", "safe_downgrade", "unsafe_downgrade"]
"""Which direction a level may go (``FeatureUpdate.UpgradeType``).

No release of Kafka carries out an unsafe downgrade of ``metadata.version``; for other features it is like a safe one.
"""

_HIGHEST: Final = 2**15 - 1
ALL_OR_NOTHING_VERSION: Final = 2
"""The version of UpdateFeatures by which a controller of 4.0 or newer is known."""


@dataclass(frozen=True, slots=True)
class Update:
    """The level that one feature should have.

    Raises `InvalidUpdate`: the feature has no name, the level is negative or above 32767, or it is 0 by an upgrade.
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
            raise InvalidUpdate(f"{self.level} is not a level: the highest is {_HIGHEST}")


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
    :func:`featuregate.admin.updates.moving` takes of them what moves on one cluster, and can.

    Raises `InvalidUpdate`: the release is not known; it names those that are.
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


class LeftOut(NamedTuple):
    """An update that need not be sent with the others, or would stop them."""

    update: Update
    current: int | None
    """The level now; None where no broker reports any."""
    why: str
    """One line that follows the name of the feature: ``is at 1 already``."""

    @property
    def already(self) -> bool:
        """Whether the feature has the wanted level."""
        return self.current == self.update.level


class Moves(NamedTuple):
    """The updates of a release that one cluster is asked for, and those that are left out."""

    updates: tuple[Update, ...]
    """Empty where nothing moves."""
    left_out: tuple[LeftOut, ...]


def moving(updates: Iterable[Update], view: View) -> Moves:
    """Take of the updates to a release those that move a feature of this cluster, and can.

    From 4.0 on one refusal stops all updates of a request, and ``kafka-features`` sends some that no controller takes.
    Left out are features that have their level already; those that the release would move the other way; and
    ``kraft.version``: it never goes down, no other level needs it, and only the leader of the quorum knows whether it
    can be raised. A move of ``metadata.version`` is always sent: without it the others make no release.
    """
    wanted = checked(updates)
    left_out = tuple(
        LeftOut(update, view.level(update.feature), why)
        for update in wanted
        if (why := _why_left_out(update, view)) is not None
    )
    stays = {each.update for each in left_out}
    return Moves(tuple(update for update in wanted if update not in stays), left_out)


def kraft_version_is_only_recorded(updates: Iterable[Update], view: View) -> bool:
    """Say whether an upgrade of ``kraft.version`` may be a record that the quorum knows nothing of (KAFKA-18979).

    Controllers before 4.1 write such a record, and brokers report it as finalized from then on. They are ruled out
    where ``metadata.version`` is, or by the same request becomes, 4.1-IV0 or newer: older controllers refuse that, and
    with it the whole request if they are of 4.0.
    """
    level = view.level(METADATA_VERSION) or 0
    served = view.api("UpdateFeatures")
    if served is not None and served.max >= ALL_OR_NOTHING_VERSION:
        level = max(level, *(update.level for update in updates if update.feature == METADATA_VERSION), 0)
    return not quorum_keeps_kraft_version(level)


def _why_left_out(update: Update, view: View) -> str | None:
    current, rises = view.level(update.feature), update.upgrade_type == "upgrade"
    if current == update.level:
        return f"is at {current} already"
    if update.feature == METADATA_VERSION:
        return None
    if current is not None and rises is not (current < update.level):
        how = "an upgrade" if rises else "a downgrade"
        return f"is at {current}, and {how} to {update.level} cannot {'lower' if rises else 'raise'} it"
    if update.feature != KRAFT_VERSION:
        return None
    return "never goes down" if not rises else "stays as it is: once raised it never goes down, so raise it by itself"
