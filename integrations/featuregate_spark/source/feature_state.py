"""What a reader of features shows at one moment, and the document that it can be read from again. Pure.

Both ways of reading give their rows from such a document: a batch from that of its one step, a stream from its offset.
So what is read again, from Spark's log of offsets or by a task that is tried again, is the same to the last row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from featuregate.gating.latches import LatchState, ratchet
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure, FrozenMap, SupportedRange
from featuregate.view.cluster_view import merge
from featuregate_spark.errors import OffsetCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from featuregate import View

    Said = tuple[Mapping[int, ApiRange], Mapping[str, SupportedRange], Mapping[str, int], Mapping[str, int]]

__all__ = ["FeatureState", "Levels", "document_of", "latched_levels", "next_state", "seen_levels", "state_from"]

SCHEMA_VERSION: Final = 1
LONGEST_TEXT: Final = 300
"""So many characters of a broker's error are kept: Spark writes the offset to its log with each batch."""

Levels = dict[str, int | None]
"""Feature to the level to go by: 0 where it is absent, None where that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureState:
    """What a reader shows from one change of the cluster to the next."""

    number: int
    """How many changes there were."""
    view: View
    latched: Mapping[str, int]
    """The highest finalized level that was ever seen of each feature."""


def next_state(before: FeatureState | None, seen: View) -> FeatureState:
    """Go on with what was seen now; the number rises only where the content changed.

    A broker that lags behind what was seen before does not move a level, and a level that really fell stays latched.
    Another cluster id starts afresh.
    """
    view = merge(
        seen.brokers,
        cluster_id=seen.cluster_id,
        controller_id=seen.controller_id,
        broker_list=seen.broker_list,
        role=seen.role,
        previous=before.view if before is not None else None,
        seen_at=seen.seen_at,
    )
    held = LatchState() if before is None else LatchState(cluster_id=before.view.cluster_id, levels=before.latched)
    same = before is not None and before.view.same_content(view)
    number = 0 if before is None else before.number
    return FeatureState(number=number if same else number + 1, view=view, latched=ratchet(held, view).levels)


# ---------------------------------------------------------------------- levels


def seen_levels(step: FeatureState) -> Levels:
    """Give the levels that the newest epoch has, whatever was seen before."""
    return {feature: step.view.level(feature) for feature in _features(step)}


def latched_levels(step: FeatureState) -> Levels:
    """Give the levels that never fall."""
    return {
        feature: max(level or 0, step.latched[feature]) if feature in step.latched else level
        for feature, level in seen_levels(step).items()
    }


def _features(step: FeatureState) -> list[str]:
    """Name all that anybody reports, and all that is latched."""
    said = [name for broker in step.view.answering for name in (*broker.supported, *broker.finalized)]
    return sorted({*said, *step.view.finalized, *step.latched})


# ---------------------------------------------------------------------- a step as a document, and back


def document_of(step: FeatureState) -> dict[str, Any]:
    """Give a step as JSON-able values. What many brokers say alike is there once."""
    said: dict[Said, int] = {}
    brokers = [_broker_document(broker, said) for broker in step.view.brokers]
    return {
        "v": SCHEMA_VERSION,
        "n": step.number,
        "cluster_id": step.view.cluster_id,
        "role": step.view.role,
        "broker_list": step.view.broker_list,
        "seen_at": step.view.seen_at,
        "epoch": step.view.epoch,
        "finalized": dict(step.view.finalized),
        "finalized_min": dict(step.view.finalized_min),
        "latched": dict(step.latched),
        "brokers": brokers,
        "said": [
            {
                "apis": {str(key): list(versions) for key, versions in apis.items()},
                "supported": {name: list(levels) for name, levels in supported.items()},
                "finalized": dict(finalized),
                "finalized_min": dict(finalized_min),
            }
            for apis, supported, finalized, finalized_min in said
        ],
    }


def _broker_document(broker: BrokerAnswer, said: dict[Said, int]) -> dict[str, Any]:
    place = {"id": broker.node_id, "host": broker.host, "port": broker.port}
    if broker.failure is not None:
        return {**place, "failure": [broker.failure.kind, broker.failure.text[:LONGEST_TEXT]]}
    content = (broker.api_ranges, broker.supported, broker.finalized, broker.finalized_min)
    return {
        **place,
        "said": said.setdefault(content, len(said)),
        "epoch": broker.epoch,
        "asked_version": broker.asked_version,
    }


def state_from(document: Any) -> FeatureState:
    """Read what :func:`document_of` gave.

    Raises
    ------
    OffsetCorrupt
        It is no such document, or of a newer release.
    """
    try:
        version = document["v"]
        if version != SCHEMA_VERSION:
            raise OffsetCorrupt(f"an offset of version {version!r} is not known here: upgrade featuregate")
        return _step_from(document)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise OffsetCorrupt(f"this is no offset of kafka_features: {type(error).__name__}: {error}") from error


def _step_from(document: Any) -> FeatureState:
    said = [
        (
            FrozenMap({int(key): ApiRange(*versions) for key, versions in each["apis"].items()}),
            FrozenMap({name: SupportedRange(*levels) for name, levels in each["supported"].items()}),
            FrozenMap(each["finalized"]),
            FrozenMap(each.get("finalized_min", {})),
        )
        for each in document["said"]
    ]
    role, seen_at = document["role"], float(document["seen_at"])
    merged = merge(
        [_answer(each, said, role=role, seen_at=seen_at) for each in document["brokers"]],
        cluster_id=document["cluster_id"],
        role=role,
        broker_list=document["broker_list"],
        seen_at=seen_at,
    )
    # What was finalized is told by the newest epoch ever seen, which may be of a broker that is silent now.
    view = replace(
        merged,
        epoch=int(document["epoch"]),
        finalized=FrozenMap(document["finalized"]),
        finalized_min=FrozenMap(document.get("finalized_min", {})),
    )
    return FeatureState(number=int(document["n"]), view=view, latched=FrozenMap(document["latched"]))


def _answer(document: Any, said: Sequence[Said], *, role: Any, seen_at: float) -> BrokerAnswer:
    place: dict[str, Any] = {
        "node_id": document["id"],
        "host": document["host"],
        "port": document["port"],
        "role": role,
        "answered_at": seen_at,
    }
    if "failure" in document:
        return BrokerAnswer(**place, failure=Failure(*document["failure"]))
    apis, supported, finalized, finalized_min = said[document["said"]]
    return BrokerAnswer(
        **place,
        api_ranges=apis,
        supported=supported,
        finalized=finalized,
        finalized_min=finalized_min,
        epoch=document["epoch"],
        asked_version=document["asked_version"],
    )
