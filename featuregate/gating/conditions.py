"""Whether a view meets a condition on a feature, on API versions, a release or a config, and why. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from featuregate.catalog import (
    KRAFT_VERSION,
    METADATA_VERSION,
    api_name,
    close_to,
    features,
    level_name,
    quorum_keeps_kraft_version,
)
from featuregate.printable import some
from featuregate.requirements import (
    MAX_LEVEL,
    ApiAtLeast,
    ApiBetween,
    Condition,
    ConfigHas,
    FeatureAtLeast,
    Release,
    Requirement,
    configs_in,
)
from featuregate.view.releases import lacks_of_release

if TYPE_CHECKING:
    from featuregate.excluded_apis import ExcludedApis
    from featuregate.view.answers import ApiRange, BrokerAnswer, Failure
    from featuregate.view.cluster_view import View

GateVerdict = Literal["open", "closed", "unknown"]

RANK: Final[dict[GateVerdict, int]] = {"closed": 0, "unknown": 1, "open": 2}
"""The worst first."""

SILENT: Final = "did not answer"


class Reason(NamedTuple):
    """What one broker, or the cluster as a whole, contributes to one condition."""

    condition: str
    """The text of the condition."""
    node_id: int | None
    """None for the cluster as a whole, and for a broker of which only the address is known."""
    address: str | None
    """``host:port``; None for the cluster as a whole."""
    verdict: GateVerdict
    """What it contributes. For a feature it is the verdict of the cluster: brokers only repeat what they were sent."""
    text: str
    """A sentence for people."""

    def __str__(self) -> str:
        return f"{self.condition}: {self.text}"


def silence(failure: Failure) -> str:
    """Say of a broker that it did not answer."""
    return f"{SILENT}: {failure.kind}: {failure.text}"


_APIS: Final = 3
_REMOVED: Final = {"group.coordinator.rebalance.protocols": {"classic": 11, "consumer": 68, "streams": 88}}
"""Configs that Kafka 5.0 removes (KIP-1237), each with the API of what a value switches.

