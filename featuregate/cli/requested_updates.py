"""From what somebody typed to the updates that it means, in the words and in the order of kafka-features.

Source: ``FeatureCommand.handleUpgradeOrDowngrade``, ``handleDisable`` and ``parseNameAndLevel`` of Apache Kafka 4.3.1
(``org.apache.kafka.tools``). Both command lines, ours and the drop-in, come through here.
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

__all__ = ["DEPRECATED", "Verb", "Wish", "levels_at", "name_and_level", "updates_of", "warns"]

Verb = Literal["upgrade", "downgrade", "disable"]

DEPRECATED: Final = " `metadata` flag is deprecated and may be removed in a future release."
"""With its leading space."""
_SHORT: Final = re.compile(r"[+-]?\d+")
_SHORTS: Final = range(-(2**15), 2**15)
_BLANK: Final = "".join(map(chr, range(ord(" ") + 1)))
"""What Java's ``String.trim`` takes off."""


class Wish(NamedTuple):
    """One command, as it was typed."""

    verb: Verb
    features: tuple[str, ...] = ()
    """``name=level``; for disable ``name``."""
    metadata: str | None = None
    release_version: str | None = None
    unsafe: bool = False
    newer: bool = False
    """Whether that counts which kafka-features does not know: newer releases, and ``metadata.version=3.9-IV0``."""

    @property
    def upgrade_type(self) -> UpgradeType:
        """The direction that is allowed."""
        if self.verb == "upgrade":
            return "upgrade"
        return "unsafe_downgrade" if self.unsafe else "safe_downgrade"


def warns(wish: Wish) -> bool:
    """Say whether kafka-features prints `DEPRECATED` before it does anything."""
    return wish.metadata is not None and wish.release_version is None


def updates_of(wish: Wish) -> tuple[Update, ...]:
    """Return the updates that a wish means.

    Raises
    ------
    CommandError
        It means none; with exit code 1, as kafka-features has it.
    """
    if wish.release_version is not None and (wish.metadata is not None or wish.features):
        raise CommandError("Can not specify `release-version` with other feature flags.", FAILED)
    try:
        updates = tuple(_updates(wish))
        if not updates:
            raise CommandError(f"You must specify at least one feature to {wish.verb}", FAILED)
        return checked(updates)
    except InvalidUpdate as error:
        raise CommandError(str(error), FAILED) from error


def _updates(wish: Wish) -> Iterator[Update]:
    kind = wish.upgrade_type
    if wish.release_version is not None:
        levels = levels_at(wish.release_version, newer=wish.newer)
        for name, level in levels.items():
            # Nothing is upgraded to 0; a downgrade sends that too.
            if level > 0 or kind != "upgrade":
                yield Update(name, level, kind)
        return
    if wish.metadata is not None:
        yield Update(METADATA_VERSION, levels_at(wish.metadata, newer=wish.newer)[METADATA_VERSION], kind)
    for text in wish.features:
        name, level = (text, 0) if wish.verb == "disable" else name_and_level(text, newer=wish.newer)
        yield Update(name, level, kind)


def levels_at(version: str, *, newer: bool) -> dict[str, int]:
    """Return the level of each feature at a release or a ``metadata.version``, itself first.

    ``newer``: a name that is too new for kafka-features is looked up in our own table. Raises `CommandError`.
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
    """Read ``name=level``; what stands after the first equals sign is the level. Raises `CommandError`.

    ``newer``: a level of ``metadata.version`` may be given by its name, which kafka-features does not know.
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
    if not _SHORT.fullmatch(number) or int(number) not in _SHORTS:
        problem = f"Can't parse feature=level string {text}: unable to parse {number} as a short."
        raise CommandError(problem, FAILED)
    return name, int(number)
