"""Requirements that clients ask about, and the decisions. A client pays for what it asks with a bounded text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from featuregate.errors import RequirementError
from featuregate.requirements import And, Or, Requirement, conditions_in, configs_in, parse, presets
from featuregate_relay.refusals import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from featuregate import Decision, Gate

LONGEST_REQUIREMENT: Final = 1000
"""Characters of the text."""
MOST_CONDITIONS: Final = 64
"""Those of presets included, and without those that follow themselves."""
MOST_REASONS: Final = 6000
"""Reasons in one answer: one for each broker of the largest cluster. Reasons that keep the gate closed come first."""


OF_PRESETS: Final = frozenset(name for preset in presets.all() for name in configs_in(preset))
"""The configs on which presets depend."""


def asked_requirement(text: str, gates: Iterable[Gate] = ()) -> Requirement:
    """Return the requirement of a client's text, without duplicates.

    It may name the configs of presets and of the relay's ``gates``. A client that could name others would read whatever
    brokers tell the relay, and use up the number of configs that are asked for.

    Raises
    ------
    RequestRefused
        400: the text does not parse, is too long, has too many conditions, or names another config.
    """
    if len(text) > LONGEST_REQUIREMENT:
        raise RequestRefused(400, f"require: has {len(text)} characters, and {LONGEST_REQUIREMENT} are allowed")
    try:
        requirement = _without_duplicates(parse(text))
    except RequirementError as error:
        raise RequestRefused(400, f"require: {error}") from None
    number = sum(1 for _ in conditions_in(requirement))
    if number > MOST_CONDITIONS:
        raise RequestRefused(400, f"require: has {number} conditions, and {MOST_CONDITIONS} are allowed")
    named = set(configs_in(requirement)) - OF_PRESETS
    if others := sorted(named.difference(*(configs_in(gate.requirement) for gate in gates))):
        raise RequestRefused(400, f"require: config:{others[0]} is of no preset and of no gate of this relay")
    return requirement


def _without_duplicates(requirement: Requirement) -> Requirement:
    match requirement:
        case And(parts) | Or(parts):
            distinct = tuple(dict.fromkeys(_without_duplicates(part) for part in parts))
            return distinct[0] if len(distinct) == 1 else type(requirement)(distinct)
        case _:
            return requirement


def decision_json(decision: Decision) -> bytes:
    """Return a decision as JSON, each reason once; where there are too many, with the number of those left out."""
    answer: dict[str, Any] = decision.to_dict()
    reasons = {tuple(reason.values()): reason for reason in answer["reasons"]}
    more = len(reasons) - MOST_REASONS
    answer["reasons"] = list(reasons.values())[:MOST_REASONS]
    return json.dumps(answer | ({"more_reasons": more} if more > 0 else {})).encode()
