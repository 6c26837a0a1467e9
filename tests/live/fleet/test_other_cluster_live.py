"""A run that asks the brokers of another cluster than the one before."""

from pathlib import Path

import pytest
from fleet_evidence import view

from featuregate.cli.app import main
from featuregate.cli.plugin import USAGE
from featuregate.testing import FakeCluster
from featuregate_fleet.stream.cluster_views import keep_view
from featuregate_fleet.stream.session import local_session
from featuregate_fleet.tables.folder import Tables
from featuregate_fleet.tables.record_reader import last_view

pytestmark = [pytest.mark.proof("fleet"), pytest.mark.live, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("jvm")
def test_the_answers_of_another_cluster_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its levels and its list of brokers would take the place of those of the cluster with this name."""
    (tmp_path / "logs").mkdir()
    own = ("--logs", str(tmp_path / "logs"), "--tables", str(tmp_path / "tables"), "--cluster", "c")
    with local_session() as spark, FakeCluster(brokers=1) as other:
        keep_view(spark, view(), Tables(spark, tmp_path / "tables", "c"))
        assert main(["fleet", "run", "--once", *own, "--bootstrap-server", other.bootstrap]) == USAGE
    assert "the cluster c: its tables have the answers of the cluster with the id c" in capsys.readouterr().err
    with local_session() as spark:
        tables = Tables(spark, tmp_path / "tables", "c")
        seen = last_view(tables)
        assert seen is not None
        assert (seen.cluster_id, tables.names()) == ("c", ["cluster_views", "feature_levels"])
