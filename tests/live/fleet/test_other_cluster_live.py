"""A run that asks the brokers of another cluster than the one before."""

from pathlib import Path

import pytest
from fleet_batches import batches, commit
from fleet_evidence import view

from featuregate.cli.app import main
from featuregate.cli.plugin import USAGE
from featuregate.testing import FakeCluster
from featuregate_fleet.runs.known_sources import Part
from featuregate_fleet.runs.session import local_session
from featuregate_fleet.tables.evidence_table import EvidenceTable
from featuregate_fleet.tables.reader import read_evidence
from featuregate_fleet.tables.run_rows import answers_of

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("jvm")
def test_the_answers_of_another_cluster_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its levels and its list of brokers would take the place of those of the cluster with this name."""
    (tmp_path / "logs").mkdir()
    own = ("--logs", str(tmp_path / "logs"), "--tables", str(tmp_path / "tables"), "--cluster", "c")
    with local_session() as spark, FakeCluster(brokers=1) as other:
        commit(spark, EvidenceTable(spark, tmp_path / "tables", "c"), Part(run=answers_of(view())))
        assert main(["fleet", "run", "--once", *own, "--bootstrap-server", other.bootstrap]) == USAGE
    assert "the table of c has the answers of the cluster with the id c" in capsys.readouterr().err
    with local_session() as spark:
        table = EvidenceTable(spark, tmp_path / "tables", "c")
        seen = read_evidence(table).view
        assert seen is not None
        assert (seen.cluster_id, batches(table)) == ("c", 1)
