"""Changes to the levels of a release, with and without the output of KIP-584."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from featuregate.catalog import release_levels
from featuregate.wire.update_features import FeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from conftest import Run
    from scripted import ScriptedCluster

REFUSED = UpdateFeaturesResponse(error_code=95, error_message="no, because")
AT_4_1 = {"metadata.version": 27, "kraft.version": 0, "share.version": 0, "streams.version": 0}
"""A cluster of 4.2 with static voters, formatted at 4.1."""
UPGRADE_LINES = """\
  [Upgrade] Feature: metadata.version                          ExistingFinalizedMaxVersion: 4.1-IV1          \
NewFinalizedMaxVersion: 4.2-IV1          Result: OK
      [Add] Feature: share.version                             ExistingFinalizedMaxVersion: -                \
NewFinalizedMaxVersion: 1                Result: OK
      [Add] Feature: streams.version                           ExistingFinalizedMaxVersion: -                \
NewFinalizedMaxVersion: 1                Result: OK
"""
DOWNGRADE_LINES = """\
[Downgrade] Feature: metadata.version                          ExistingFinalizedMaxVersion: 4.2-IV1          \
NewFinalizedMaxVersion: 4.1-IV1          Result: OK
   [Delete] Feature: share.version                             ExistingFinalizedMaxVersion: 1                \
NewFinalizedMaxVersion: -                Result: OK
   [Delete] Feature: streams.version                           ExistingFinalizedMaxVersion: 1                \
