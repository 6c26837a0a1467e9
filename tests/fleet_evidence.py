"""Evidence of the fleet, made up: what brokers answered, requests, records of coordinators, and gates of apps."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from featuregate.catalog import captured
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure, SupportedRange
from featuregate.view.cluster_view import View
from featuregate_fleet.readiness.evidence import BrokerLog, Evidence, GateUse, RecordUse, Usage
from featuregate_fleet.readiness.moves import Move, ToRelease
from featuregate_fleet.readiness.report import Report, assess

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
OFFSETS, STATES = "__consumer_offsets", "__transaction_state"
LOG = BrokerLog(hours=3, requests=9, first_seen=NOW - WEEK / 2, last_seen=NOW)
TO_4_2 = ToRelease(captured()["4.2"])
LEVELS = {"metadata.version": 25, "group.version": 1, "transaction.version": 1}


def view(release: str = "4.2", *, missing: bool = False, seen: datetime = NOW, **levels: int) -> View:
    """Return the view of two brokers of one release, of which the second may be silent."""
    row = captured()[release]
    has: dict[str, Any] = {
        "api_ranges": {key: ApiRange(*found) for key, found in row.apis.items()},
        "supported": {name: SupportedRange(*found) for name, found in row.features.items()},
        "finalized": LEVELS | {name.replace("_", "."): level for name, level in levels.items()},
        "epoch": 7,
        "asked_version": 4,
    }
    first = BrokerAnswer(node_id=1, host="b1", port=9092, **has)
    second = (
        BrokerAnswer(node_id=2, host="b2", port=9092, failure=Failure("TimedOut", "no answer")) if missing else first
    )
    merged = {name: has[name] for name in ("api_ranges", "supported", "finalized", "epoch")}
    return View(cluster_id="c", brokers=(first, second), seen_at=seen.timestamp(), **merged)


UPGRADED = view("3.9", metadata_version=21, group_version=0, transaction_version=0)
"""A cluster with levels that brokers of each release from 3.9 on start with."""


def assessed(*used: Usage, move: Move = TO_4_2, **changed: Any) -> Report:
    """Assess usage that one broker logged, of which all is known."""
    known = {"brokers": {"1": LOG}, "expected": frozenset({"1"}), "rows": 1000, "read": 1000, "view": UPGRADED}
    return assess(Evidence(usage=used, **(known | changed)), move, NOW, WEEK)


def usage(api_key: int = 1, version: int = 16, **changed: Any) -> Usage:
    made = Usage(
        outcome="completed",
        forwarded=False,
        principal="User:audit",
        client_id="audit",
        client_host=None,
        listener="CLIENT",
        software_name=None,
        software_version=None,
        api_key=api_key,
        version=version,
        count=5,
        first_seen=NOW - timedelta(hours=2),
        last_seen=NOW,
    )
    return replace(made, **changed)


def use(kind: str, record_type: int, version: int | None = 0, **changed: Any) -> RecordUse:
    made: dict[str, Any] = {
        "topic": OFFSETS,
        "reason": None,
        "group": "payments",
        "protocol": "consumer" if kind.startswith("Consumer") else None,
        "transactional_id": None,
        "tagged_fields": (),
        "model": None,
        "client_ids": (),
        "current": True,
        "count": 3,
        "first_seen": NOW - WEEK,
    }
    return RecordUse(record_type=record_type, kind=kind, version=version, **(made | changed))


def gate_use(requirement: str = "transaction.version>=2", **changed: Any) -> GateUse:
    made = GateUse(
        app="orders",
        software="featuregate 0.1.0",
        gate="eos",
        requirement=requirement,
        policy="sticky",
        states=("open",),
        latched=True,
        levels={"transaction.version": 2},
        instances=2,
        closed=False,
        count=10,
        first_seen=NOW - timedelta(hours=1),
        last_seen=NOW,
    )
    return replace(made, **changed)
