"""``featuregate readiness`` with each move: its exit code, and the fields of its JSON."""

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from fleet_evidence import NOW, usage, use, view

pytest.importorskip("pyspark")

from featuregate import discover
from featuregate.cli import main
from featuregate.testing import FakeCluster
from featuregate_fleet.readiness.evidence import BrokerLog, Evidence

MEMBER = use("ConsumerGroupMemberMetadata", 5, client_ids=("pay-1",))
LOG = BrokerLog(hours=1, requests=1, first_seen=NOW, last_seen=NOW)
KNOWN = Evidence(
    brokers={"1": LOG}, expected=frozenset({"1"}), rows=1, read=1, view=view(), records_read=NOW, usage=(usage(1, 11),)
)
FIELDS = (
    "check verdict subject client_id principal software api versions stop_serving_release count first_seen last_seen "
    "why do"
)


def tables_hold(evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("featuregate_fleet.runs.session.local_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr("featuregate_fleet.api.fleet.session_beside", lambda _: None)
    monkeypatch.setattr("featuregate_fleet.api.fleet.EvidenceTable", lambda *_: SimpleNamespace(version=lambda: 0))
    monkeypatch.setattr("featuregate_fleet.api.fleet.read_evidence", lambda _: evidence)


@pytest.mark.parametrize(
    ("evidence", "move", "code"),
    [
        (KNOWN, ("--downgrade-to", "4.1"), 0),
        (replace(KNOWN, records=(MEMBER,)), ("--finalize", "group.version=0"), 1),
        (KNOWN, ("--deprecate", "group.version=1"), 1),
        (Evidence(), ("--drop-api", "Fetch<12"), 3),
    ],
)
def test_the_exit_code_is_that_of_the_verdict(
    evidence: Evidence,
    move: tuple[str, str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """0 for ok and warn, 1 for block, 3 for unknown; pipelines read the same fields of each move."""
    if evidence.view:
        just_now = replace(evidence.view, seen_at=datetime.now(UTC).timestamp())
        evidence = replace(evidence, view=just_now, records_read=datetime.now(UTC))
    tables_hold(evidence, monkeypatch)
    arguments = ["readiness", "--tables", str(tmp_path), "--cluster", "c", *move, "--without-usage-reports"]
    assert main([*arguments, "--output", "json", "--stale-after", "1000000"]) == code
    said = json.loads(capsys.readouterr().out)
    assert {"ok": 0, "warn": 0, "block": 1, "unknown": 3}[said["verdict"]] == code
    assert said["rows"]
    assert all(set(FIELDS.split()) <= row.keys() for row in said["rows"])
    assert said["coverage"]
    assert said["lines"].keys() == {"read", "rows", "quarantined"}


@pytest.mark.parametrize(
    ("raised", "asked", "code"),
    [
        ({}, False, 3),  # of NOW, which is long ago
        ({}, True, 0),
        ({"metadata.version": 29}, True, 1),
    ],
    ids=["not asked", "as before", "upgraded since"],
)
def test_invariant_11_levels_of_an_older_run_are_confirmed_or_stale(
    raised: dict[str, int],
    asked: bool,  # noqa: FBT001
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """A cluster that was upgraded after the last run is not safe to downgrade by what that run has seen."""
    with FakeCluster(1, release="4.2", finalized={"metadata.version": 27}) as kafka:
        before = discover(kafka.bootstrap)
        tables_hold(replace(KNOWN, view=replace(before, seen_at=NOW.timestamp())), monkeypatch)
        if raised:
            kafka.finalize(raised)
        place = ["--tables", str(tmp_path), "--cluster", "c", "--without-usage-reports", "--stale-after", "1000000"]
        address = ["--bootstrap-server", kafka.bootstrap] if asked else []
        assert main(["readiness", *place, "--downgrade-to", "4.1", *address]) == code
    said = capsys.readouterr().out
    assert "As of 20" in said
    assert ("an operator may have raised some since then" in said) is not asked