A broker that has the API without the config has it on: there the level decides. An older broker has neither.
"""


def judge_brokers(
    view: View, condition: ApiAtLeast | ApiBetween | ConfigHas | Release, excluded: ExcludedApis
) -> tuple[GateVerdict, list[Reason]]:
    """Decide a condition by the API ranges or the configs of every known broker; each gives a reason.

    One on a config is unknown as long as a broker is silent, was not asked, or did not tell its value, and closed as
    soon as a broker has another value, or no such config. A config that newer brokers do not have closes nothing there.
    """
    match condition:
        case ApiAtLeast():
            speaks = ApiBetween(condition.key, condition.version, MAX_LEVEL)
            return _of_each(view, condition, lambda broker: _serves(broker, speaks, excluded))
        case ApiBetween():
            return _judge_between(view, condition, excluded)
        case ConfigHas() if view.role == "broker":
            return _of_each(view, condition, lambda broker: _has_config(broker, condition))
        case ConfigHas():
            return _unknown(condition, f"brokers have this config, not {view.role}s")
        case Release() if view.role == "broker":
            return _of_each(view, condition, lambda broker: _is_release(broker, condition))
        case _:  # a release: controllers list the APIs of another listener than the broker that was captured
            return _unknown(condition, f"releases are known of brokers, not of {view.role}s")


def _unknown(condition: Condition, text: str) -> tuple[GateVerdict, list[Reason]]:
    return "unknown", [Reason(str(condition), None, None, "unknown", text)]


def _of_each(
    view: View, condition: Condition, judge: Callable[[BrokerAnswer], tuple[GateVerdict, str]]
) -> tuple[GateVerdict, list[Reason]]:
    """Every known broker must answer and qualify (invariant 3)."""
    if not view.brokers:
        return _unknown(condition, f"no {view.role} is known")
    text, reasons = str(condition), []
    for broker in view.brokers:
        verdict, said = judge(broker) if broker.failure is None else ("unknown", silence(broker.failure))
        reasons.append(Reason(text, broker.node_id, broker.address, verdict, f"{broker.name} {said}"))
    return min((reason.verdict for reason in reasons), key=RANK.__getitem__), reasons


def _serves(broker: BrokerAnswer, speaks: ApiBetween, excluded: ExcludedApis) -> tuple[GateVerdict, str]:
    """Say whether a broker serves a version that a client speaks and may use."""
    serves = broker.serves(speaks.key)
    if serves is None:
        return "closed", f"does not serve {api_name(speaks.key)}"
    said = f"serves {api_name(speaks.key)} {serves.min}..{serves.max}"
    problem = _why_unusable(serves, speaks, excluded)
    if problem is None:
        return "open", said
    return "closed", f"{said}, but {problem}" if problem else said


def _why_unusable(served: ApiRange, speaks: ApiBetween, excluded: ExcludedApis) -> str | None:
    """Say why no version in common may be used; an empty text where there is none, None where one may be used."""
    lowest, highest = max(served.min, speaks.lowest), min(served.max, speaks.highest)
    if lowest > highest:
        return ""
    usable = excluded.newest(speaks.key, lowest, highest)
    return excluded.why(speaks.key, lowest, highest) if usable is None else None


def _judge_between(view: View, condition: ApiBetween, excluded: ExcludedApis) -> tuple[GateVerdict, list[Reason]]:
    verdict, reasons = _of_each(view, condition, lambda broker: _serves(broker, condition, excluded))
    common = view.api(condition.key)
    problem = "" if common is None else _why_unusable(common, condition, excluded)
    if verdict != "closed" and view.answering and problem is not None:
        # Each has something in common with the client, and yet there is nothing that all of them have.
        text = f"no version from {condition.lowest} to {condition.highest} is served by all of them"
        text += f": {problem}" if problem else ""
        return "closed", [Reason(str(condition), None, None, "closed", text), *reasons]
    return verdict, reasons


def _is_release(broker: BrokerAnswer, condition: Release) -> tuple[GateVerdict, str]:
    lacks = lacks_of_release(broker, condition.version)
    if not lacks:
        return "open", f"has all that {condition.version} has"
    return "closed", f"lacks what {condition.version} has: {some(lacks, _APIS)}"


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


_FEATURES_FROM: Final = 3


def judge_level(view: View, condition: FeatureAtLeast, old_levels: str | None) -> tuple[GateVerdict, list[Reason]]:
    """Return the verdict of the cluster, with the reasons of each broker; those that cannot run the level come first.

    ``old_levels`` says why the levels of the view prove nothing any more; None where they do.
    """
    feature = condition.feature
    level = view.level(feature)
    said = _cluster_level(view, feature, level)
    verdict: GateVerdict = "unknown"
    if level is not None and old_levels is not None:
        said = f"{said}, and {old_levels}"
    elif level is not None and level < condition.level:
        verdict = "closed"
    elif level is not None and not _may_be_a_record_alone(view, feature):
        verdict = "open"
    text = str(condition)
    reasons = [Reason(text, None, None, verdict, said)]
    for broker in sorted(view.brokers, key=lambda broker: _can_reach(broker, condition)):
        reported = f"{broker.name} {_broker_level(view, broker, feature)}"
        reasons.append(Reason(text, broker.node_id, broker.address, verdict, reported))
    return verdict, reasons


def _can_reach(broker: BrokerAnswer, condition: FeatureAtLeast) -> bool:
    can_run = broker.can_run(condition.feature)
    return can_run is not None and can_run.max >= condition.level


def _may_be_a_record_alone(view: View, feature: str) -> bool:
    """Say whether the quorum may not have a level that brokers report."""
    return feature == KRAFT_VERSION and not quorum_keeps_kraft_version(view.level(METADATA_VERSION) or 0)


def _cluster_level(view: View, feature: str, level: int | None) -> str:
    if level is None:
        return "the finalized level is unknown: no broker reports any finalized features"
    said = _level(feature, level)
    kept = "" if any(broker.epoch == view.epoch for broker in view.answering) else ", kept from an earlier view"
    if level and _may_be_a_record_alone(view, feature):
        kept += "; controllers before 4.1 report it even where their quorum does not have it (KAFKA-18979)"
    if level or feature in view.supported or feature in features():
        return f"the finalized level is {said} at epoch {view.epoch}{kept}"
    close = close_to(feature, features())
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"the finalized level is {said} at epoch {view.epoch}{kept}, and we know of no such feature{hint}"


def _broker_level(view: View, broker: BrokerAnswer, feature: str) -> str:
    """Say what one broker reported, with what explains it."""
    if broker.failure is not None:
        return silence(broker.failure)
    if broker.epoch < 0:
        return _no_epoch(broker)
    level = broker.finalized.get(feature, 0)
    stale = broker.epoch < view.epoch and level != view.level(feature)
    said = f"{'still says' if stale else 'says'} {_level(feature, level)} at epoch {broker.epoch}"
    return f"{said}, {_can_run(broker, feature)}"


def _no_epoch(broker: BrokerAnswer) -> str:
    if broker.asked_version is not None and broker.asked_version < _FEATURES_FROM:
        return f"was asked at ApiVersions v{broker.asked_version}, which knows no features: Kafka before 2.4"
    bogus = " (what it lists without an epoch means nothing)" if broker.finalized else ""
    return f"reports no finalized features (epoch -1){bogus}: Kafka before 2.7, or no feature was ever finalized"


def _can_run(broker: BrokerAnswer, feature: str) -> str:
    can_run = broker.can_run(feature)
    if can_run is not None:
        return f"can run {can_run.min}..{can_run.max}"
    if broker.hides_features:
        return f"may hide what it can run (ApiVersions v{broker.asked_version} leaves out features that start at 0)"
    return "without a supported range"


def _level(feature: str, level: int) -> str:
    if not level:
        return "0 (absent)"
    return f"{level} ({level_name(feature, level)})" if feature == METADATA_VERSION else str(level)