NewFinalizedMaxVersion: -                Result: OK
"""
KRAFT = "featuregate: not sent: kraft.version stays as it is: once raised it never goes down, so raise it by itself\n"
LEFT_OUT = "featuregate: not sent, because the cluster has these levels already: "
UNCHANGED = "transaction.version 2, group.version 1, eligible.leader.replicas.version 1"


def sent(cluster: ScriptedCluster) -> dict[str, int]:
    """Return the levels of the one request."""
    (received,) = cluster.received
    return {update.feature: update.max_version_level for update in received.request.updates}


def test_upgrade_all_sends_only_changes_and_prints_the_lines_of_kip_584(on: Run, cluster: ScriptedCluster) -> None:
    """Standard error names the features that have their level already."""
    cluster.apply(AT_4_1)
    done = on("upgrade-all")
    assert (done.code, done.out) == (0, UPGRADE_LINES)
    assert done.err.startswith(f"{LEFT_OUT}{UNCHANGED}\n{KRAFT}")
    assert sent(cluster) == {"metadata.version": 29, "share.version": 1, "streams.version": 1}


def test_downgrade_all_leaves_out_what_cannot_go_down(on: Run, cluster: ScriptedCluster) -> None:
    """kraft.version, or a level that is lower already, would make the whole request fail."""
    cluster.apply({"kraft.version": 0, "share.version": 1, "streams.version": 1})
    done = on("downgrade-all", "--release-version", "4.1", "--yes")
    assert (done.code, done.out) == (0, DOWNGRADE_LINES)
    text = "featuregate: not sent: kraft.version is at 0, and a downgrade to 1 cannot raise it\n"
    assert done.err.startswith(f"{LEFT_OUT}{UNCHANGED}\n{text}")
    assert sent(cluster) == {"metadata.version": 27, "share.version": 0, "streams.version": 0}


def test_downgrade_all_requires_a_release(on: Run) -> None:
    """The option has no default."""
    assert "--release-version" in on("downgrade-all").err


@pytest.mark.slow
def test_kraft_version_is_not_raised_with_a_release(on: Run, cluster: ScriptedCluster) -> None:
    """It never goes down; and controllers of 3.9 write a level that their quorum does not have (KAFKA-18979)."""
    cluster.speak(0, 1)
    for node in cluster.nodes.values():
        node.supported = {"metadata.version": (1, 21), "kraft.version": (0, 1)}
        node.finalized = {"metadata.version": 20}
    results = (FeatureResult(feature="metadata.version"),)
    cluster.says = lambda *_: UpdateFeaturesResponse(results=results)
    for argv in (["upgrade-all"], ["upgrade", "--release-version", "3.9"], ["upgrade-all", "--release-version", "4.2"]):
        cluster.received.clear()
        ended = on(*argv)
        assert "kraft.version" not in sent(cluster)
        assert KRAFT in ended.err


def test_nothing_is_sent_for_a_release_that_the_cluster_has(on: Run, cluster: ScriptedCluster) -> None:
    """Repeating the command, or waiting for its levels, is no failure."""
    cluster.apply(release_levels(29))
    waiting = ["upgrade", "--release-version", "4.2", "--wait", "30"]
    for argv in (["upgrade-all"], waiting, ["upgrade-all", "--dry-run"]):
        ended = on(*argv)
        assert (ended.code, ended.out, cluster.received) == (0, "", [])
        assert ended.err.startswith(f"{LEFT_OUT}metadata.version 29, ")
    outcome = json.loads(on("upgrade-all", "--output", "json").out)
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


def test_upgrade_to_a_release_prints_the_lines_of_kafka_features(on: Run, cluster: ScriptedCluster) -> None:
    """The output has a line for each feature that was sent."""
    cluster.apply(AT_4_1 | {"kraft.version": 1})
    assert on("upgrade", "--release-version", "4.2").out == (
        "metadata.version was upgraded to 29.\nshare.version was upgraded to 1.\nstreams.version was upgraded to 1.\n"
    )


def test_a_refused_upgrade_all_has_the_message_as_every_result(on: Run, cluster: ScriptedCluster) -> None:
    """The result of a dry run says that it was one."""
    cluster.apply(AT_4_1)
    cluster.says = lambda *_: REFUSED
    ended = on("upgrade-all")
    assert ended.code == 1
    assert {line.partition("Result: ")[2] for line in ended.out.splitlines()} == {"no, because"}
    assert ended.err.endswith("featuregate: 3 out of 3 operation(s) failed.\n")
    cluster.says = cluster.agree
    assert on("upgrade-all", "--dry-run").out == UPGRADE_LINES.replace("Result: OK", "Result: OK (dry run)")


def test_upgrade_all_stops_at_the_oldest_broker(on: Run, cluster: ScriptedCluster) -> None:
    """The highest metadata.version of that broker determines the release."""
    cluster.nodes[2].supported["metadata.version"] = (7, 27)
    assert on("upgrade-all", "--dry-run").code == 0
    assert sent(cluster)["metadata.version"] == 27
    assert "streams.version" not in sent(cluster)


def test_upgrade_all_stops_at_the_newest_known_release(on: Run, cluster: ScriptedCluster) -> None:
    """The command accepts a cluster that is newer."""
    for node in cluster.nodes.values():
        node.supported |= {"metadata.version": (7, 77), "future.version": (0, 3)}
    ended = on("upgrade-all", "--dry-run")
    assert (ended.code, sent(cluster)["metadata.version"]) == (0, 33)
    assert ended.err.startswith(
        "featuregate: this cluster supports newer levels of future.version, metadata.version than this featuregate "
        "knows: they are not used\n"
    )


def test_releases_newer_than_kafka_features_are_known(on: Run, drop_in: Run, cluster: ScriptedCluster) -> None:
    """The drop-in knows only the releases of kafka-features."""
    assert on("upgrade", "--release-version", "4.4", "--dry-run").code == 0
    assert sent(cluster)["metadata.version"] == 33
    code, _, err = drop_in("--bootstrap-server", cluster.bootstrap, "upgrade", "--release-version", "4.4")
    assert (code, err.startswith("Unknown metadata.version '4.4'.")) == (1, True)


def test_a_cluster_without_features_has_nothing_to_upgrade_to(on: Run, cluster: ScriptedCluster) -> None:
    """Kafka before 2.7 has no features."""
    for node in cluster.nodes.values():
        node.supported.clear()
    ended = on("upgrade-all")
    assert (ended.code, cluster.received) == (1, [])
    assert "the brokers support no feature in common: there is nothing to upgrade to" in ended.err
