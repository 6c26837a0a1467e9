"""``version-mapping`` and ``feature-dependencies``: look up levels in the catalog. No cluster is asked.

Source: ``FeatureCommand.handleVersionMapping`` and ``handleFeatureDependencies`` of Apache Kafka 4.3.1
(``org.apache.kafka.tools``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from featuregate.catalog import METADATA_VERSION, feature_level, features, metadata_levels, tool_table
from featuregate.cli.exit_codes import FAILED, OK, CommandError
from featuregate.cli.level_names import levels_at, name_and_level

if TYPE_CHECKING:
    import argparse


class Dependencies(NamedTuple):
    """The levels of other features that one level requires."""

    feature: str
    level: int
    requires: Mapping[str, int]


def run(args: argparse.Namespace) -> int:
    """Look up and print. The lines before a level that is not found are printed."""
    if args.command == "version-mapping":
        version = _latest() if args.release_version is None else args.release_version
        levels = levels_at(version)
        if args.output == "json":
            print(json.dumps({"release_version": version, "levels": levels}))
        else:
            print("\n".join(mapping_lines(version, levels)))
        return OK
    if args.output == "json":
        print(json.dumps([dependencies(text)._asdict() for text in args.feature]))
        return OK
    for text in args.feature:
        print("\n".join(dependency_lines(dependencies(text))))
    return OK


def mapping_lines(version: str, levels: Mapping[str, int]) -> Iterator[str]:
    """Yield the lines of a mapping, with the version as it was given."""
    for name, level in levels.items():
        yield f"{name}={level} ({version})" if name == METADATA_VERSION else f"{name}={level}"


def dependencies(text: str) -> Dependencies:
    """Look up what ``name=level`` requires. Raises `CommandError`."""
    name, level = name_and_level(text)
    if name == METADATA_VERSION:
        if level < tool_table().lowest or level not in metadata_levels():
            raise CommandError(f"Unknown metadata.version {level}", FAILED)
        return Dependencies(name, level, {})
    if name not in features():
        raise CommandError(f"Unknown feature: {name}", FAILED)
    if (known := feature_level(name, level)) is None:
        raise CommandError(f"No feature:{name} with feature level {level}", FAILED)
    return Dependencies(name, level, known.depends_on)


def dependency_lines(found: Dependencies) -> Iterator[str]:
    """Yield the lines about one level."""
    feature = f"{found.feature}={_level(found.feature, found.level)}"
    if not found.requires:
        yield f"{feature} has no dependencies."
        return
    yield f"{feature} requires:"
    for name, level in found.requires.items():
        yield f"    {name}={_level(name, level)}"


def _level(feature: str, level: int) -> str:
    return f"{level} ({metadata_levels()[level].name})" if feature == METADATA_VERSION else str(level)


def _latest() -> str:
    table = tool_table()
    return metadata_levels()[table.latest_production].name
