"""The commands that change finalized levels."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

from scripted import ScriptedCluster

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

    def watched(role: str) -> object:
        if cluster.received:
            waiting.set()
        return describe(role)

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
