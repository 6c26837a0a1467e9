"""Changes to the levels of a release."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from featuregate.catalog import release_levels
from featuregate.wire.update_features import FeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from conftest import Run
    from scripted import ScriptedCluster

AT_4_1 = {"metadata.version": 27, "kraft.version": 0, "share.version": 0, "streams.version": 0}
"""A cluster of 4.2 with static voters, formatted at 4.1."""
DOWNGRADED = """\
metadata.version was downgraded to 27.
share.version was downgraded to 0.
streams.version was downgraded to 0.
"""
KRAFT = "featuregate: not sent: kraft.version stays as it is: once raised it never goes down, so raise it by itself\n"
LEFT_OUT = "featuregate: not sent, because the cluster has these levels already: "
UNCHANGED = "transaction.version 2, group.version 1, eligible.leader.replicas.version 1"


def sent(cluster: ScriptedCluster) -> dict[str, int]:
    """Return the levels of the one request."""
    (received,) = cluster.received
    return {update.feature: update.max_version_level for update in received.request.updates}


def test_a_downgrade_to_a_release_leaves_out_what_cannot_go_down(on: Run, cluster: ScriptedCluster) -> None:
    """kraft.version, or a level that is lower already, would make the whole request fail."""
    cluster.apply({"kraft.version": 0, "share.version": 1, "streams.version": 1})
    done = on("downgrade", "--release-version", "4.1", "--yes")
    assert (done.code, done.out) == (0, DOWNGRADED)
    text = "featuregate: not sent: kraft.version is at 0, and a downgrade to 1 cannot raise it\n"
    assert done.err.startswith(f"{LEFT_OUT}{UNCHANGED}\n{text}")
    assert sent(cluster) == {"metadata.version": 27, "share.version": 0, "streams.version": 0}


@pytest.mark.slow
def test_kraft_version_is_not_raised_with_a_release(on: Run, cluster: ScriptedCluster) -> None:
    """It never goes down; and controllers of 3.9 write a level that their quorum does not have (KAFKA-18979)."""
    cluster.speak(0, 1)
    for node in cluster.nodes.values():
        node.supported = {"metadata.version": (1, 21), "kraft.version": (0, 1)}
        node.finalized = {"metadata.version": 20}
    results = (FeatureResult(feature="metadata.version"),)
    cluster.says = lambda *_: UpdateFeaturesResponse(results=results)
    for release in ("3.9", "4.2"):
        cluster.received.clear()
        ended = on("upgrade", "--release-version", release, "--dry-run")
        assert "kraft.version" not in sent(cluster)
        assert KRAFT in ended.err


def test_nothing_is_sent_for_a_release_that_the_cluster_has(on: Run, cluster: ScriptedCluster) -> None:
    """Repeating the command, or waiting for its levels, is no failure."""
    cluster.apply(release_levels(29))
    upgrade = ["upgrade", "--release-version", "4.2"]
    for argv in (upgrade, [*upgrade, "--wait", "30"], [*upgrade, "--dry-run"]):
        ended = on(*argv)
        assert (ended.code, ended.out, cluster.received) == (0, "", [])
        assert ended.err.startswith(f"{LEFT_OUT}metadata.version 29, ")
    outcome = json.loads(on(*upgrade, "--output", "json").out)
    assert (outcome["done"], outcome["features"], len(outcome["left_out"])) == (True, [], 7)


def test_json_of_a_release_holds_the_levels_before(on: Run, cluster: ScriptedCluster) -> None:
    """The JSON also has the kind of each change, and the features that are left out."""
    cluster.apply(AT_4_1)
    outcome = json.loads(on("upgrade", "--release-version", "4.2", "--output", "json").out)
    assert {one["feature"]: (one["before"], one["change"], one["level"]) for one in outcome["features"]} == {
        "metadata.version": (27, "upgrade", 29),
        "share.version": (0, "add", 1),
        "streams.version": (0, "add", 1),
    }
    left_out = {"feature": "transaction.version", "current": 2, "level": 2, "why": "is at 2 already"}
    assert left_out in outcome["left_out"]


def test_an_upgrade_to_a_release_sends_only_changes(on: Run, cluster: ScriptedCluster) -> None:
    """Standard error names the features that have their level already; the output has a line for each other one."""
    cluster.apply(AT_4_1)
    done = on("upgrade", "--release-version", "4.2")
    text = (
        "metadata.version was upgraded to 29.\nshare.version was upgraded to 1.\nstreams.version was upgraded to 1.\n"
    )
    assert (done.code, done.out) == (0, text)
    assert done.err.startswith(f"{LEFT_OUT}{UNCHANGED}\n{KRAFT}")
    assert sent(cluster) == {"metadata.version": 29, "share.version": 1, "streams.version": 1}


def test_releases_newer_than_kafka_features_are_known(on: Run, cluster: ScriptedCluster) -> None:
    """They are in featuregate's own table."""
    assert on("upgrade", "--release-version", "4.4", "--dry-run").code == 0
    assert sent(cluster)["metadata.version"] == 33
