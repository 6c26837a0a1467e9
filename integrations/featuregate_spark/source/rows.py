"""A view as rows: the APIs and features of each broker, and of the whole cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.catalog import api_name, level_name

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

Only = dict[str, frozenset[Any]]
"""Column to the wanted values; a column that is not named may have any."""


class FeatureRow(NamedTuple):
    """One API or one feature of a broker or of the whole cluster; or the error of a broker."""

    cluster_id: str | None
    role: str
    scope: str = "cluster"
    broker: int | None = None
    host: str | None = None
    port: int | None = None
    kind: str = ""
    feature: str | None = None
    api_key: int | None = None
    min: int | None = None
    max: int | None = None
    level: int | None = None
    level_name: str | None = None
    reported_level: int | None = None
    epoch: int | None = None
    error: str | None = None
    text: str | None = None
    seen_at: datetime | None = None


def rows_of(view: View, only: Only) -> Iterator[FeatureRow]:
    """Return the rows of a view: first those of the cluster, then those of each broker.

    Each broker that answered has a row for every API and feature that any broker names. ``min`` and ``max`` are null
    where the broker lacks it.
    """
    for row in _all_rows(view):
        if all(getattr(row, column) in values for column, values in only.items()):
            yield row


def _all_rows(view: View) -> Iterator[FeatureRow]:
    keys = sorted({key for broker in view.answering for key in broker.api_ranges})
    named = {name for broker in view.answering for name in (*broker.supported, *broker.finalized)}
    levels = {name: view.level(name) for name in sorted({*named, *view.finalized})}
    seen_at = datetime.fromtimestamp(view.seen_at, UTC)
    cluster = FeatureRow(view.cluster_id, view.role, epoch=_known(view.epoch), seen_at=seen_at)
    yield from _apis(cluster, keys, view.api_ranges.get)
    yield from _features(cluster, levels, view.supported.get, levels.get)
    for broker in view.brokers:
        about = cluster._replace(
            scope="broker", broker=broker.node_id, host=broker.host, port=broker.port, epoch=_known(broker.epoch)
        )
        if broker.failure is not None:
            yield about._replace(kind="error", error=broker.failure.kind, text=broker.failure.text)
            continue
        yield from _apis(about, keys, broker.serves)
        yield from _features(about, levels, broker.can_run, partial(_reported, broker))


def _apis(about: FeatureRow, keys: Sequence[int], serves: Callable[[int], ApiRange | None]) -> Iterator[FeatureRow]:
    for key in keys:
        lowest, highest = serves(key) or (None, None)
        yield about._replace(kind="api", feature=api_name(key), api_key=key, min=lowest, max=highest)


def _features(
    about: FeatureRow,
    levels: Mapping[str, int | None],
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


def _known(epoch: int) -> int | None:
    return epoch if epoch >= 0 else None


def _reported(broker: BrokerAnswer, feature: str) -> int | None:
    return None if broker.epoch < 0 else broker.finalized.get(feature, 0)
