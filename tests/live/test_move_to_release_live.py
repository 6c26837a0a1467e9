"""A real cluster with static voters is moved to a release and back, where kafka-features fails or writes too much."""

import json
import subprocess
import sys

import pytest

from featuregate import Admin, discover
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("admin"), pytest.mark.live]


def ours(kafka: LocalKafka, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run our command line as people do, and wait until every broker shows what it changed."""
    command = [sys.executable, "-m", "featuregate", "--bootstrap-server", kafka.bootstrap, *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def changed(printed: str) -> dict[str, int]:
    """Read the new levels, of lines such as ``share.version was upgraded to 1.``."""
    rows = [line.rstrip(".").split() for line in printed.splitlines()]
    return {row[0]: int(row[-1]) for row in rows}


def test_a_cluster_of_4_2_goes_down_to_4_1_and_up_again() -> None:
    """kraft.version is left out both ways, and raised by itself."""
    with LocalKafka("4.2.0") as kafka:
        start = discover(kafka.bootstrap)
        assert (start.level("metadata.version"), start.level("kraft.version")) == (29, 0)
        theirs = kafka.kafka_features("downgrade", "--release-version", "4.1")
        assert (theirs.returncode, "7 out of 7 operation(s) failed." in theirs.stderr) == (1, True)

        down = ours(kafka, "downgrade", "--release-version", "4.1", "--yes", "--wait", "60")
        assert (down.returncode, changed(down.stdout)) == (
            0,
            {"metadata.version": 27, "share.version": 0, "streams.version": 0},
        )
        assert "not sent: kraft.version is at 0, and a downgrade to 1 cannot raise it" in down.stderr
        view = discover(kafka.bootstrap)
        assert (view.level("metadata.version"), view.level("share.version"), view.level("kraft.version")) == (27, 0, 0)

        controllers = ("--controllers", kafka.controller_bootstrap)
        planned = ours(kafka, "plan", "upgrade", "--release-version", "4.2", *controllers, "--output", "json")
        assert (planned.returncode, json.loads(planned.stdout)["judgement"]) == (0, "accepted")
        up = ours(kafka, "upgrade", "--release-version", "4.2", "--wait", "60")
        assert (up.returncode, changed(up.stdout)) == (
            0,
            {"metadata.version": 29, "share.version": 1, "streams.version": 1},
        )
        assert "not sent: kraft.version stays as it is" in up.stderr
        view = discover(kafka.bootstrap)
        assert (view.level("metadata.version"), view.level("kraft.version")) == (29, 0)
        alone = ours(kafka, "upgrade", "--feature", "kraft.version=1", "--yes", *controllers, "--wait", "60")
        assert alone.returncode == 0
        assert "no return: kraft.version: 1 cannot be lowered again" in alone.stderr
        assert discover(kafka.bootstrap).level("kraft.version") == 1
        again = ours(kafka, "upgrade", "--release-version", "4.2", "--wait", "60")
        assert (again.returncode, again.stdout) == (0, "")


def test_a_cluster_of_3_9_is_upgraded_without_a_level_that_its_quorum_does_not_have() -> None:
    """KAFKA-18979: kafka-features writes it, and brokers report it from then on."""
    with LocalKafka("3.9.2", release_version="3.8") as kafka:
        assert discover(kafka.bootstrap).level("metadata.version") == 20
        done = ours(kafka, "upgrade", "--release-version", "3.9", "--wait", "60")
        assert (done.returncode, changed(done.stdout)) == (0, {"metadata.version": 21})
        assert "not sent: kraft.version stays as it is: once raised it never goes down" in done.stderr
        assert ours(kafka, "check", "kraft.version>=1").returncode == 1
        assert "KAFKA-18979" in ours(kafka, "plan", "upgrade", "--feature", "kraft.version=1").stdout

        theirs = kafka.kafka_features("upgrade", "--release-version", "3.9", version="4.3.1")
        assert theirs.returncode == 0
        view = Admin(kafka.bootstrap).wait_for_levels({"kraft.version": 1}, 60)
        assert view.level("kraft.version") == 1  # of a quorum with static voters, which has no such level
