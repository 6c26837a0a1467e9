"""A view as rows: the APIs and features of each broker, and of the whole cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.catalog import api_name, level_name
from featuregate_spark.source.feature_state import FeatureState, Levels, seen_levels

if TYPE_CHECKING:
    from featuregate import View
    from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange

KINDS: Final = ("api", "feature", "error")

SCHEMA: Final = (
    "cluster_id STRING, role STRING, scope STRING, broker INT, host STRING, port INT, kind STRING, feature STRING, "
    "api_key INT, min INT, max INT, level INT, level_name STRING, reported_level INT, epoch BIGINT, error STRING, "
    "text STRING, seen_at TIMESTAMP"
)
"""The columns of :class:`FeatureRow`, as Spark spells them."""

PUSHED: Final = frozenset({"broker", "feature", "kind", "scope"})
"""The columns whose filters are applied here if Spark pushes them down."""

Only = dict[str, frozenset[Any]]
"""Column to the wanted values; a column that is not named may have any."""


class FeatureRow(NamedTuple):
    """One API or one feature of a broker or of the whole cluster; or the error of either."""

    cluster_id: str | None
    role: str
    scope: str
    broker: int | None
    host: str | None
    port: int | None
    kind: str
    feature: str | None
    api_key: int | None
    min: int | None
    max: int | None
    level: int | None
    level_name: str | None
    reported_level: int | None
    epoch: int | None
    error: str | None
    text: str | None
    seen_at: datetime


def rows_of(state: FeatureState, levels: Levels, only: Only) -> Iterator[FeatureRow]:
    """Return the rows of a state: first those of the cluster, then those of each broker.

    Each broker that answered has a row for every API and feature that any broker names. ``min`` and ``max`` are null
    where the broker lacks it.
    """
    for row in _all_rows(state, levels):
        if all(getattr(row, column) in values for column, values in only.items()):
            yield row


def _all_rows(state: FeatureState, levels: Levels) -> Iterator[FeatureRow]:
    view, stale = state.view, state.stale
    keys = sorted({key for broker in view.answering for key in broker.api_ranges})
    cluster = _blank(view)
    if stale.view is not None:
        yield cluster._replace(kind="error", error="StaleView", text=stale.view)
    yield from _apis(cluster, keys, view.api_ranges.get)
    old = cluster if stale.levels is None else cluster._replace(error="StaleLevels", text=stale.levels)
    yield from _features(old, levels, view.supported.get, seen_levels(state).get)
    for broker in view.brokers:
        about = _about(cluster, broker)
        if broker.failure is not None:
            yield about._replace(kind="error", error=broker.failure.kind, text=broker.failure.text)
            continue
        yield from _apis(about, keys, broker.serves)
        yield from _features(about, levels, broker.can_run, partial(_reported, broker))


def _blank(view: View) -> FeatureRow:
    """Return what all rows of the cluster have in common."""
    return FeatureRow(
        cluster_id=view.cluster_id,
        role=view.role,
        scope="cluster",
        broker=None,
        host=None,
        port=None,
        kind="",
        feature=None,
        api_key=None,
        min=None,
        max=None,
        level=None,
        level_name=None,
        reported_level=None,
        epoch=view.epoch if view.epoch >= 0 else None,
        error=None,
        text=None,
        seen_at=datetime.fromtimestamp(view.seen_at, UTC),
    )


def _about(cluster: FeatureRow, broker: BrokerAnswer) -> FeatureRow:
    """Return what all rows of one broker have in common."""
    epoch = broker.epoch if broker.epoch >= 0 else None
    return cluster._replace(scope="broker", broker=broker.node_id, host=broker.host, port=broker.port, epoch=epoch)


def _apis(about: FeatureRow, keys: Sequence[int], serves: Callable[[int], ApiRange | None]) -> Iterator[FeatureRow]:
    for key in keys:
        lowest, highest = serves(key) or (None, None)
        yield about._replace(kind="api", feature=api_name(key), api_key=key, min=lowest, max=highest)


def _features(
    about: FeatureRow,
    levels: Levels,
    can_run: Callable[[str], SupportedRange | None],
    reported: Callable[[str], int | None],
) -> Iterator[FeatureRow]:
    for feature, level in levels.items():
        lowest, highest = can_run(feature) or (None, None)
        yield about._replace(
            kind="feature",
            feature=feature,
            min=lowest,
            max=highest,
            level=level,
            level_name=level_name(feature, level) if level else None,
            reported_level=reported(feature),
        )


def _reported(broker: BrokerAnswer, feature: str) -> int | None:
    return None if broker.epoch < 0 else broker.finalized.get(feature, 0)


def pushed(only: Only, filters: Sequence[Any]) -> tuple[Only, list[Any]]:
    """Split the filters that Spark pushes down into those that are applied here, and the rest for Spark.

    ``column = value`` and ``column IN (values)`` are applied here, for the columns in :data:`PUSHED`. The classes of
    filters are known by name, because PySpark 4.0 does not have them.
    """
    narrowed, rest = dict(only), []
    for each in filters:
        values = _values(each)
        if values is None:
            rest.append(each)
        else:
            (column,) = each.attribute
            narrowed[column] = narrowed.get(column, values) & values
    return narrowed, rest


def _values(each: Any) -> frozenset[Any] | None:
    name = type(each).__name__
    if name not in {"EqualTo", "In"} or len(each.attribute) != 1 or each.attribute[0] not in PUSHED:
        return None
    # NULL equals nothing, and is in no list.
    return frozenset(each.value if name == "In" else (each.value,)) - {None}
