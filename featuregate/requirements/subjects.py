"""What a requirement asks brokers about, and whether a latch may hold it. Pure."""

from __future__ import annotations

from typing import NamedTuple, assert_never

from featuregate.requirements.language import (
    AnyCondition,
    ApiAtLeast,
    ApiBetween,
    ConfigHas,
    FeatureAtLeast,
    FeatureServes,
    Release,
    Requirement,
    conditions_in,
)


class Subject(NamedTuple):
    """What a condition asks brokers about. A release is compared with many APIs, and names none."""

    feature: str | None = None
    api: int | None = None
    config: str | None = None


def subject_of(condition: AnyCondition) -> Subject:
    """Return what a condition is about."""
    match condition:
        case FeatureAtLeast(feature) | FeatureServes(feature):
            return Subject(feature=feature)
        case ApiAtLeast(key) | ApiBetween(key):
            return Subject(api=key)
        case ConfigHas(name):
            return Subject(config=name)
        case Release():
            return Subject()
        case _:
            assert_never(condition)


def configs_in(requirement: Requirement) -> tuple[str, ...]:
    """Return the names of the brokers' configs that a requirement asks for, each once, in the order of its text."""
    named = (subject_of(part).config for part in conditions_in(requirement))
    return tuple(dict.fromkeys(name for name in named if name is not None))


def features_in(requirement: Requirement) -> tuple[str, ...]:
    """Return the names of the features that a requirement asks for, each once, in the order of its text."""
    named = (subject_of(part).feature for part in conditions_in(requirement))
    return tuple(dict.fromkeys(name for name in named if name is not None))


def latch_problem(requirement: Requirement) -> str | None:
    """Say why a latch must not hold a requirement; None where it may."""
    for condition in conditions_in(requirement):
        match condition:
            case FeatureServes():
                return f"a latch would hide that {condition} ends: require >= instead of serves"
            case FeatureAtLeast() | ApiAtLeast() | ApiBetween() | ConfigHas() | Release():
                continue
            case _:
                assert_never(condition)
    return None
