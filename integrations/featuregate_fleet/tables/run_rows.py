"""What runs saw besides lines and records: folders, unread files, answers of the cluster, and who logged when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as f

from featuregate.catalog import features
from featuregate.errors import ConfigError, ViewJsonError
from featuregate.view.cluster_view import View
from featuregate_fleet.evidence.lines.request import DEPRECATED_ALONE
from featuregate_fleet.readiness.evidence import BrokerLog, Evidence, LevelAt, LogLevel
from featuregate_fleet.readiness.hours import ALL_REQUESTS, MICROS_OF_HOUR, covered_seconds, from_micros, hour_of
from featuregate_spark.arrow_tables import to_arrow

if TYPE_CHECKING:
    from featuregate.admin.loggers import BrokerLogLevel
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms
    from featuregate_fleet.tables.evidence_table import EvidenceTable

_PROBE: Final = "featuregate"
"""Its hash tells keys apart, and says nothing of them."""
_EACH: Final = timedelta(minutes=10)
"""A run asks each minute. Six batches an hour are enough for answers that stay the same."""
_DAY: Final = timedelta(days=1)
"""A folder in which nothing is new is a row a day: tidying forgets one that no run has read for longer."""


class FolderSeen(NamedTuple):
    """What the newest batch of a folder of logs saw in it."""

    folders: list[str]
    """The brokers that have a folder."""
    unread: list[dict[str, Any]]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsSaw:
    """The newest of each: a run without logs says nothing of folders, and so on."""

    batch: int = -1
    names: str | None = None
    """The hash of the probe; None where names are in the clear."""
    of_logs: Mapping[str, FolderSeen] = field(default_factory=dict)
    """By the URIs of folders: several runs, each over its own one, may read into a table."""
    cluster_id: str | None = None
    asked_at: datetime | None = None
    listed: tuple[str, ...] = ()
    """The brokers that the cluster has listed."""
    view: str | None = None
    records_read: datetime | None = None

    def after(self, row: Mapping[str, Any], batch: int) -> Self:
        """Return this once a batch with a row of kind ``run`` is committed."""
        known: dict[str, Any] = {"batch": batch, "names": row["names"]}
        if "logs" in row:
            seen = FolderSeen(row["folders"], row["unread"], datetime.now(UTC))
            known["of_logs"] = {**self.of_logs, row["logs"]: seen}
        if row.get("asked_at") is not None:
            known |= {name: row[name] for name in ("cluster_id", "asked_at", "view")}
        return replace(self, **known)

    def differs(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row of kind ``run`` says something new."""
        if row.get("asked_at") is not None or "logs" not in row:
            return row.get("asked_at") is not None
        now = datetime.now(UTC)
        seen = self.of_logs.get(row["logs"], FolderSeen([], [], now))
        return seen[:2] != (row["folders"], row["unread"]) or abs(now - seen.at) >= _DAY

    def is_due(self, view: View, now: datetime) -> bool:
        """Return whether a batch is committed for answers alone: at once where they are others than before."""
        try:
            same = self.view is not None and View.from_json(self.view).same_content(view)
        except ViewJsonError:  # of a newer release
            same = False
        return self.asked_at is None or not same or abs(now - self.asked_at) >= _EACH  # a clock may be set back

    def check_names(self, cluster: str, names: Pseudonyms | None) -> None:
        """Raise ConfigError where names are hashed by another key, or not: rows of one client would not add up."""
        said = names_probe(names)
        if self.batch < 0 or said == self.names:
            return
        if self.names is None:
            problem = "in the clear: give another folder of tables, or hash no principals"
        elif said is None:
            problem = "hashed: give their key"
        else:
            problem = "hashed by another key: give that key, or another folder of tables"
        raise ConfigError("pseudonyms", f"in the table of {cluster}, names are {problem}")


def names_probe(names: Pseudonyms | None) -> str | None:
    """Return what tells the key of hashed names; None where they are in the clear."""
    return names.of(_PROBE) if names else None


