"""What a reader of features shows at one moment, and its JSON document. Pure.

Both readers make their rows from such a document: a batch from its input partition, a stream from its offset. So a
replay from Spark's offset log and a task that is retried give the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.gating.decisions import FRESH, Staleness
from featuregate.gating.latches import LatchState, advance
from featuregate.json_values import JsonValue, check_schema
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure, FrozenMap, SupportedRange
from featuregate.view.merging import merge
from featuregate_spark.errors import OffsetCorrupt

if TYPE_CHECKING:
    from featuregate import View
    from featuregate.roles import Role

    Answer = tuple[Mapping[int, ApiRange], Mapping[str, SupportedRange], Mapping[str, int], Mapping[str, int]]

SCHEMA_VERSION: Final = 1
LONGEST_TEXT: Final = 300
"""Maximum characters of a broker's error: Spark writes the offset to its log with each batch."""

Levels = dict[str, int | None]
"""Feature to its level: 0 if it is absent, None if that is unknown."""


class Ages(NamedTuple):
    """The times from which a state ages, in seconds since the Unix epoch, so that they outlive the process."""

    levels_at: float
    """When a broker last reported the finalized levels of the view, or newer ones."""
    unlisted_since: Mapping[int, float] = FrozenMap()
    """Node id to the time from which the cluster has not listed this known broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureState:
    """The state that a reader shows from one change of the cluster to the next."""

    number: int
    """The number of changes so far."""
    view: View
    latched: Mapping[str, int]
    """The highest finalized level of each feature that was ever seen."""
    ages: Ages
    stale: Staleness
    """Why the view, or its levels, prove nothing any more."""


def next_state(
    before: FeatureState | None, view: View, ages: Ages | None = None, stale: Staleness = FRESH
) -> FeatureState:
    """Return the state after a poll; the number rises only if the content changed.

    A level that fell stays latched. Another cluster id starts afresh. It is a change, too, when no broker reports the
    finalized levels of the view any more: only an offset that is written then lets the levels age over restarts.
    """
    view = _without_configs(view)
    held = LatchState() if before is None else LatchState(cluster_id=before.view.cluster_id, levels=before.latched)
    state = FeatureState(
        number=1 if before is None else before.number,
        view=view,
        latched=advance(held, view).levels,
        ages=ages or Ages(levels_at=view.seen_at),
        stale=stale,
    )
    same = before is None or (before.view.same_content(view) and _freshness(before) == _freshness(state))
    return state if same else replace(state, number=state.number + 1)


def _without_configs(view: View) -> View:
    """Leave out the configs of brokers, of which neither rows nor offsets tell anything."""
    if not any(broker.configs for broker in view.brokers):
        return view
    return replace(view, brokers=tuple(replace(broker, configs=FrozenMap()) for broker in view.brokers))


def reports_levels(view: View) -> bool:
    """Return whether a broker still reports the finalized levels of a view."""
    return any(broker.epoch >= view.epoch for broker in view.answering)


def _freshness(state: FeatureState) -> tuple[bool, bool, bool]:
    return state.stale.view is None, state.stale.levels is None, reports_levels(state.view)


# ---------------------------------------------------------------------- levels


def seen_levels(state: FeatureState) -> Levels:
    """Return the levels of the newest epoch; stale levels are unknown."""
    fresh = state.stale == FRESH
    return {feature: state.view.level(feature) if fresh else None for feature in _features(state)}


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
        "levels_at": state.ages.levels_at,
        "unlisted_since": {str(node_id): at for node_id, at in state.ages.unlisted_since.items()},
        "stale": list(state.stale),
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
        return _state_from(JsonValue("offset", document))
    except ValueError as error:
        raise OffsetCorrupt(f"this is not an offset of kafka_features: {error}") from error


def _state_from(document: JsonValue) -> FeatureState:
    check_schema(document, newest=SCHEMA_VERSION, field="v")
    answers = [_content_from(each) for each in document.field("answers").items()]
    role: Role = document.field("role").one_of("broker", "controller")
    seen_at = document.field("seen_at").seconds()
    merged = merge(
        [_answer_from(each, answers, role=role, seen_at=seen_at) for each in document.field("brokers").items()],
        cluster_id=document.field("cluster_id").optional(JsonValue.text),
        role=role,
        broker_list=document.field("broker_list").one_of("cluster", "bootstrap"),
        seen_at=seen_at,
    )
    # The finalized levels are those of the newest epoch ever seen, whose broker may not answer now.
    view = replace(
        merged,
        epoch=document.field("epoch").integer(),
        finalized=FrozenMap(document.field("finalized").integers()),
        finalized_min=FrozenMap(document.field("finalized_min").integers()),
    )
    stale_view, stale_levels = document.field("stale").items()
    return FeatureState(
        number=document.field("n").integer(),
        view=view,
        latched=FrozenMap(document.field("latched").integers()),
        ages=Ages(
            levels_at=document.field("levels_at").seconds(),
            unlisted_since=FrozenMap(
                {int(node_id): at.seconds() for node_id, at in document.field("unlisted_since").fields().items()}
            ),
        ),
        stale=Staleness(stale_view.optional(JsonValue.text), stale_levels.optional(JsonValue.text)),
    )


def _content_from(document: JsonValue) -> Answer:
    apis, supported = document.field("apis").fields(), document.field("supported").fields()
    return (
        FrozenMap({int(key): ApiRange(*versions.pair()) for key, versions in apis.items()}),
        FrozenMap({name: SupportedRange(*levels.pair()) for name, levels in supported.items()}),
        FrozenMap(document.field("finalized").integers()),
        FrozenMap(document.field("finalized_min").integers()),
    )


def _answer_from(document: JsonValue, answers: Sequence[Answer], *, role: Role, seen_at: float) -> BrokerAnswer:
    place: dict[str, Any] = {
        "node_id": document.field("id").optional(JsonValue.integer),
        "host": document.field("host").text(),
        "port": document.field("port").integer(),
        "role": role,
        "answered_at": seen_at,
    }
    if "failure" in document.fields():
        kind, text = document.field("failure").items()
        return BrokerAnswer(**place, failure=Failure(kind.text(), text.text()))
    number = document.field("answer")
    if number.integer() not in range(len(answers)):
        raise number.wrong("the number of an answer")
    apis, supported, finalized, finalized_min = answers[number.integer()]
    return BrokerAnswer(
        **place,
        api_ranges=apis,
        supported=supported,
        finalized=finalized,
        finalized_min=finalized_min,
        epoch=document.field("epoch").integer(),
        asked_version=document.field("asked_version").optional(JsonValue.integer),
    )
