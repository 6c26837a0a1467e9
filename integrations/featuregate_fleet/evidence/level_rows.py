"""Rows of ``feature_levels`` from a view. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from featuregate.catalog import features

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View


def level_rows(view: View, taken_at: datetime) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each broker and each feature that is known, finalized or supported anywhere."""
    names = {*features(), *view.finalized, *(name for broker in view.brokers for name in broker.supported)}
    for broker in view.brokers:
        for name in sorted(names):
            found = broker.supported.get(name)
            yield (
                taken_at,
                view.cluster_id,
                view.epoch,
                name,
                view.level(name),
                None if broker.node_id is None else str(broker.node_id),
                broker.failure.text if broker.failure else None,
                found[0] if found else None,
                found[1] if found else None,
            )
