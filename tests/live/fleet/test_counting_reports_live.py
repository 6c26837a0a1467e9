"""Which usage reports count, read from tables by Spark: no clock of an app hides a report."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from featuregate_fleet.evidence.columns import APP, ORIGIN
from featuregate_fleet.evidence.paths import LineCounts
from featuregate_fleet.readiness.evidence import GateUse
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.reader import read_app_usage

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

READ = datetime(2026, 11, 22, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LATER = READ + 11 * MINUTE


def said(app: str, gate: str, at: datetime = READ, read: datetime = READ, **changed: Any) -> dict[str, Any]:
    """Return a row of one report that a run read at a time, by default of an app that is latched."""
    made: dict[str, Any] = dict.fromkeys((*APP.names, *ORIGIN.names))
    made |= {"app": app, "instance": "host-1", "software_name": "featuregate", "software_version": "0.1.0"}
    made |= {"closing": False, "gate": gate, "requirement": "x>=1", "policy": "sticky", "state": "open"}
    made |= {"latched": True, "levels": "{}", "epoch": 1, "count": 1, "first_seen": at, "last_seen": at}
    return made | {"run_id": "r", "batch": 0, "written_at": read} | changed


class Given(EvidenceTable):
    """A table with rows of one kind that were written at times of their own."""

    def __init__(self, spark: SparkSession, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows = spark.createDataFrame(list(rows), from_arrow_schema(pa.schema([*APP, *ORIGIN])))

    def rows(self, kind: str) -> DataFrame:
        assert kind == "app"
        return self._rows


def counting(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str | None], GateUse]:
    with local_session() as spark:
        apps = read_app_usage(Given(spark, rows), LineCounts(9, 9, 0), 0)
    return {(use.app, use.gate): use for use in apps.gates}


@pytest.mark.usefixtures("jvm")
def test_invariant_11_no_clock_of_an_app_hides_a_report() -> None:
    """What counts depends on when reports were read: a gate without its report would make a move ok."""
    found = counting(
        [
            said("two discoverers of one process", "earlier", READ - MINUTE / 2),
            said("two discoverers of one process", "later"),
            said("an instance an hour ahead", "its gate", READ + 60 * MINUTE, instance="host-2"),
            said("an instance an hour ahead", "of the others"),
            said("an instance a day behind", "its gate", READ - 1440 * MINUTE, instance="host-2"),
            said("an instance a day behind", "of the others"),
            said("a restart under another name", "before", READ + 60 * MINUTE, instance="host-2"),
            said("a restart under another name", "after", LATER, LATER),
        ]
    )
    assert found.keys() == {
        ("two discoverers of one process", "earlier"),
        ("two discoverers of one process", "later"),
        ("an instance an hour ahead", "its gate"),
        ("an instance an hour ahead", "of the others"),
        ("an instance a day behind", "its gate"),
        ("an instance a day behind", "of the others"),
        ("a restart under another name", "after"),
    }
    assert found["an instance an hour ahead", "its gate"].last_seen == READ, "it was read then"


@pytest.mark.usefixtures("jvm")
def test_what_was_said_in_that_time_counts_together() -> None:
    """The levels are those of the highest epoch, and an instance has ended if that is its last word."""
    ahead = READ + 60 * MINUTE
    found = counting(
        [
            said("opens", "gate", state="closed", latched=False, levels='{"x": 0}', epoch=5, last_seen=ahead),
            said("opens", "gate", levels='{"x": 1}', epoch=6),
            said("ends", "gate", READ - MINUTE),
            said("ends", "gate", closing=True),
            said("starts again", "gate", READ - MINUTE, closing=True),
            said("starts again", "gate"),
            said("goes on elsewhere", "gate", closing=True),
            said("goes on elsewhere", "gate", instance="host-2"),
        ]
    )
    opens = found["opens", "gate"]
    assert (opens.states, opens.latched, json.dumps(opens.levels)) == (("closed", "open"), True, '{"x": 1}')
    closed = {app: use.closed for (app, _), use in found.items()}
    assert closed == {"opens": False, "ends": True, "starts again": False, "goes on elsewhere": False}
    assert found["goes on elsewhere", "gate"].instances == 2


@pytest.mark.usefixtures("jvm")
def test_instances_are_counted_by_what_delays_their_gate() -> None:
    """The last word of an instance counts."""
    closed = {"state": "closed", "latched": False, "open_after": 60.0}
    found = counting(
        [
            said("orders", "eos", READ - MINUTE, **closed, waits="hold"),
            said("orders", "eos", **closed),
            said("orders", "eos", **closed, instance="host-2", waits="hold"),
            said("orders", "eos", **closed, instance="host-3"),
            said("older", "eos"),
        ]
    )
    eos, older = found["orders", "eos"], found["older", "eos"]
    assert (eos.instances, eos.held, eos.open_after) == (3, 1, 60.0)
    assert (older.instances, older.held, older.open_after) == (1, 0, 0.0)
