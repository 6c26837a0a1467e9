"""What the tables say of updates that ``featuregate upgrade`` and its sisters would send."""

import tomllib
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest
from fleet_evidence import NOW, use, view
from scripted import ScriptedCluster

from featuregate.admin.updates import Update
from featuregate.cli import main
from featuregate.cli.plugin import CommandError
from featuregate_fleet.commands import update_evidence
from featuregate_fleet.commands.update_evidence import check_cluster, verdict_on
from featuregate_fleet.readiness.evidence import Evidence

UP = Update("transaction.version", 2, "upgrade")
DISABLED = Update("group.version", 0, "safe_downgrade")
KNOWN = Evidence(view=view(), records_read=NOW)
GROUPS = replace(KNOWN, records=(use("ConsumerGroupMemberMetadata", 5, client_ids=("pay-1",)),))


def test_an_update_is_judged_as_finalize_is():
    """The same checks judge an update and --finalize."""
    raised = verdict_on(KNOWN, [UP], NOW)
    assert (raised.verdict, "Controllers were not asked" in raised.findings[0].why) == ("warn", True)
    said = verdict_on(GROUPS, [DISABLED], NOW)
    assert said.verdict == "block"
    assert "payments" in said.findings[0].subject


def test_without_evidence_no_update_is_safe():
    """A wrong name of the cluster must not pass."""
    assert verdict_on(Evidence(), [UP], NOW).verdict == "unknown"
    assert verdict_on(Evidence(), [UP, DISABLED], NOW).verdict == "unknown"


def test_one_update_that_blocks_blocks_all():
    """One request carries all updates."""
    said = verdict_on(GROUPS, [UP, DISABLED], NOW)
    assert said.verdict == "block"
    assert len(said.findings) == len(set(said.findings))


def test_what_the_controller_says_of_one_of_several_updates_is_left_out():
    """One may need the other, and the controller looks at both."""
    alone = Update("eligible.leader.replicas.version", 1, "upgrade")
    old = replace(KNOWN, view=view(metadata_version=22))
    assert verdict_on(old, [alone], NOW).verdict == "block"
    assert verdict_on(old, [Update("metadata.version", 25, "upgrade"), alone], NOW).verdict == "ok"


def test_tables_that_are_not_there_are_wrong_usage(tmp_path: Path):
    """A typing error does not give the verdict unknown."""
    with pytest.raises(CommandError, match="no such folder of tables"):
        update_evidence.check_updates(str(tmp_path / "no"), "orders", [UP], cluster_id="c", reports_expected=True)


def test_a_cluster_that_is_not_in_the_tables_is_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The error has the names that are there."""
    pytest.importorskip("pyspark")
    monkeypatch.setattr("featuregate_fleet.runs.session.local_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr("featuregate_fleet.tables.evidence_table._require_delta_lake", lambda _: None)
    (tmp_path / "orders-eu" / "_delta_log").mkdir(parents=True)
    with pytest.raises(
        CommandError, match=r"--evidence-cluster the tables .* have no cluster orders: they have orders-eu"
    ):
        update_evidence.check_updates(str(tmp_path), "orders", [UP], cluster_id="c", reports_expected=True)


def test_evidence_of_another_cluster_is_refused():
    """A verdict on the test cluster must not allow an update of the one in production."""
    with pytest.raises(CommandError, match="cluster orders: this evidence is of the cluster with the id c, and the b"):
        check_cluster(KNOWN, "orders", "another")
    check_cluster(KNOWN, "orders", "c")
    check_cluster(KNOWN, "orders", None)
    check_cluster(Evidence(), "orders", "c")


def test_the_package_registers_its_check():
    """The command line finds it by its entry point."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["featuregate.checks"].values()
    assert import_module(module).check_updates is update_evidence.check_updates


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("upgrade", "--feature", "transaction.version=2"), 0),
        (("downgrade", "--feature", "group.version=0"), 1),
        (("disable", "--feature", "group.version"), 1),
        (("plan", "downgrade", "--feature", "group.version=0"), 1),
    ],
)
def test_commands_refuse_what_the_tables_block(
    argv: tuple[str, ...],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """From the command line to the evidence and back: nothing is sent, and the group is named."""
    pytest.importorskip("pyspark")
    evidence = replace(GROUPS, view=replace(view(), cluster_id="scripted", seen_at=datetime.now(UTC).timestamp()))
    evidence = replace(evidence, records_read=datetime.now(UTC))
    monkeypatch.setattr("featuregate_fleet.runs.session.local_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr("featuregate_fleet.tables.evidence_table.existing_table", lambda *_: None)
    monkeypatch.setattr("featuregate_fleet.tables.reader.read_evidence", lambda _: evidence)
    given = ("--evidence", str(tmp_path), "--evidence-cluster", "c", "--without-usage-reports")
    with ScriptedCluster(3) as cluster:
        there = ("--bootstrap-server", cluster.bootstrap)
        assert main([*there, *argv, *given]) == code
        said = "".join(capsys.readouterr())
        assert ("block: group 'payments'" in said) is bool(code)
        sends = argv[0] != "plan"
        assert len(cluster.received) == (1 if sends and not code else 0)
        if sends and code:
            assert main([*there, *argv, *given, "--despite-evidence"]) == 0
            assert len(cluster.received) == 1
