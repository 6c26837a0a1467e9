"""The commands that change finalized levels."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from scripted import ScriptedCluster

from featuregate.cli.commands import change
from featuregate.wire.update_features import UpdateFeaturesResponse

if TYPE_CHECKING:
    from conftest import Run, Start


def test_nodes_of_the_wrong_kind_are_reported_once(run: Run) -> None:
    with ScriptedCluster(3, role="controller") as quorum:
        ended = run("upgrade", "--feature", "a=1", "--bootstrap-server", quorum.bootstrap)
    assert (ended.code, ended.err.count("is a controller")) == (1, 1)
    assert ended.err.endswith("use bootstrap.controllers, or --bootstrap-controller\n")


def test_wait_reports_brokers_that_stop_answering(on: Run, cluster: ScriptedCluster) -> None:
    def agree_and_stop(*_: object) -> UpdateFeaturesResponse:
        cluster.refuse_clients()
        return UpdateFeaturesResponse()

    cluster.says = agree_and_stop
    ended = on("upgrade", "--feature", "share.version=1", "--wait", "0.3")
    assert (ended.code, ended.out) == (1, "share.version was upgraded to 1.\n")
    assert ended.err.startswith("featuregate: the update was applied, but no broker answered: ")


def test_ctrl_c_during_the_wait_says_that_the_update_was_applied(start: Start, cluster: ScriptedCluster) -> None:
    waiting, describe = threading.Event(), cluster.describe

    def watched(role: str, wanted: int) -> object:
        if cluster.received:
            waiting.set()
        return describe(role, wanted)

    cluster.describe = watched  # type: ignore[method-assign,assignment]  # it sees when the brokers are asked again
    cluster.says = lambda *_: UpdateFeaturesResponse()
    argv = ("upgrade", "--feature", "share.version=9", "--wait", "300")
    process = start(*argv, "--bootstrap-server", cluster.bootstrap)
    assert waiting.wait(60)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (
        "share.version was upgraded to 9.\n",
        "featuregate: interrupted: the update was applied, but not every broker shows it yet\n",
    )
    assert process.returncode == 130


def test_the_plan_and_the_change_have_one_configuration(
    run: Run, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe, as of ``<(command)``, can be read once; a second reading would leave the variable's cluster."""
    ours, theirs = os.pipe()
    os.write(theirs, f"bootstrap.servers={cluster.bootstrap}\n".encode())
    os.close(theirs)
    with ScriptedCluster(1) as other:
        monkeypatch.setenv("FEATUREGATE_BOOTSTRAP_SERVER", other.bootstrap)
        other.apply({"metadata.version": 30})
        ended = run("upgrade", "--feature", "metadata.version=30", "--command-config", f"/dev/fd/{ours}")
    os.close(ours)
    assert (ended.code, cluster.received, other.received) == (1, [], [])
    assert "metadata.version=30 cannot be undone" in ended.err


def test_a_change_reaches_the_cluster_of_its_plan_only(
    on: Run, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same addresses may lead to another cluster after the plan."""

    def read(*_: object) -> None:
        cluster.cluster_id = "another"

    monkeypatch.setattr(change, "require_evidence", read)
    ended = on("upgrade", "--feature", "share.version=1")
    assert (ended.code, cluster.received) == (1, [])
    assert "another" in ended.err
