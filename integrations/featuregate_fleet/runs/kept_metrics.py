"""The metrics that a Prometheus has kept, as a part of a batch: whole hours, a slice of at most a day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from featuregate_fleet.evidence.columns import BY_METRICS, FROM_METRICS, partition_row, rows_from
from featuregate_fleet.metrics.history import History
from featuregate_fleet.metrics.prometheus import Prometheus, Web
from featuregate_fleet.metrics.verdicts import decides, ids_of
from featuregate_fleet.readiness.hours import HOUR, hour_of, hours_from
from featuregate_fleet.runs.known_sources import Part
from featuregate_spark.arrow_tables import from_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from featuregate_fleet.metrics.evidence import BrokerCoverage, MetricsEvidence, RequestCount, SoftwareSeen


Rows = list[dict[str, object]]
SOURCE: Final = "prometheus:"
"""The URI of what is read: whichever server has the metrics, time goes on from where they were read."""
_SLICE: Final = 24 * HOUR
_LATE: Final = timedelta(minutes=2)
"""After the end of an hour: a server shows samples a little after they were taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsInput:
    """A Prometheus, and what of it is read."""

    url: str
    conditions: Sequence[str]
    """What chooses the cluster, as conditions on labels."""
    web: Callable[[], Web]
    reach: timedelta
    """How far back the first batch begins."""


def metrics_part(
    spark: SparkSession, metrics: MetricsInput, position: int | None, brokers: Mapping[str, str], now: datetime
) -> Part:
    """Return the next slice of what was not read before; nothing where no whole hour is new.

    ``position``: the second up to which metrics were read; None before the first batch. ``brokers``: the hosts of
    brokers by their ids, as the cluster reports them. Raises MetricsUnread.
    """
    end = hour_of(now - _LATE)
    since = hour_of(now - metrics.reach) if position is None else datetime.fromtimestamp(position, UTC)
    until = min(end, since + _SLICE)
    if since >= until:
        return Part()
    with closing(metrics.web()) as web:
        found = History(Prometheus(web, metrics.url), metrics.conditions, since, until, decides).read()
    rows = kept_rows(found, brokers)
    counts = {"position": int(found.until.timestamp()), **dict.fromkeys(("read", "rows"), sum(map(len, rows.values())))}
    source = partition_row(SOURCE, FROM_METRICS, FROM_METRICS, **counts) | {"stamp": "", "size": None}
    found_rows = [rows_from(kind, of_kind) for kind, of_kind in rows.items() if of_kind]
    of_server = from_arrow(spark, pa.Table.from_batches(found_rows)) if found_rows else None
    return Part(rows=of_server, sources=[source], more=until < end)


# ---------------------------------------------------------------- rows


def kept_rows(evidence: MetricsEvidence, brokers: Mapping[str, str]) -> dict[str, Rows]:
    """Return evidence as rows by their kind, with the names of fields, and of columns where these are others.

    A batch has whole hours, and begins where the one before ended, so that counts of several batches add up.
    ``brokers`` has the hosts of brokers by their ids, for targets without an id.
    """
    names, of_batch = _ids(evidence.brokers, brokers), {"first_seen": evidence.since, "last_seen": evidence.until}

    def named(one: RequestCount | SoftwareSeen | BrokerCoverage, **more: object) -> dict[str, object]:
        return {**asdict(one), "broker": names.get(one.broker, one.broker), **more}

    return {
        "requests": [
            *(named(one, first_seen=one.after, last_seen=one.until) for one in evidence.requests),
            *({**one._asdict(), "software_name": one.software, **of_batch} for one in evidence.deprecated),
        ],
        "software": [named(one, software_name=one.name, software_version=one.version) for one in evidence.software],
        "target": [
            named(one, since=evidence.since, until=evidence.until, converted=[":".join(each) for each in one.converted])
            for one in evidence.brokers
        ],
        "hour": [
            {"broker": names.get(one.broker, one.broker), "hour": hour, "by": BY_METRICS, "asked": False, "count": 0}
            | {"first_seen": hour, "last_seen": hour + HOUR}
            for one in evidence.brokers
            for hour in _hours(one, evidence)
        ],
    }


def _ids(targets: tuple[BrokerCoverage, ...], brokers: Mapping[str, str]) -> dict[str, str]:
    """Return the ids of the targets that one broker alone may be; the others keep the name of their target."""
    known = {one.broker: ids_of(one, brokers) for one in targets}
    count = Counter(each for ids in known.values() for each in ids)
    return {name: next(iter(ids)) for name, ids in known.items() if len(ids) == 1 and count[next(iter(ids))] == 1}


def _hours(one: BrokerCoverage, evidence: MetricsEvidence) -> list[datetime]:
    known = one.started and not one.problem
    return sorted(hours_from(evidence.since, one.of_hours if known else 0).difference(one.holes))