def runs_saw(table: EvidenceTable) -> RunsSaw:
    """Ask the table."""
    if table.version() is None:
        return RunsSaw()
    seen = f.struct("batch", "names", "folders", "unread", "written_at")
    answers = f.struct("batch", "cluster_id", "asked_at", "listed", "view")
    records = f.struct("batch", "records_read")  # of the newest batch, and not the latest: a clock may be set back
    newest = table.rows("run").groupBy("logs").agg(
        f.max_by(seen, "batch").alias("seen"),
        f.max_by(answers, f.when(f.col("asked_at").isNotNull(), f.col("batch"))).alias("answers"),
        f.max_by(records, f.when(f.col("records_read").isNotNull(), f.col("batch"))).alias("records"),
    )  # fmt: skip
    found = to_arrow(newest).to_pylist()
    if not found:
        return RunsSaw()
    last = max((row["seen"] for row in found), key=lambda each: each["batch"])
    asked: dict[str, Any] = max(
        (row["answers"] for row in found if row["answers"]), key=lambda each: each["batch"], default={}
    )
    nothing: dict[str, Any] = {"batch": -1, "records_read": None}
    read = max((row["records"] or nothing for row in found), key=lambda each: each["batch"])
    return RunsSaw(
        batch=last["batch"],
        names=last["names"],
        of_logs={
            row["logs"]: FolderSeen(row["seen"]["folders"], row["seen"]["unread"], row["seen"]["written_at"])
            for row in found
            if row["logs"] is not None
        },
        cluster_id=asked.get("cluster_id"),
        asked_at=asked.get("asked_at"),
        listed=tuple(asked.get("listed") or ()),
        view=asked.get("view"),
        records_read=read["records_read"],
    )


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
            "hour": hour_of(at),
            "level": one.level,
            "asked": True,
            "failure": str(one.failure) if one.failure else None,
            "count": 0,
            "first_seen": at,
            "last_seen": at,
        }
        for one in levels
    ]


def levels_over_time(table: EvidenceTable) -> tuple[LevelAt, ...]:
    """Return the level of each feature when it was first seen, and whenever it had changed, the oldest first."""
    asked = table.rows("run").where("asked_at is not null")
    seen = asked.select(f.col("asked_at").alias("at"), f.explode("levels").alias("one"))
    levels = seen.groupBy("at", "one.feature").agg(f.max("one.level").alias("level"))
    before = Window.partitionBy("feature").orderBy("at")
    levels = levels.withColumn("place", f.row_number().over(before)).withColumn("last", f.lag("level").over(before))
    changed = levels.where("place = 1 or not level <=> last").orderBy("at", "feature")
    return tuple(LevelAt(**row) for row in to_arrow(changed.select(*LevelAt._fields)).to_pylist())


# ---------------------------------------------------------------- hours that were logged


def logged_hours(table: EvidenceTable) -> Evidence:
    """Add up the completed requests of each broker and hour, and tell at which level it logged.

    Brokers are asked each minute. Of one broker, hour and level two answers are enough: the one that is nearest to the
    middle of the hour, which no clock can move into another one, and the last one.
    """
    rows = table.rows("hour").where(f.col("asked") | f.col("level").isin(*ALL_REQUESTS, DEPRECATED_ALONE))
    from_middle = f.abs(f.unix_micros("first_seen") % MICROS_OF_HOUR - MICROS_OF_HOUR // 2)
    added = rows.groupBy(
        "asked",
        f.when(f.col("asked"), f.col("level")).alias("level"),
        (f.col("level") == DEPRECATED_ALONE).alias("deprecated"),
        "broker",
        f.unix_micros("hour").alias("hour"),
    ).agg(
        f.sum("count").alias("requests"),
        f.unix_micros(f.min("first_seen")).alias("first_seen"),
        f.unix_micros(f.max("last_seen")).alias("last_seen"),
        f.unix_micros(f.min_by("first_seen", from_middle)).alias("in_middle"),
    )
    # Brokers times hours are some hundred thousands: rows of Arrow take a tenth of the time that rows of Spark take.
    found = to_arrow(added).sort_by([("broker", "ascending"), ("hour", "ascending")])
    levels = {
        (row[at], row["broker"], row["level"])
        for row in found.filter(found["asked"]).to_pylist()
        for at in ("in_middle", "last_seen")
    }
    requests: dict[bool, dict[str, dict[datetime, int]]] = {kind: defaultdict(dict) for kind in (False, True)}
    seen: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    time_of = cache(from_micros)  # brokers have the same hours
    of_lines = found.filter(pc.invert(found["asked"])).drop_columns(["asked", "level", "in_middle"])
    columns = (column.to_pylist() for column in of_lines.columns)
    for is_deprecated, broker, hour, count, first, last in zip(*columns, strict=True):
        requests[is_deprecated][broker][time_of(hour)] = count
        if not is_deprecated:
            seen[broker][hour] = first, last
    return Evidence(
        brokers={broker: _log(sum(hours.values()), seen[broker]) for broker, hours in requests[False].items()},
        hourly=requests[False],
        deprecated=requests[True],
        log_levels=tuple(
            LogLevel(broker=broker, level=level, taken_at=from_micros(at))
            for at, broker, level in sorted(levels, key=lambda one: (one[0], one[1], one[2] or ""))
        ),
    )


def _log(requests: int, seen: Mapping[int, tuple[int, int]]) -> BrokerLog:
    return BrokerLog(
        hours=len(seen),
        requests=requests,
        first_seen=from_micros(min(first for first, _ in seen.values())),
        last_seen=from_micros(max(last for _, last in seen.values())),
        covered_seconds=covered_seconds(seen),
    )
