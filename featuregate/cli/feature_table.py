"""The table of features, in the layout of kafka-features 4.3.

Source: ``FeatureCommand.handleDescribe`` of Apache Kafka 4.3.1
(``org.apache.kafka.tools.FeatureCommand``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import METADATA_VERSION, level_name

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

FIRST_NAMED_METADATA_VERSION: Final = 7
"""3.3-IV3: since 4.0, Kafka's own tools print lower levels, as of a 3.9 broker, as ``UNKNOWN 1``."""


class DescribedFeature(NamedTuple):
    """One feature, with the texts of its columns."""

    feature: str
    min: str
    max: str
    level: str
    epoch: str


def rows(view: View) -> list[DescribedFeature]:
    """Return a row for each feature that every broker which answered supports, by name.

    As in kafka-features, an unknown or absent finalized level is 0, and an unknown epoch is ``-``.
    """
    epoch = str(view.epoch) if view.epoch >= 0 else "-"
    return [
        DescribedFeature(
            feature,
            _level(feature, supported.min),
            _level(feature, supported.max),
            _level(feature, view.level(feature) or 0),
            epoch,
        )
        for feature in sorted(view.supported)
        if (supported := view.feature(feature)) is not None
    ]


def columns(features: Iterable[DescribedFeature]) -> str:
    """Return the layout of kafka-features 4.3 and newer."""
    return "".join(
        f"Feature: {row.feature:<40}  SupportedMinVersion: {row.min:<15}  SupportedMaxVersion: {row.max:<15}  "
        f"FinalizedVersionLevel: {row.level:<15}  Epoch: {row.epoch}\n"
        for row in features
    )


def _level(feature: str, level: int) -> str:
    if feature == METADATA_VERSION and level < FIRST_NAMED_METADATA_VERSION:
        return f"UNKNOWN {level}"
    return level_name(feature, level)
