"""What rows of a topic of logs have in common with those of files, and what they have not."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fleet_rows import commit

from featuregate_fleet.runs.known_sources import KnownSources, TopicRead
from featuregate_fleet.runs.missing_requests import MissingEvidence
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.tidying import FilesThere, Wanted, tidy

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

URI = "kafka:lines/0"
READ: dict[str, Any] = {
    "source": "id-1", "input": "logs", "path": URI, "uri": URI, "broker": None, "size": 7, "position": 7, "read": 3,
    "rows": 0, "quarantined": 3, "again": None,
}  # fmt: skip
LOST: dict[str, Any] = {"path": URI, "at": 4, "reason": "unknown-broker", "raw": "[2026-11-22 ...", "lines": 3}


@pytest.mark.usefixtures("jvm")
def test_a_partition_without_evidence_is_named_and_a_tidying_keeps_how_far_it_is_read(tmp_path: Path) -> None:
    """A topic is no file below the folder of logs, so that it cannot be gone from there."""
    said: list[str] = []
    with local_session() as spark:
        table = EvidenceTable(spark, tmp_path, "c")
        commit(spark, table, source=[READ], quarantine=[LOST])
        missing = MissingEvidence(said.append)
        missing.of_batch([{**READ, "reason": None, "why": None, "stamp": None, "tail": None}], table, 0)
        assert missing.paths == (URI,)
        (line,) = said
        assert line.startswith(f"{URI}: none of its lines with a request is read (3 unknown-broker): give each record")
        tidy(table, Wanted(before=datetime.now(UTC) + timedelta(days=1), there=FilesThere("file:///logs", frozenset())))
        assert KnownSources.of(table).topics() == {URI: TopicRead("id-1", 7)}
