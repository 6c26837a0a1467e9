"""``plan``: its output, its exit codes, and the latches that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scripted import ScriptedCluster

from featuregate.testing import FakeCluster

if TYPE_CHECKING:
    from conftest import Run


@pytest.mark.parametrize(("controllers", "code"), [("127.0.0.1:1", 2), ("itself", 64), ("another", 64)])
def test_an_error_about_controllers_names_the_option(
    on: Run, cluster: ScriptedCluster, controllers: str, code: int
) -> None:
    """The brokers have answered, so the error is not about them."""
    with ScriptedCluster(1, role="controller") as quorum:
        quorum.cluster_id = "another"
        where = {"itself": cluster.bootstrap, "another": quorum.bootstrap}.get(controllers, controllers)
        ended = on("plan", "upgrade", "--feature", "share.version=1", "--controllers", where)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("featuregate: argument --controllers: ")


def test_a_controller_that_has_gone_makes_a_plan_unknown(run: Run) -> None:
    """The exit code is not 0 with the controllers, and not without."""
    argv = ("plan", "upgrade", "--feature", "metadata.version=29", "--bootstrap-server")
    with FakeCluster(1, controllers=2, finalized={"metadata.version": 21}) as cluster:
        cluster.voters = (3000,)
        cluster.broker(3001).stop()
        unasked = run(*argv, cluster.bootstrap)
        asked = run(*argv, cluster.bootstrap, "--controllers", cluster.bootstrap_controllers)
        listed = run(*argv, cluster.bootstrap, "--broker-list", "bootstrap")
    assert (unasked.code, asked.code, listed.code) == (2, 2, 2)
    assert "controllers were not asked" in unasked.out
    assert "controller 3001" in asked.out
    assert "kafka-cluster.sh" not in asked.out
    assert "with node.id=3001" in asked.out
