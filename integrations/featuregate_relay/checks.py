"""Requirements that clients ask about, and the decisions. A client pays for what it asks with a bounded text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from featuregate.errors import RequirementError
from featuregate.requirements import And, Or, Requirement, conditions_in, parse
from featuregate_relay.refusals import RequestRefused

if TYPE_CHECKING:
    from featuregate import Decision

LONGEST_REQUIREMENT: Final = 1000
"""Characters of the text."""
MOST_CONDITIONS: Final = 64
"""Those of presets included, and without those that follow themselves."""
MOST_REASONS: Final = 6000
"""Of one answer: one for each broker of the largest cluster. Those that keep it closed come first."""


def asked_requirement(text: str) -> Requirement:
    """Return the requirement of a client's text, without duplicates.

    Raises
    ------
    RequestRefused
        400: the text does not parse, is too long, or has too many conditions.
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
