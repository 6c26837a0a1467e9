"""What real clusters do beside a level, and which nodes do not start with it: the lines of plans rest on this."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import eventually

from featuregate import Admin, discover
from featuregate.admin.updates import downgrade, upgrade
from featuregate.errors import LocalKafkaError
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("admin"), pytest.mark.live, pytest.mark.slow]
SCRIPT = Path(__file__).parents[2] / "scripts" / "effects.py"
ELR, MIN_INSYNC = "eligible.leader.replicas.version", "min.insync.replicas"


def ours(kafka: LocalKafka, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the command line without a terminal."""
    command = [sys.executable, "-m", "featuregate", "--bootstrap-server", kafka.bootstrap, "--timeout", "10", *argv]
    return subprocess.run(command, input="", capture_output=True, text=True, check=False)


def test_the_table_of_effects_is_what_a_cluster_does() -> None:
    """Every level of one release is raised and lowered, and everything is read before and after."""
    done = subprocess.run([sys.executable, SCRIPT, "--check", "4.2.0"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_level_that_lowers_a_config_is_refused_and_the_remedy_keeps_the_config() -> None:
    """Brokers with 2 in their properties, one with a dynamic value, and a controller of its own without any."""
    with LocalKafka("4.2.0", nodes=2, controllers=1, features={ELR: 0}) as kafka:
        kafka.properties[MIN_INSYNC] = 2
        kafka.stop(1, 2)
        kafka.start(1, 2)
        command = ("--feature", f"{ELR}=1", "--controllers", kafka.controller_bootstrap)
        plan = ours(kafka, "plan", "upgrade", *command)
        after = "2 (in its properties) -> 1 (written by the controller, from its properties)"
        assert f"lowers    {MIN_INSYNC} of broker 1: {after}" in plan.stdout
        assert (
            "no return  eligible.leader.replicas.version: 1 can be lowered again, and min.insync.replicas"
            in plan.stdout
        )
        assert plan.returncode == 1
        refused = ours(kafka, "upgrade", *command, "--yes")
        assert f"nothing was changed, because {MIN_INSYNC} falls" in refused.stderr
        unasked = ours(kafka, "upgrade", *command[:2], "--yes")
        assert f"nothing was changed, because {MIN_INSYNC} may fall" in unasked.stderr
        kafka.pause(101)
        silent = ours(kafka, "upgrade", *command, "--yes")
        kafka.resume(101)
        assert (refused.returncode, unasked.returncode, silent.returncode != 0) == (1, 1, True)
        assert discover(kafka.bootstrap).level(ELR) == 0

        where = ("--bootstrap-server", kafka.internal_bootstrap, "--entity-type", "brokers", "--entity-default")
        change = ("--alter", "--add-config", f"{MIN_INSYNC}=2")
        assert kafka.run_tool("kafka.admin.ConfigCommand", *where, *change).returncode == 0
        plan = ours(kafka, "plan", "upgrade", *command)
        assert (plan.returncode, "lowers" in plan.stdout) == (0, False)
        assert "confirm it with --yes" in ours(kafka, "upgrade", *command).stderr
        done = ours(kafka, "upgrade", *command, "--yes", "--wait", "60")
        assert done.returncode == 0, done.stderr
        view = discover(kafka.bootstrap, configs=[MIN_INSYNC])
        assert [broker.configs[MIN_INSYNC].value for broker in view.brokers] == ["2", "2"]


@pytest.mark.parametrize(
    ("feature", "level", "newer", "older", "starts"),
    [
        ("group.version", 1, "4.2.0", "3.9.2", False),
        ("transaction.version", 2, "4.2.0", "3.9.2", False),
        ("metadata.version", 22, "4.2.0", "3.9.2", False),
        ("share.version", 1, "4.2.0", "4.0.0", False),
        ("streams.version", 1, "4.2.0", "4.1.1", False),
        (ELR, 1, "4.2.0", "4.0.0", True),
    ],
)
def test_an_older_node_starts_when_the_level_is_lowered_and_in_a_snapshot(
    feature: str, level: int, newer: str, older: str, *, starts: bool
) -> None:
    """Not with the level, and not after it was lowered: the log has it until the snapshot."""
    release = older.rpartition(".")[0]
    with LocalKafka(newer, release_version=release, start_timeout=60) as kafka:
        admin = Admin(kafka.bootstrap)
        before = discover(kafka.bootstrap).level(feature) or 0
        plan = json.loads(ours(kafka, "plan", "upgrade", "--feature", f"{feature}={level}", "--output", "json").stdout)
        (back,) = plan["way_back"]
        assert (back["first_release"] > release) is not starts
        admin.update(upgrade({feature: level}))
        admin.wait_for_levels({feature: level}, 60)
        if starts:
            kafka.roll(1, older)
            return
        with pytest.raises(LocalKafkaError):
            kafka.roll(1, older)
        kafka.roll(1, newer)
        admin.update(downgrade({feature: before}))
        lowered = admin.wait_for_levels({feature: before}, 60).epoch
        planned = ours(kafka, "plan", "downgrade", "--release-version", release)
        assert f"{feature}=" in planned.stdout.partition(" or higher may have been set before")[0]
        assert planned.returncode == 2
        with pytest.raises(LocalKafkaError):
            kafka.roll(1, older)
        kafka.properties["metadata.log.max.snapshot.interval.ms"] = 1000
        kafka.roll(1, newer)
        log = kafka.node(1).log.parent / "node-1" / "data" / "__cluster_metadata-0"
        eventually(lambda: any(int(path.name[:20]) > lowered for path in log.glob("*.checkpoint")), within=60)
        kafka.roll(1, older)
        assert discover(kafka.bootstrap).level(feature) in {before, None}
