"""What the brokers answered, and the levels of their request logs, as columns and rows of a batch. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from featuregate.catalog import features
from featuregate.errors import ViewJsonError
from featuregate.view.cluster_view import View

if TYPE_CHECKING:
    from featuregate.admin.loggers import BrokerLogLevel

_EACH: Final = timedelta(minutes=10)
"""A run asks each minute. Six batches an hour are enough for answers that stay the same."""


def answers_of(view: View) -> dict[str, object]:
    """Return what brokers answered, as columns of `featuregate_fleet.evidence.columns.RUN`.

    There is a level for each feature that this release knows, or that the cluster finalized, or that a broker supports;
    it is None where no broker reports finalized levels.
    """
    names = {*features(), *view.finalized, *(name for broker in view.brokers for name in broker.supported)}
    return {
        "asked_at": datetime.fromtimestamp(view.seen_at, UTC),
        "cluster_id": view.cluster_id,
        "epoch": view.epoch,
        "levels": [{"feature": name, "level": view.level(name)} for name in sorted(names)],
        "view": view.to_json(),
    }


def told_hours(levels: Iterable[BrokerLogLevel], at: datetime) -> list[dict[str, Any]]:
    """Return the level that each broker reported at a time, as rows of `featuregate_fleet.evidence.columns.HOUR`."""
    return [
        {
            "broker": str(one.broker),
            "hour": at.replace(minute=0, second=0, microsecond=0),
            "level": one.level,
            "asked": True,
            "failure": str(one.failure) if one.failure else None,
            "count": 0,
            "first_seen": at,
            "last_seen": at,
        }
        for one in levels
    ]


def says_the_same(before: str | None, view: View) -> bool:
    """Return whether brokers answered the same before, by the JSON of that view: levels, and what each one serves."""
    try:
        return before is not None and View.from_json(before).same_content(view)
    except ViewJsonError:  # of a newer release
        return False


def is_due(last_asked: datetime | None, now: datetime, *, same: bool) -> bool:
    """Return whether a batch is committed for answers alone, where nothing else is new.

    ``last_asked`` is when the brokers gave the answers that the table has; None where it has none.
    """
    return last_asked is None or not same or now - last_asked >= _EACH
