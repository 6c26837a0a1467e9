"""Requests, comparable answers, and the comparison of a plan with a controller's answer."""

from typing import NamedTuple

from featuregate.admin import outcomes
from featuregate.admin.plans import Plan
from featuregate.admin.updates import Update
from featuregate.testing.fakes.controllers import in_map_order
from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

INVALID_UPDATE_VERSION = 95
TIMEOUT_MS = 60_000
FOR_ALL = "The update failed for all features since the following feature had an error: "


class Said(NamedTuple):
    code: int
    message: str


def request_of(updates: tuple[Update, ...], *, dry_run: bool) -> UpdateFeaturesRequest:
    return outcomes.request(updates, TIMEOUT_MS, dry_run=dry_run)


def answers_of(response: UpdateFeaturesResponse, updates: tuple[Update, ...]) -> dict[str, Said]:
    """Return the answer for each feature; a refusal of the whole request has the empty name."""
    if response.error_code:
        return {"": Said(response.error_code, (response.error_message or "").removeprefix(FOR_ALL))}
    told = {one.feature: Said(one.error_code, one.error_message or "") for one in response.results}
    return {update.feature: told.get(update.feature, Said(0, "")) for update in updates}


def held_to(made: Plan, said: dict[str, Said], code: int = INVALID_UPDATE_VERSION, *, whole: bool = True) -> None:
    """Compare the plan of a request with a controller's answer. They agree word for word where the plan is known.

    Where the plan did not see the whole, controllers too, another node may be named than the plan names.
    """
    if "" in said:
        assert made.all_or_nothing
        assert made.judgement in ("refused", "unknown"), said
        assert said[""].code == code
        message = said[""].message
        by_name = {each.update.feature: each for each in made.updates}
        # The controller stops at the first that it refuses, in the order of its map.
        for name in in_map_order(by_name):
            if by_name[name].judgement == "refused":
                assert by_name[name].text == message
                break
            if by_name[name].judgement == "unknown" and f"{name}" in message:
                break
        return
    for each in made.updates:
        told = said[each.update.feature]
        if each.judgement == "refused":
            assert told.code == code
            assert told.message == each.text or not whole
        elif each.judgement == "accepted":
            assert told.code == 0, told
