"""Names, levels and releases of Kafka, as tables with their sources. The catalog never uses the network. Pure.

A newer broker has features, levels and APIs that are not in the tables. So a lookup by number always returns a text
(``UNKNOWN 99``, ``api:99``), and only a lookup by name fails, with similar names.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in featuregate
if TYPE_CHECKING:
    from featuregate.catalog.apis import API_NAMES, api_key, api_name, close_to
    from featuregate.catalog.levels import (
        KRAFT_VERSION,
        METADATA_VERSION,
        Effect,
        FeatureLevel,
        MetadataLevel,
        effects,
        effects_measured,
        effects_of,
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

__all__ = [
    "API_NAMES",
    "KRAFT_VERSION",
    "METADATA_VERSION",
    "CapturedRelease",
    "Effect",
    "FeatureLevel",
    "MetadataLevel",
    "Needed",
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
]

_HOMES = {
    "apis": "API_NAMES api_key api_name close_to",
    "levels": "KRAFT_VERSION METADATA_VERSION Effect FeatureLevel MetadataLevel effects effects_measured effects_of "
    "feature_level feature_levels features is_safe_downgrade level_name level_named metadata_level_named "
    "metadata_levels newest_level quorum_keeps_kraft_version release_levels",
    "releases": "CapturedRelease Needed captured captured_as captured_releases needed needed_for release_of",
}
_TABLES = {name: table for table, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import a table when a name of it is first used: most commands need one or two."""
    if name not in _TABLES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"featuregate.catalog.{_TABLES[name]}"), name)
    globals()[name] = found
    return found
