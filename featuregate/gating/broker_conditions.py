"""Whether the brokers of a view meet a condition on API versions, a release or a config, and why. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from featuregate.catalog import api_name
from featuregate.gating.verdicts import RANK, GateVerdict, Reason, silence
from featuregate.requirements import (
    MAX_LEVEL,
    ApiAtLeast,
    ApiBetween,
    Condition,
    ConfigHas,
    Release,
    Requirement,
    configs_in,
)
from featuregate.view.releases import lacks_of_release

if TYPE_CHECKING:
    from featuregate.excluded_apis import ExcludedApis
    from featuregate.view.answers import ApiRange, BrokerAnswer
    from featuregate.view.cluster_view import View

_APIS: Final = 3
_REMOVED: Final = {"group.coordinator.rebalance.protocols": {"classic": 11, "consumer": 68, "streams": 88}}
"""Configs that Kafka 5.0 removes (KIP-1237), each with the API of what a value switches.

A broker that has the API without the config has it on: there the level decides. An older broker has neither.
"""


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


def _newest_usable(served: ApiRange | None, speaks: ApiBetween, excluded: ExcludedApis) -> int | None:
    """Return the highest version in common that may be used; None where there is none."""
    return None if served is None else excluded.newest(speaks.key, *_common(served, speaks))


def _of_each(
    view: View, condition: Condition, judge: Callable[[BrokerAnswer], tuple[GateVerdict, str]]
) -> tuple[GateVerdict, list[Reason]]:
    """Every known broker must answer and qualify (invariant 3)."""
    text = str(condition)
    if not view.brokers:
        return "unknown", [Reason(text, None, None, "unknown", f"no {view.role} is known")]
    reasons = []
    for broker in view.brokers:
        verdict, said = judge(broker) if broker.failure is None else ("unknown", silence(broker.failure))
        reasons.append(Reason(text, broker.node_id, broker.address, verdict, f"{broker.name} {said}"))
    return min((reason.verdict for reason in reasons), key=RANK.__getitem__), reasons


def _serves(broker: BrokerAnswer, speaks: ApiBetween, excluded: ExcludedApis) -> tuple[GateVerdict, str]:
    """Say whether a broker serves a version that a client speaks and may use."""
    serves = broker.serves(speaks.key)
    said = _serving(speaks.key, serves)
    if serves is None or not _overlap(serves, speaks):
        return "closed", said
    if _newest_usable(serves, speaks, excluded) is not None:
        return "open", said
    return "closed", f"{said}, but {excluded.why(speaks.key, *_common(serves, speaks))}"


def _judge_between(view: View, condition: ApiBetween, excluded: ExcludedApis) -> tuple[GateVerdict, list[Reason]]:
    verdict, reasons = _of_each(view, condition, lambda broker: _serves(broker, condition, excluded))
    common = view.api(condition.key)
    if verdict != "closed" and view.answering and _newest_usable(common, condition, excluded) is None:
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


def _is_release(broker: BrokerAnswer, condition: Release) -> tuple[GateVerdict, str]:
    lacks = lacks_of_release(broker, condition.version)
    if not lacks:
        return "open", f"has all that {condition.version} has"
    more = f" and {len(lacks) - _APIS} more" if len(lacks) > _APIS else ""
    return "closed", f"lacks what {condition.version} has: {', '.join(lacks[:_APIS])}{more}"


def judge_config(view: View, condition: ConfigHas) -> tuple[GateVerdict, list[Reason]]:
    """Decide a condition by the configs of every known broker; each gives a reason.

    It is unknown as long as a broker is silent, was not asked, or did not tell its value, and closed as soon as a
    broker has another value, or no such config. A config that newer brokers do not have closes nothing there.
    """
    if view.role != "broker":
        text = f"brokers have this config, not {view.role}s"
        return "unknown", [Reason(str(condition), None, None, "unknown", text)]
    return _of_each(view, condition, lambda broker: _has_config(broker, condition))


def lacks_configs(view: View | None, requirement: Requirement) -> bool:
    """Return whether the brokers of a view were not asked for a config that a requirement depends on."""
    answering = () if view is None else view.answering
    return any(name not in broker.configs for name in configs_in(requirement) for broker in answering)


def _has_config(broker: BrokerAnswer, condition: ConfigHas) -> tuple[GateVerdict, str]:
    found = broker.configs.get(condition.name)
    if found is None:
        return "unknown", f"was not asked for {condition.name}: only a gate, or configs= of discover(), asks for it"
    if not found.exists:
        return _without_config(broker, condition)
    if found.value is None:
        return "unknown", f"does not tell {condition.name}: {found.problem}"
    has = condition.value in (part.strip() for part in found.value.split(","))
    return "open" if has else "closed", f"has {condition.name}={found.value}"


def _without_config(broker: BrokerAnswer, condition: ConfigHas) -> tuple[GateVerdict, str]:
    """Decide by the APIs of a broker that has no such config."""
    said = f"has no config {condition.name}"
    key = _REMOVED.get(condition.name, {}).get(condition.value)
    if key is None:
        return "closed", said
    if broker.serves(key) is None:
        return "closed", f"{said}, and does not serve {api_name(key)}"
    return "open", f"{said} (5.0 removes it, KIP-1237) and serves {api_name(key)}: the level decides"


def _overlap(served: ApiRange, condition: ApiBetween) -> bool:
    return served.min <= condition.highest and condition.lowest <= served.max


def _common(served: ApiRange, speaks: ApiBetween) -> tuple[int, int]:
    return max(served.min, speaks.lowest), min(served.max, speaks.highest)


def _serving(key: int, serves: ApiRange | None) -> str:
    return f"does not serve {api_name(key)}" if serves is None else f"serves {api_name(key)} {serves.min}..{serves.max}"
