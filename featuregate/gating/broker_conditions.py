"""Whether the brokers of a view meet a condition on API versions or a release, and why. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from featuregate.catalog import METADATA_VERSION, api_name, level_name, needed_for
from featuregate.gating.verdicts import RANK, GateVerdict, Reason, silence
from featuregate.requirements import MAX_LEVEL, ApiAtLeast, ApiBetween, Condition, Release

if TYPE_CHECKING:
    from featuregate.excluded_apis import ExcludedApis
    from featuregate.view.answers import ApiRange, BrokerAnswer
    from featuregate.view.cluster_view import View

_APIS: Final = 3


def judge_brokers(
    view: View, condition: ApiAtLeast | ApiBetween | Release, excluded: ExcludedApis
) -> tuple[GateVerdict, list[Reason]]:
    """Decide a condition by the API ranges of every known broker; each gives a reason."""
    if isinstance(condition, ApiAtLeast):
        speaks = ApiBetween(condition.key, condition.version, MAX_LEVEL)
        return _of_each(view, condition, lambda broker: _serves(broker, speaks, excluded))
    if isinstance(condition, ApiBetween):
        return _judge_between(view, condition, excluded)
    return _judge_release(view, condition)


def newest_usable(served: ApiRange | None, speaks: ApiBetween, excluded: ExcludedApis) -> int | None:
    """Return the highest version in common that may be used; None where there is none."""
    return None if served is None else excluded.newest(speaks.key, *_common(served, speaks))


def _of_each(
    view: View, condition: Condition, qualifies: Callable[[BrokerAnswer], tuple[bool, str]]
) -> tuple[GateVerdict, list[Reason]]:
    """Every known broker must answer and qualify (invariant 3)."""
    text = str(condition)
    if not view.brokers:
        return "unknown", [Reason(text, None, None, "unknown", f"no {view.role} is known")]
    reasons = []
    for broker in view.brokers:
        verdict: GateVerdict = "unknown"
        if broker.failure is not None:
            said = silence(broker.failure)
        else:
            good, said = qualifies(broker)
            verdict = "open" if good else "closed"
        reasons.append(Reason(text, broker.node_id, broker.address, verdict, f"{broker.name} {said}"))
    return min((reason.verdict for reason in reasons), key=RANK.__getitem__), reasons


def _serves(broker: BrokerAnswer, speaks: ApiBetween, excluded: ExcludedApis) -> tuple[bool, str]:
    """Say whether a broker serves a version that a client speaks and may use."""
    serves = broker.serves(speaks.key)
    said = _serving(speaks.key, serves)
    if serves is None or not _overlap(serves, speaks):
        return False, said
    if newest_usable(serves, speaks, excluded) is not None:
        return True, said
    return False, f"{said}, but {excluded.why(speaks.key, *_common(serves, speaks))}"


def _judge_between(view: View, condition: ApiBetween, excluded: ExcludedApis) -> tuple[GateVerdict, list[Reason]]:
    verdict, reasons = _of_each(view, condition, lambda broker: _serves(broker, condition, excluded))
    common = view.api(condition.key)
    if verdict != "closed" and view.answering and newest_usable(common, condition, excluded) is None:
        # Each has something in common with the client, and yet there is nothing that all of them have.
        text = f"no version from {condition.lowest} to {condition.highest} is served by all of them"
        if common is not None and _overlap(common, condition):
            text += f": {excluded.why(condition.key, *_common(common, condition))}"
        return "closed", [Reason(str(condition), None, None, "closed", text), *reasons]
    return verdict, reasons


def _judge_release(view: View, condition: Release) -> tuple[GateVerdict, list[Reason]]:
    if view.role != "broker":
        # Controllers list the APIs of another listener than the broker that was captured.
        text = f"releases are known of brokers, not of {view.role}s"
        return "unknown", [Reason(str(condition), None, None, "unknown", text)]
    return _of_each(view, condition, lambda broker: _is_release(broker, condition))


def _is_release(broker: BrokerAnswer, condition: Release) -> tuple[bool, str]:
    needed = needed_for(condition.version)
    lacks = [
        f"{api_name(key)} {version}"
        for key, version in needed.apis.items()
        if (serves := broker.serves(key)) is None or serves.max < version
    ]
    can_run = broker.can_run(METADATA_VERSION)
    if needed.metadata_level is not None and can_run is not None and can_run.max < needed.metadata_level:
        lacks.append(f"{METADATA_VERSION} {level_name(METADATA_VERSION, needed.metadata_level)}")
    if not lacks:
        return True, f"has all that {condition.version} has"
    more = f" and {len(lacks) - _APIS} more" if len(lacks) > _APIS else ""
    return False, f"lacks what {condition.version} has: {', '.join(lacks[:_APIS])}{more}"


def _overlap(served: ApiRange, condition: ApiBetween) -> bool:
    return served.min <= condition.highest and condition.lowest <= served.max


def _common(served: ApiRange, speaks: ApiBetween) -> tuple[int, int]:
    return max(served.min, speaks.lowest), min(served.max, speaks.highest)


def _serving(key: int, serves: ApiRange | None) -> str:
    return f"does not serve {api_name(key)}" if serves is None else f"serves {api_name(key)} {serves.min}..{serves.max}"
