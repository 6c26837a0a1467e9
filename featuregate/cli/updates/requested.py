"""From the options of a command to its updates, with the errors and in the order of kafka-features.

Source: ``FeatureCommand.handleUpgradeOrDowngrade`` and ``handleDisable`` of Apache Kafka 4.3.1
(``org.apache.kafka.tools``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from featuregate.admin.updates import Update, UpgradeType, checked
from featuregate.catalog import METADATA_VERSION
from featuregate.cli.exit_codes import FAILED, CommandError
from featuregate.cli.level_names import levels_at, name_and_level
from featuregate.errors import InvalidUpdate

Verb = Literal["upgrade", "downgrade", "disable", "update"]
"""``update`` has changes of the three others, in one request."""

DEPRECATION: Final = " `metadata` flag is deprecated and may be removed in a future release."
"""With its leading space."""


class UpdateOptions(NamedTuple):
    """The options of one command that changes features."""

    verb: Verb
    features: tuple[str, ...] = ()
    """``name=level``; for disable ``name``."""
    metadata: str | None = None
    release_version: str | None = None
    unsafe: bool = False
    parts: tuple[UpdateOptions, ...] = ()
    """What ``update`` puts into one request."""

    @property
    def upgrade_type(self) -> UpgradeType:
        """The direction that the request allows."""
        if self.verb == "upgrade":
            return "upgrade"
        return "unsafe_downgrade" if self.unsafe else "safe_downgrade"

    @property
    def deprecated(self) -> bool:
        """Whether kafka-features prints `DEPRECATION` first."""
        return self.metadata is not None and self.release_version is None


def updates_of(options: UpdateOptions) -> tuple[Update, ...]:
    """Return the updates of a command.

    Raises
    ------
    CommandError
        The options are not valid; with exit code 1, as in kafka-features.
    """
    if options.release_version is not None and (options.metadata is not None or options.features):
        raise CommandError("Can not specify `release-version` with other feature flags.", FAILED)
    try:
        updates = tuple(_updates(options))
        if not updates:
            raise CommandError(f"You must specify at least one feature to {options.verb}", FAILED)
        return checked(updates)
    except InvalidUpdate as error:
        raise CommandError(str(error), FAILED) from error


def _updates(options: UpdateOptions) -> Iterator[Update]:
    for part in options.parts:
        yield from _updates(part)
    kind = options.upgrade_type
    if options.release_version is not None:
        levels = levels_at(options.release_version)
        for name, level in levels.items():
            # Nothing is upgraded to 0; a downgrade sends 0 too.
            if level > 0 or kind != "upgrade":
                yield Update(name, level, kind)
        return
    if options.metadata is not None:
        yield Update(METADATA_VERSION, levels_at(options.metadata)[METADATA_VERSION], kind)
    for text in options.features:
        name, level = (text, 0) if options.verb == "disable" else name_and_level(text)
        yield Update(name, level, kind)
