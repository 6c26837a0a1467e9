"""The requirement language: what an app requires of a cluster, as values. Pure.

In code::

    from featuregate import Api, Feature, Release

    Feature("group.version") >= 1
    (Api("TxnOffsetCommit") >= 3) & (Api("OffsetFetch") >= 7)
    Api("Fetch").between(4, 11) | Release("3.9")

As text, for command lines and configuration, see :func:`parse`::

    group.version>=1 & ConsumerGroupHeartbeat>=0

``str()`` of a requirement returns a text that :func:`parse` reads.
"""

from __future__ import annotations

from featuregate.requirements.handles import Api, Config, Feature
from featuregate.requirements.language import (
    MAX_LEVEL,
    And,
    AnyCondition,
    AnyRequirement,
    ApiAtLeast,
    ApiBetween,
    Condition,
    ConfigHas,
    FeatureAtLeast,
    Named,
    Or,
    Release,
    Requirement,
    conditions_in,
    configs_in,
    features_in,
    kind_of,
    subject_of,
)
from featuregate.requirements.parser import as_requirement, parse

__all__ = [
    "MAX_LEVEL",
    "And",
    "AnyCondition",
    "AnyRequirement",
    "Api",
    "ApiAtLeast",
    "ApiBetween",
    "Condition",
    "Config",
    "ConfigHas",
    "Feature",
    "FeatureAtLeast",
    "Named",
    "Or",
    "Release",
    "Requirement",
    "as_requirement",
    "conditions_in",
    "configs_in",
    "features_in",
    "kind_of",
    "parse",
    "subject_of",
]
