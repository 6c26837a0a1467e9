"""``version-mapping`` and ``feature-dependencies``: look levels up in the table. No cluster is asked.

Source: ``FeatureCommand.handleVersionMapping`` and ``handleFeatureDependencies`` of Apache Kafka 4.3.1
(``org.apache.kafka.tools``).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from featuregate.catalog import METADATA_VERSION, feature_level, features, metadata_levels, tool_table
from featuregate.cli.exit_codes import FAILED, OK, CommandError
from featuregate.cli.requested_updates import levels_at, name_and_level

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

__all__ = ["Dependencies", "dependencies", "dependency_lines", "mapping_lines", "run"]


class Dependencies(NamedTuple):
    """What one level needs of other features."""

    feature: str
    level: int
    needs: Mapping[str, int]


def run(args: argparse.Namespace) -> int:
    """Look up, and print what was found, line by line as far as it goes."""
    if args.command == "version-mapping":
        version = _latest() if args.release_version is None else args.release_version
        levels = levels_at(version, newer=True)
        if args.output == "json":
            print(json.dumps({"release_version": version, "levels": levels}))
        else:
            print("\n".join(mapping_lines(version, levels)))
        return OK
    if args.output == "json":
        print(json.dumps([dependencies(text, newer=True)._asdict() for text in args.feature]))
        return OK
    for text in args.feature:
        print("\n".join(dependency_lines(dependencies(text, newer=True))))
    return OK


def mapping_lines(version: str | None, levels: Mapping[str, int] | None = None) -> Iterator[str]:
    """Lay out a mapping; the version is echoed as it was typed. Raises `CommandError`."""
    said = _latest() if version is None else version
    found = levels_at(said, newer=False) if levels is None else levels
    for name, level in found.items():
        yield f"{name}={level} ({said})" if name == METADATA_VERSION else f"{name}={level}"


def dependencies(text: str, *, newer: bool) -> Dependencies:
    """Look up what ``name=level`` needs.

    ``newer``: levels that are too new for kafka-features are looked up in our own table. Raises `CommandError`.
    """
    name, level = name_and_level(text, newer=newer)
    table = tool_table()
    if name == METADATA_VERSION:
        if table.metadata_level(level) is None and not (newer and level > table.newest and level in metadata_levels()):
            raise CommandError(f"Unknown metadata.version {level}", FAILED)
        return Dependencies(name, level, {})
    if name not in features():
        raise CommandError(f"Unknown feature: {name}", FAILED)
    known = feature_level(name, level)
    if known is None or (level > table.features.get(name, -1) and not newer):
        raise CommandError(f"No feature:{name} with feature level {level}", FAILED)
    return Dependencies(name, level, known.depends_on)


def dependency_lines(found: Dependencies) -> Iterator[str]:
    """Lay out what a level needs."""
    said = f"{found.feature}={_named(found.feature, found.level)}"
    if not found.needs:
        yield f"{said} has no dependencies."
        return
    yield f"{said} requires:"
    for name, level in found.needs.items():
        yield f"    {name}={_named(name, level)}"


def _named(feature: str, level: int) -> str:
    return f"{level} ({metadata_levels()[level].name})" if feature == METADATA_VERSION else str(level)


def _latest() -> str:
    table = tool_table()
    return metadata_levels()[table.latest_production].name
