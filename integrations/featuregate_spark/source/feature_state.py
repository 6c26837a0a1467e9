"""What a reader of features shows at one moment, and its JSON document. Pure.

Both readers make their rows from such a document: a batch from its input partition, a stream from its offset. So a
replay from Spark's offset log and a task that is retried give the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from featuregate.gating.latches import LatchState, advance
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure, FrozenMap, SupportedRange
from featuregate.view.merging import merge
from featuregate_spark.errors import OffsetCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from featuregate import View

    Answer = tuple[Mapping[int, ApiRange], Mapping[str, SupportedRange], Mapping[str, int], Mapping[str, int]]

__all__ = ["FeatureState", "Levels", "document_of", "latched_levels", "next_state", "seen_levels", "state_from"]

SCHEMA_VERSION: Final = 1
LONGEST_TEXT: Final = 300
"""Maximum characters of a broker's error: Spark writes the offset to its log with each batch."""

Levels = dict[str, int | None]
"""Feature to its level: 0 if it is absent, None if that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureState:
    """The state that a reader shows from one change of the cluster to the next."""

    number: int
    """The number of changes so far."""
    view: View
    latched: Mapping[str, int]
    """The highest finalized level of each feature that was ever seen."""


def next_state(before: FeatureState | None, now: View) -> FeatureState:
    """Return the state after a view; the number rises only if the content changed.

    A broker that lags behind an earlier view moves no level, and a level that really fell stays latched. Another
    cluster id starts afresh.
    """
    view = merge(
        now.brokers,
        cluster_id=now.cluster_id,
        controller_id=now.controller_id,
        broker_list=now.broker_list,
        role=now.role,
        previous=before.view if before is not None else None,
        seen_at=now.seen_at,
    )
    held = LatchState() if before is None else LatchState(cluster_id=before.view.cluster_id, levels=before.latched)
    same = before is not None and before.view.same_content(view)
    number = 0 if before is None else before.number
    return FeatureState(number=number if same else number + 1, view=view, latched=advance(held, view).levels)


# ---------------------------------------------------------------------- levels


def seen_levels(state: FeatureState) -> Levels:
    """Return the levels of the newest epoch."""
    return {feature: state.view.level(feature) for feature in _features(state)}


def latched_levels(state: FeatureState) -> Levels:
    """Return the levels that never fall."""
    return {
        feature: max(level or 0, state.latched[feature]) if feature in state.latched else level
        for feature, level in seen_levels(state).items()
    }


def _features(state: FeatureState) -> list[str]:
    """Return all features that a broker reports, or that are latched."""
    named = [name for broker in state.view.answering for name in (*broker.supported, *broker.finalized)]
    return sorted({*named, *state.view.finalized, *state.latched})


# ---------------------------------------------------------------------- the document


def document_of(state: FeatureState) -> dict[str, Any]:
    """Return a state as JSON-able values. Equal answers of many brokers are stored once."""
    answers: dict[Answer, int] = {}
    brokers = [_broker_document(broker, answers) for broker in state.view.brokers]
    return {
        "v": SCHEMA_VERSION,
        "n": state.number,
        "cluster_id": state.view.cluster_id,
        "role": state.view.role,
        "broker_list": state.view.broker_list,
        "seen_at": state.view.seen_at,
        "epoch": state.view.epoch,
        "finalized": dict(state.view.finalized),
        "finalized_min": dict(state.view.finalized_min),
        "latched": dict(state.latched),
        "brokers": brokers,
        "answers": [
            {
                "apis": {str(key): list(versions) for key, versions in apis.items()},
                "supported": {name: list(levels) for name, levels in supported.items()},
                "finalized": dict(finalized),
                "finalized_min": dict(finalized_min),
            }
            for apis, supported, finalized, finalized_min in answers
        ],
    }


def _broker_document(broker: BrokerAnswer, answers: dict[Answer, int]) -> dict[str, Any]:
    place = {"id": broker.node_id, "host": broker.host, "port": broker.port}
    if broker.failure is not None:
        return {**place, "failure": [broker.failure.kind, broker.failure.text[:LONGEST_TEXT]]}
    content = (broker.api_ranges, broker.supported, broker.finalized, broker.finalized_min)
    return {
        **place,
        "answer": answers.setdefault(content, len(answers)),
        "epoch": broker.epoch,
        "asked_version": broker.asked_version,
    }


def state_from(document: Any) -> FeatureState:
    """Read what :func:`document_of` gave.

    Raises
    ------
    OffsetCorrupt
        It is no such document, or a newer release wrote it.
    """
    try:
        version = document["v"]
        if version != SCHEMA_VERSION:
            raise OffsetCorrupt(f"an offset of version {version!r} is unknown: upgrade featuregate")
        return _step_from(document)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise OffsetCorrupt(f"this is not an offset of kafka_features: {type(error).__name__}: {error}") from error


def _step_from(document: Any) -> FeatureState:
    answers = [
        (
            FrozenMap({int(key): ApiRange(*versions) for key, versions in each["apis"].items()}),
            FrozenMap({name: SupportedRange(*levels) for name, levels in each["supported"].items()}),
            FrozenMap(each["finalized"]),
            FrozenMap(each.get("finalized_min", {})),
        )
        for each in document["answers"]
    ]
    role, seen_at = document["role"], float(document["seen_at"])
    merged = merge(
        [_answer(each, answers, role=role, seen_at=seen_at) for each in document["brokers"]],
        cluster_id=document["cluster_id"],
        role=role,
        broker_list=document["broker_list"],
        seen_at=seen_at,
    )
    # The finalized levels are those of the newest epoch ever seen, whose broker may not answer now.
    view = replace(
        merged,
        epoch=int(document["epoch"]),
        finalized=FrozenMap(document["finalized"]),
        finalized_min=FrozenMap(document.get("finalized_min", {})),
    )
    return FeatureState(number=int(document["n"]), view=view, latched=FrozenMap(document["latched"]))


def _answer(document: Any, answers: Sequence[Answer], *, role: Any, seen_at: float) -> BrokerAnswer:
    place: dict[str, Any] = {
        "node_id": document["id"],
        "host": document["host"],
        "port": document["port"],
        "role": role,
        "answered_at": seen_at,
    }
    if "failure" in document:
        return BrokerAnswer(**place, failure=Failure(*document["failure"]))
    apis, supported, finalized, finalized_min = answers[document["answer"]]
    return BrokerAnswer(
        **place,
        api_ranges=apis,
        supported=supported,
        finalized=finalized,
        finalized_min=finalized_min,
        epoch=document["epoch"],
        asked_version=document["asked_version"],
    )
