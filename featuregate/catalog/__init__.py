"""Names, levels and releases of Kafka, as tables with their sources. The catalog never uses the network. Pure.

A newer broker has features, levels and APIs that are not in the tables. So a lookup by number always returns a text
(``UNKNOWN 99``, ``api:99``), and only a lookup by name fails, with similar names.
"""

from __future__ import annotations

from featuregate.catalog.api_names import API_NAMES
from featuregate.catalog.apis import api_key, api_name, close_to
from featuregate.catalog.effects import Effect, effects, effects_measured, effects_of
from featuregate.catalog.levels import (
    KRAFT_VERSION,
    METADATA_VERSION,
    FeatureLevel,
    MetadataLevel,
    feature_level,
    feature_levels,
    features,
    is_safe_downgrade,
    level_name,
    level_named,
    metadata_level_named,
    metadata_levels,
    newest_level,
    quorum_keeps_kraft_version,
    release_levels,
)
from featuregate.catalog.releases import (
    CapturedRelease,
    Needed,
    captured,
    captured_as,
    captured_releases,
    needed,
    needed_for,
    release_of,
)
from featuregate.catalog.tool import KAFKA_FEATURES, ToolTable, tool_table

__all__ = [
    "API_NAMES",
    "KAFKA_FEATURES",
    "KRAFT_VERSION",
    "METADATA_VERSION",
    "CapturedRelease",
    "Effect",
    "FeatureLevel",
    "MetadataLevel",
    "Needed",
    "ToolTable",
    "api_key",
    "api_name",
    "captured",
    "captured_as",
    "captured_releases",
    "close_to",
    "effects",
    "effects_measured",
    "effects_of",
    "feature_level",
    "feature_levels",
    "features",
    "is_safe_downgrade",
    "level_name",
    "level_named",
    "metadata_level_named",
    "metadata_levels",
    "needed",
    "needed_for",
    "newest_level",
    "quorum_keeps_kraft_version",
    "release_levels",
    "release_of",
    "tool_table",
]
