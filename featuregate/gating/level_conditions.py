"""Whether a view meets a condition on a feature, and why. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.catalog import (
    KRAFT_VERSION,
    METADATA_VERSION,
    close_to,
    features,
    level_name,
    quorum_keeps_kraft_version,
)
from featuregate.gating.verdicts import GateVerdict, Reason, silence

if TYPE_CHECKING:
    from featuregate.requirements import FeatureAtLeast
    from featuregate.view.answers import BrokerAnswer
    from featuregate.view.cluster_view import View

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
    elif level is not None:
        verdict = "open" if level >= condition.level else "closed"
    text = str(condition)
    reasons = [Reason(text, None, None, verdict, said)]
    for broker in sorted(view.brokers, key=lambda broker: _can_reach(broker, condition)):
        reported = f"{broker.name} {_broker_level(view, broker, feature)}"
        reasons.append(Reason(text, broker.node_id, broker.address, verdict, reported))
    return verdict, reasons


def _can_reach(broker: BrokerAnswer, condition: FeatureAtLeast) -> bool:
    can_run = broker.can_run(condition.feature)
    return can_run is not None and can_run.max >= condition.level


def _cluster_level(view: View, feature: str, level: int | None) -> str:
    if level is None:
        return "the finalized level is unknown: no broker reports any finalized features"
    said = _level(feature, level)
    kept = "" if any(broker.epoch == view.epoch for broker in view.answering) else ", kept from an earlier view"
    if level and feature == KRAFT_VERSION and not quorum_keeps_kraft_version(view.level(METADATA_VERSION) or 0):
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
