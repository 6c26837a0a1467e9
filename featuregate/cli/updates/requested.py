"""From the options of a command to its updates, with the errors and in the order of kafka-features.

Source: ``FeatureCommand.handleUpgradeOrDowngrade``, ``handleDisable`` and ``parseNameAndLevel`` of Apache Kafka 4.3.1
(``org.apache.kafka.tools``). Both command lines, featuregate and the drop-in, use this module.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from featuregate.admin.updates import Update, checked
from featuregate.catalog import METADATA_VERSION, level_named, metadata_level_named, release_levels, tool_table
from featuregate.cli.exit_codes import FAILED, CommandError
from featuregate.errors import InvalidUpdate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate.admin.updates import UpgradeType

Verb = Literal["upgrade", "downgrade", "disable"]

DEPRECATION: Final = " `metadata` flag is deprecated and may be removed in a future release."
"""With its leading space."""
_SHORT: Final = re.compile(r"[+-]?\d+")
_SHORT_RANGE: Final = range(-(2**15), 2**15)
_BLANK: Final = "".join(map(chr, range(ord(" ") + 1)))
"""The characters that Java's ``String.trim`` removes."""


class UpdateOptions(NamedTuple):
    """The options of one command that changes features."""

    verb: Verb
    features: tuple[str, ...] = ()
    """``name=level``; for disable ``name``."""
    metadata: str | None = None
    release_version: str | None = None
    unsafe: bool = False
    newer: bool = False
    """Accept what kafka-features does not know: newer releases, and ``metadata.version=3.9-IV0``."""

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
    kind = options.upgrade_type
    if options.release_version is not None:
        levels = levels_at(options.release_version, newer=options.newer)
        for name, level in levels.items():
            # Nothing is upgraded to 0; a downgrade sends 0 too.
            if level > 0 or kind != "upgrade":
                yield Update(name, level, kind)
        return
    if options.metadata is not None:
        yield Update(METADATA_VERSION, levels_at(options.metadata, newer=options.newer)[METADATA_VERSION], kind)
    for text in options.features:
        name, level = (text, 0) if options.verb == "disable" else name_and_level(text, newer=options.newer)
        yield Update(name, level, kind)


def levels_at(version: str, *, newer: bool) -> dict[str, int]:
    """Return the level of each feature at a release or a ``metadata.version``, with ``metadata.version`` first.

    ``newer``: look up a version that is too new for kafka-features in featuregate's own table. Raises `CommandError`.
    """
    table = tool_table()
    try:
        level = table.named(version).level
    except LookupError as error:
        named = level_named(version) if newer else None
        if named is None or named.level <= table.latest_production:
            raise CommandError(str(error.args[0]), FAILED) from error
        return dict(release_levels(named.level))
    return {METADATA_VERSION: level, **table.defaults(level)}


def name_and_level(text: str, *, newer: bool) -> tuple[str, int]:
    """Parse ``name=level``; the level follows the first equals sign. Raises `CommandError`.

    ``newer``: accept the name of a ``metadata.version`` as its level, which kafka-features does not.
    """
    name, equals, number = text.partition("=")
    if not equals:
        raise CommandError(f"Can't parse feature=level string {text}: equals sign not found.", FAILED)
    name, number = name.strip(_BLANK), number.strip(_BLANK)
    if newer and name == METADATA_VERSION and "." in number:
        try:
            return name, metadata_level_named(number).level
        except LookupError as error:
            raise CommandError(f"Can't parse feature=level string {text}: {error.args[0]}", FAILED) from error
    if not _SHORT.fullmatch(number) or int(number) not in _SHORT_RANGE:
        problem = f"Can't parse feature=level string {text}: unable to parse {number} as a short."
        raise CommandError(problem, FAILED)
    return name, int(number)
