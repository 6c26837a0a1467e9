"""The table of one release's ``kafka-features``, which decides what the tool accepts and prints.

Source: ``MetadataVersion.fromVersionString``, ``Feature.defaultLevel`` and ``Feature.fromFeatureLevel`` of Apache
Kafka 4.3.1 (``org.apache.kafka.server.common``); the table itself is read from the released jars.
"""

import functools
from collections.abc import Mapping
from typing import Final, NamedTuple

from featuregate.catalog.levels import MetadataLevel, feature_levels, metadata_levels
from featuregate.catalog.load import load

KAFKA_FEATURES: Final = "4.3.1"
"""The release whose ``kafka-features`` the command line follows."""
_SEGMENTS: Final = 2


class ToolTable(NamedTuple):
    """The levels in the table of one release's tool."""

    release: str
    lowest: int
    """The lowest known ``metadata.version``."""
    latest_production: int
    newest: int
    """The highest known ``metadata.version``, known by name only where it is above ``latest_production``."""
    features: Mapping[str, int]
    """The highest level of each other feature, in the order of the tool's output."""

    @property
    def metadata_levels(self) -> tuple[MetadataLevel, ...]:
        """Every known ``metadata.version``, lowest first."""
        return tuple(metadata_levels()[level] for level in range(self.lowest, self.newest + 1))

    def named(self, version: str) -> MetadataLevel:
        """Return the ``metadata.version`` of a name: ``3.9-IV0``, or a release for its last in production.

        Of a release the first two numbers count: ``3.8.1`` is 3.8.

        Raises
        ------
        LookupError
            The name is unknown.
        """
        key = _key(version)
        for known in reversed(self.metadata_levels):
            if key == known.name or (key == known.release and known.level <= self.latest_production):
                return known
        raise LookupError(f"Unknown metadata.version '{version}'")

    def defaults(self, metadata_level: int) -> dict[str, int]:
        """Return the level of each other feature that goes with a ``metadata.version``, in the order of the tool."""
        return {
            feature: max(
                (
                    known.level
                    for known in feature_levels(feature)
                    if known.level <= highest and known.bootstrap.level <= metadata_level
                ),
                default=0,
            )
            for feature, highest in self.features.items()
        }


@functools.cache
def tool_table(release: str = KAFKA_FEATURES) -> ToolTable:
    """Return the table of a release's tool.

    Raises
    ------
    KeyError
        There is no table of this release.
    """
    row = load("levels")["tools"][release]
    return ToolTable(release, row["lowest"], row["latest_production"], row["newest"], row["features"])


def _key(version: str) -> str:
    """Return the first two segments of a version, as Java's ``String.split`` counts: without empty ones at the end."""
    segments = version.split(".")
    while segments and not segments[-1]:
        segments.pop()
    return version if len(segments) <= _SEGMENTS else ".".join(segments[:_SEGMENTS])
