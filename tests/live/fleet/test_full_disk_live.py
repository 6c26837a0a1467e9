"""A disk without space while Spark writes: the run says so in one line, and the next one continues.

``FLEET_PROOFS=1`` runs it, where the user may mount a file system in memory.
"""

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_disk import small_disk

from featuregate.cli import main
from featuregate_fleet.runs.known_sources import KnownSources
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable

pytestmark = [
    pytest.mark.proof("fleet"),
    pytest.mark.live,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not os.environ.get("FLEET_PROOFS"), reason="FLEET_PROOFS runs what takes minutes"),
]

GARBAGE = 400
SPACE = 16 * 1024**2
FREE = (0, 16, 48, 96, 160)
"""Kilobytes: from a disk that is full at once to one that takes much of what a run writes."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", SPACE) as folder:
        yield folder


def fill(disk: Path, but: int) -> Path:
    filler = disk / "filler"
    with filler.open("wb") as file:
        file.write(bytes(shutil.disk_usage(disk).free - but))
    return filler


@pytest.mark.usefixtures("jvm")
def test_a_full_disk_loses_and_doubles_no_line(
    disk: Path, tmp_path: Path, broker_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever it is full: then each line is a row, or in quarantine, once."""
    logs, rng = tmp_path / "logs" / "1", random.Random(7)
    logs.mkdir(parents=True)
    arguments = ["fleet", "run", "--once", "--logs", str(logs.parent), "--cluster", "c", "--tables", str(disk / "t")]
    (disk / "t").mkdir()
    written, failures = list[str](), Counter[str]()
    for number, free in enumerate(FREE):
        garbage = [rng.randbytes(100).hex() for _ in range(GARBAGE)]
        (logs / f"{number}.log").write_text(broker_log.read_text() + "\n".join(garbage) + "\n")
        written += garbage
        filler = fill(disk, free * 1024)
        capsys.readouterr()
        code = main(arguments)
        said = capsys.readouterr().err.splitlines()
        filler.unlink()
        if code:
            assert (code, len(said)) == (2, 1), said
            assert "No space left on device" in said[0]
            failures[said[0]] += 1
    assert failures.total() > len(FREE) // 2, failures
    assert main(arguments) == 0
    with local_session() as spark:
        table = EvidenceTable(spark, disk / "t", "c")
        counts = KnownSources.of(table).counts
        lines = len(FREE) * len(broker_log.read_text().splitlines()) + len(written)
        assert counts.read == counts.rows + counts.quarantined == lines
        kept = Counter(row.raw for row in table.rows("quarantine").collect())
        assert kept.total() == counts.quarantined
        assert {text: kept[text] for text in written} == dict.fromkeys(written, 1)
        requests = sum(row["count"] for row in table.rows("usage").where("outcome = 'completed'").collect())
        assert requests > 0
        assert requests % len(FREE) == 0  # each file has the same ones
    print("\n".join(failures))  # noqa: T201 - what the run says of each place
