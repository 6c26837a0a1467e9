"""From the texts that name a level, a release or a ``metadata.version``, to levels.

Source: ``FeatureCommand.parseNameAndLevel`` and ``handleVersionMapping`` of Apache Kafka 4.3.1
(``org.apache.kafka.tools``).
"""

from __future__ import annotations

import re
from typing import Final

from featuregate.catalog import (
    METADATA_VERSION,
    level_named,
    metadata_level_named,
    metadata_levels,
    release_levels,
    tool_table,
)
from featuregate.cli.exit_codes import FAILED, CommandError

_SHORT: Final = re.compile(r"[+-]?\d+")
_SHORT_RANGE: Final = range(-(2**15), 2**15)
_BLANK: Final = "".join(map(chr, range(ord(" ") + 1)))
"""The characters that Java's ``String.trim`` removes."""


def levels_at(version: str) -> dict[str, int]:
    """Return the level of each feature at a release or a ``metadata.version``, with ``metadata.version`` first.

    A version that is too new for kafka-features is looked up in featuregate's own table. Raises `CommandError`.
    """
    table = tool_table()
    try:
        level = table.named(version).level
    except LookupError as error:
        named = level_named(version)
        if named is None or named.level <= table.latest_production:
            oldest, newest = table.metadata_levels[0], metadata_levels()[max(metadata_levels())]
            known = (
                f"releases {oldest.release} to {newest.release} are known, and levels by name, such as {newest.name}"
            )
            raise CommandError(f"Unknown release or metadata.version '{version}': {known}", FAILED) from error
        return dict(release_levels(named.level))
    return {METADATA_VERSION: level, **table.defaults(level)}


def name_and_level(text: str) -> tuple[str, int]:
    """Parse ``name=level``; the level follows the first equals sign. Raises `CommandError`.

    Unlike kafka-features it takes the name of a ``metadata.version`` as its level.
    """
    name, equals, number = text.partition("=")
    if not equals:
        raise CommandError(f"Can't parse feature=level string {text}: equals sign not found.", FAILED)
    name, number = name.strip(_BLANK), number.strip(_BLANK)
    if name == METADATA_VERSION and "." in number:
        try:
            return name, metadata_level_named(number).level
        except LookupError as error:
            raise CommandError(f"Can't parse feature=level string {text}: {error.args[0]}", FAILED) from error
    if not _SHORT.fullmatch(number) or int(number) not in _SHORT_RANGE:
        problem = f"Can't parse feature=level string {text}: unable to parse {number} as a short."
        raise CommandError(problem, FAILED)
    return name, int(number)
