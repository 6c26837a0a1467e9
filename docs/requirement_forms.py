"""The forms that a condition may have in text: help, README and pages show these, and tests compare them. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from featuregate.requirements.language import (
    And,
    ApiAtLeast,
    ApiBetween,
    ConfigHas,
    FeatureAtLeast,
    Named,
    Or,
    Release,
)


class Form(NamedTuple):
    """One form of text."""

    kind: type
    text: str
    example: str
    holds: str
    """When such a requirement is met."""


FORMS: Final = (
    Form(
        Named,
        "PRESET",
        "kip447",
        "what the preset requires: see featuregate explain --list",
    ),
    Form(
        FeatureAtLeast,
        "FEATURE>=LEVEL",
        "group.version>=1",
        "the finalized level is LEVEL or higher",
    ),
    Form(
        ApiAtLeast,
        "API>=VERSION",
        "TxnOffsetCommit>=3",
        "every broker serves VERSION or a newer one",
    ),
    Form(
        ApiBetween,
        "API in LOWEST..HIGHEST",
        "Fetch in 4..11",
        "every broker serves one same version of these",
    ),
    Form(
        ConfigHas,
        "config:NAME has VALUE",
        "config:group.coordinator.rebalance.protocols has consumer",
        "the config of every broker is VALUE, or a list with VALUE",
    ),
    Form(
        Release,
        "release>=RELEASE",
        "release>=3.9",
        "every broker has this release or a newer one",
    ),
    Form(
        And,
        "A & B",
        "group.version>=1 & Fetch>=12",
        "both are met; & binds tighter than |",
    ),
    Form(
        Or,
        "A | B",
        "kip848 | (kip447 & release>=3.9)",
        "one of both is met, or both are",
    ),
)
