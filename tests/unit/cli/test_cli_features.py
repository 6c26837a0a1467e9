"""The commands that change finalized levels, plan that, or look levels up."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from scripted import HANG_UP, SILENCE, ScriptedCluster

from featuregate.admin.updates import upgrade
from featuregate.cli.kafka_features.client import Client
from featuregate.testing.simulator import Roll, ZooKeeper
from featuregate.wire.update_features import FeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

    from featuregate.testing.plugin import MakeSimulatedCluster

REFUSED = UpdateFeaturesResponse(error_code=95, error_message="no, because")
MAPPING = """\
metadata.version=30 (4.3-IV0)
kraft.version=1
transaction.version=2
group.version=1
eligible.leader.replicas.version=1
share.version=1
streams.version=1
"""
DEPRECATED = " `metadata` flag is deprecated and may be removed in a future release.\n"
AT_4_2 = {
    "metadata.version": 29,
    "kraft.version": 1,
    "transaction.version": 2,
    "group.version": 1,
    "eligible.leader.replicas.version": 1,
    "share.version": 1,
    "streams.version": 1,
}


# ------------------------------------------------------------------ what it prints


@pytest.mark.parametrize(
    ("argv", "out"),
    [
        (["upgrade", "--feature", "b=2", "--feature", "a=1"], "a was upgraded to 1.\nb was upgraded to 2.\n"),
        (["upgrade", "--feature", "a=1", "--dry-run"], "a can be upgraded to 1.\n"),
        (["downgrade", "--feature", "a=1"], "a was downgraded to 1.\n"),
        (["downgrade", "--feature", "a=1", "--dry-run", "--unsafe"], "a can be downgraded to 1.\n"),
        (["disable", "--feature", "b", "--feature", "a"], "a was disabled.\nb was disabled.\n"),
        (["disable", "--feature", "a", "--dry-run"], "a can be disabled.\n"),
        (
            ["upgrade", "--metadata", "3.9"],
            f"{DEPRECATED}metadata.version was upgraded to 21.\n",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_was_done_is_told_as_kafka_features_tells_it(on: Run, argv: list[str], out: str) -> None:
    """A line for each feature, by name."""
    assert on(*argv) == (0, out, "")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["upgrade", "--feature", "a=1"], "Could not upgrade a to 1. no, because"),
        (["upgrade", "--feature", "a=1", "--dry-run"], "Can not upgrade a to 1. no, because"),
        (["downgrade", "--feature", "a=1"], "Could not downgrade a to 1. no, because"),
        (["disable", "--feature", "a"], "Could not disable a. no, because"),
        (["disable", "--feature", "a", "--dry-run"], "Can not disable a. no, because"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_was_refused_is_told_with_the_controllers_words(
    on: Run, drop_in: Run, cluster: ScriptedCluster, argv: list[str], line: str
) -> None:
    """On standard output; how many on standard error."""
    cluster.says = lambda *_: REFUSED
    assert on(*argv) == (1, f"{line}\n", "featuregate: 1 out of 1 operation(s) failed.\n")
    assert drop_in("--bootstrap-server", cluster.bootstrap, *argv) == (
        1,
        f"{line}\n",
        "1 out of 1 operation(s) failed.\n",
    )


def test_our_commands_know_levels_of_metadata_version_by_name(on: Run, cluster: ScriptedCluster) -> None:
    """As they are printed; so do plans, lookups and requirements."""
    assert on("upgrade", "--feature", "metadata.version=3.3-IV3") == (0, "metadata.version was upgraded to 7.\n", "")
    assert on("downgrade", "--feature", "metadata.version = 4.2-IV0", "--yes").code == 0
    assert [heard.request.updates[0].max_version_level for heard in cluster.heard] == [7, 28]
    assert (
        "metadata.version: 28 (4.2-IV0) -> 27 (4.1-IV1)"
        in on("plan", "downgrade", "--feature", "metadata.version=4.1-IV1").out
    )
    assert on("feature-dependencies", "--feature", "metadata.version=3.9-IV0").out == (
        "metadata.version=21 (3.9-IV0) has no dependencies.\n"
    )
    assert on("check", "metadata.version>=4.2-IV0").code == 0
    assert on("check", "metadata.version>=4.2-IV1").code == 1


@pytest.mark.parametrize("argv", [["upgrade"], ["downgrade"], ["plan", "upgrade"], ["feature-dependencies"]])
def test_an_unknown_name_of_a_level_is_one_line_with_near_names(
    on: Run, cluster: ScriptedCluster, argv: list[str]
) -> None:
    """And nothing is sent."""
    ended = on(*argv, "--feature", "metadata.version=3.3-IV7")
    assert ended.err == (
        "featuregate: Can't parse feature=level string metadata.version=3.3-IV7: no metadata.version is called "
        "'3.3-IV7'; did you mean 3.3-IV3 or 3.3-IV2 or 3.3-IV1? (write the number of a newer one)\n"
    )
    assert (ended.code, cluster.heard) == (64 if argv[0] == "plan" else 1, [])


@pytest.mark.parametrize("command", ["upgrade", "feature-dependencies"])
def test_the_drop_in_knows_no_names_of_levels(drop_in: Run, command: str) -> None:
    """As kafka-features does not."""
    assert drop_in("--bootstrap-server", "h:1", command, "--feature", "metadata.version=3.3-IV3") == (
        1,
        "",
        "Can't parse feature=level string metadata.version=3.3-IV3: unable to parse 3.3-IV3 as a short.\n",
    )


def test_partial_success_is_told_feature_by_feature(on: Run, cluster: ScriptedCluster) -> None:
    """As clusters before 4.0 do it."""
    cluster.speak(0, 1)
    results = (FeatureResult(feature="a"), FeatureResult(feature="b", error_code=95, error_message="no"))
    cluster.says = lambda *_: UpdateFeaturesResponse(results=results)
    ended = on("upgrade", "--feature", "a=1", "--feature", "b=2")
    assert ended.out == "a was upgraded to 1.\nCould not upgrade b to 2. no\n"
    assert (ended.code, ended.err) == (1, "featuregate: 1 out of 2 operation(s) failed.\n")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["upgrade"], "You must specify at least one feature to upgrade"),
        (["downgrade"], "You must specify at least one feature to downgrade"),
        (["disable"], "You must specify at least one feature to disable"),
        (["upgrade", "--feature", "a"], "Can't parse feature=level string a: equals sign not found."),
        (["upgrade", "--feature", "a=x"], "Can't parse feature=level string a=x: unable to parse x as a short."),
        (["upgrade", "--feature", "a=32768"], "unable to parse 32768 as a short."),
        (["upgrade", "--feature", "a=1", "--feature", "a=2"], "Feature a was specified more than once."),
        (["disable", "--feature", "a", "--feature", "a"], "Feature a was specified more than once."),
        (["upgrade", "--feature", "a=-1"], "Cannot specify a negative version level."),
        (["upgrade", "--feature", "=1"], "Provided feature can not be empty."),
        (
            ["upgrade", "--release-version", "4.0", "--feature", "a=1"],
            "Can not specify `release-version` with other feature flags.",
        ),
        (
            ["upgrade", "--release-version", "9.9"],
            "Unknown metadata.version '9.9'. Supported metadata",
        ),
        (["downgrade", "--metadata", "3.0-IV1"], "Unknown metadata.version '3.0-IV1'. Supported"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_makes_no_sense_fails_with_1_and_is_not_sent(
    on: Run, drop_in: Run, cluster: ScriptedCluster, argv: list[str], words: str
) -> None:
    """In the words of kafka-features, from both programs."""
    ended = on(*argv)
    code, _, err = drop_in("--bootstrap-server", cluster.bootstrap, *argv)
    assert ended.code == code == 1
    assert words in ended.err
    assert ended.err == f"featuregate: {err}"
    assert cluster.heard == []


def test_json_says_it_all(on: Run, cluster: ScriptedCluster) -> None:
    """And nothing else is on standard output."""
    cluster.says = lambda *_: REFUSED
    ended = on("downgrade", "--metadata", "3.9", "--output", "json")
    assert json.loads(ended.out) == {
        "command": "downgrade",
        "cluster_id": "scripted",
        "dry_run": False,
        "done": False,
        "read_back": False,
        "features": [
            {
                "feature": "metadata.version",
                "before": None,
                "before_min": None,
                "level": 21,
                "change": None,
                "upgrade_type": "safe_downgrade",
                "done": False,
                "error": {"code": 95, "name": "INVALID_UPDATE_VERSION", "message": "no, because"},
            }
        ],
        "left_out": [],
    }
    assert ended.code == 1


def test_what_a_controller_says_cannot_steer_a_terminal(on: Run, cluster: ScriptedCluster) -> None:
    """Its words are shown, not obeyed."""
    cluster.says = lambda *_: UpdateFeaturesResponse(error_code=95, error_message="\x1b[2Jgone\nand more")
    assert on("upgrade", "--feature", "a=1").out == "Could not upgrade a to 1. \\x1b[2Jgone\\x0aand more\n"


# ------------------------------------------------------------------ what it asks


OLD = {"metadata.version": 27, "kraft.version": 0, "share.version": 0, "streams.version": 0}
"""A cluster of 4.2 with static voters, formatted at 4.1."""
TOLD_OF_AN_UPGRADE = """\
      [Add] Feature: kraft.version                             ExistingFinalizedMaxVersion: -                \
NewFinalizedMaxVersion: 1                Result: OK
  [Upgrade] Feature: metadata.version                          ExistingFinalizedMaxVersion: 4.1-IV1          \
NewFinalizedMaxVersion: 4.2-IV1          Result: OK
      [Add] Feature: share.version                             ExistingFinalizedMaxVersion: -                \
NewFinalizedMaxVersion: 1                Result: OK
      [Add] Feature: streams.version                           ExistingFinalizedMaxVersion: -                \
NewFinalizedMaxVersion: 1                Result: OK
"""
TOLD_OF_A_DOWNGRADE = """\
[Downgrade] Feature: metadata.version                          ExistingFinalizedMaxVersion: 4.2-IV1          \
NewFinalizedMaxVersion: 4.1-IV1          Result: OK
   [Delete] Feature: share.version                             ExistingFinalizedMaxVersion: 1                \
NewFinalizedMaxVersion: -                Result: OK
   [Delete] Feature: streams.version                           ExistingFinalizedMaxVersion: 1                \
NewFinalizedMaxVersion: -                Result: OK
"""
THERE = "transaction.version 2, group.version 1, eligible.leader.replicas.version 1"


def sent(cluster: ScriptedCluster) -> dict[str, int]:
    """Return the levels of the one request."""
    (heard,) = cluster.heard
    return {update.feature: update.max_version_level for update in heard.request.updates}


def test_upgrade_all_sends_what_moves_and_tells_it_as_kip_584_does(on: Run, cluster: ScriptedCluster) -> None:
    """What is added, and what is upgraded; standard error has what is there already."""
    cluster.apply(OLD)
    ended = on("upgrade-all")
    assert (ended.code, ended.out) == (0, TOLD_OF_AN_UPGRADE)
    assert ended.err == f"featuregate: not sent, because the cluster has these levels already: {THERE}\n"
    assert sent(cluster) == {"metadata.version": 29, "kraft.version": 1, "share.version": 1, "streams.version": 1}


def test_downgrade_all_leaves_out_what_never_goes_down(on: Run, cluster: ScriptedCluster) -> None:
    """And what the cluster has not raised: each would stop all the others."""
    cluster.apply({"kraft.version": 0, "share.version": 1, "streams.version": 1})
    ended = on("downgrade-all", "--release-version", "4.1", "--yes")
    assert (ended.code, ended.out) == (0, TOLD_OF_A_DOWNGRADE)
    assert ended.err == (
        f"featuregate: not sent, because the cluster has these levels already: {THERE}\n"
        "featuregate: not sent: kraft.version is at 0, and a downgrade to 1 cannot raise it\n"
    )
    assert sent(cluster) == {"metadata.version": 27, "share.version": 0, "streams.version": 0}


def test_upgrade_all_writes_no_level_that_the_quorum_of_3_9_does_not_have(on: Run, cluster: ScriptedCluster) -> None:
    """KAFKA-18979; a release on the command line means the same."""
    cluster.speak(0, 1)
    for node in cluster.nodes.values():
        node.supported = {"metadata.version": (1, 21), "kraft.version": (0, 1)}
        node.finalized = {"metadata.version": 20}
    results = (FeatureResult(feature="metadata.version"),)
    cluster.says = lambda *_: UpdateFeaturesResponse(results=results)
    for argv in (["upgrade-all"], ["upgrade", "--release-version", "3.9"], ["upgrade-all", "--release-version", "4.2"]):
        cluster.heard.clear()
        ended = on(*argv)
        assert "kraft.version" not in sent(cluster)
        assert "not sent: kraft.version stays as it is: controllers before 4.1 would report 1" in ended.err


def test_a_release_that_is_reached_is_sent_nothing(on: Run, cluster: ScriptedCluster) -> None:
    """Running it again is no failure, nor is waiting for it."""
    cluster.apply(AT_4_2)
    for argv in (
        ["upgrade-all"],
        ["upgrade", "--release-version", "4.2", "--wait", "30"],
        ["upgrade-all", "--dry-run"],
    ):
        ended = on(*argv)
        assert (ended.code, ended.out, cluster.heard) == (0, "", [])
        assert ended.err.startswith(
            "featuregate: not sent, because the cluster has these levels already: metadata.version 29, "
        )
    said = json.loads(on("upgrade-all", "--output", "json").out)
    assert (said["done"], said["features"], len(said["left_out"])) == (True, [], 7)


def test_a_release_is_told_with_what_was_there_before(on: Run, cluster: ScriptedCluster) -> None:
    """For scripts: the level before, what the change is called, and what is left out."""
    cluster.apply(OLD)
    said = json.loads(on("upgrade", "--release-version", "4.2", "--output", "json").out)
    assert {one["feature"]: (one["before"], one["change"], one["level"]) for one in said["features"]} == {
        "metadata.version": (27, "upgrade", 29),
        "kraft.version": (0, "add", 1),
        "share.version": (0, "add", 1),
        "streams.version": (0, "add", 1),
    }
    assert said["left_out"][0] == {
        "feature": "transaction.version",
        "current": 2,
        "level": 2,
        "why": "is at 2 already",
    }


def test_a_release_of_upgrade_is_told_as_kafka_features_tells_it(on: Run, cluster: ScriptedCluster) -> None:
    """Standard output has a line for each feature that was sent."""
    cluster.apply(OLD | {"kraft.version": 1})
    assert on("upgrade", "--release-version", "4.2").out == (
        "metadata.version was upgraded to 29.\nshare.version was upgraded to 1.\nstreams.version was upgraded to 1.\n"
    )


def test_a_refusal_of_upgrade_all_is_the_result_of_each(on: Run, cluster: ScriptedCluster) -> None:
    """With the controller's words; a dry run says that nothing was changed."""
    cluster.apply(OLD)
    cluster.says = lambda *_: REFUSED
    ended = on("upgrade-all")
    assert ended.code == 1
    assert {line.partition("Result: ")[2] for line in ended.out.splitlines()} == {"no, because"}
    assert ended.err.endswith("featuregate: 4 out of 4 operation(s) failed.\n")
    cluster.says = cluster.agree
    assert on("upgrade-all", "--dry-run").out == TOLD_OF_AN_UPGRADE.replace("Result: OK", "Result: OK (dry run)")


def test_a_plan_of_a_release_says_what_is_left_out(on: Run, cluster: ScriptedCluster) -> None:
    """It plans what the command would send."""
    cluster.apply({"kraft.version": 0})
    argv = ("plan", "downgrade", "--release-version", "4.1")
    ended = on(*argv)
    assert ended.code == 0
    assert "  left out  kraft.version: is at 0, and a downgrade to 1 cannot raise it" in ended.out
    assert json.loads(on(*argv, "--output", "json").out)["left_out"][0]["feature"] == "kraft.version"
    cluster.apply(AT_4_2)
    assert on("plan", "upgrade", "--release-version", "4.2").out.startswith("accepted: 0 updates of cluster scripted")


def test_the_drop_in_sends_a_release_as_kafka_features_does(drop_in: Run, cluster: ScriptedCluster) -> None:
    """Every feature, whatever the cluster has."""
    cluster.apply(AT_4_2)
    assert drop_in("--bootstrap-server", cluster.bootstrap, "downgrade", "--release-version", "4.2")[0] == 0
    assert sent(cluster) == AT_4_2


def test_upgrade_all_goes_as_far_as_every_broker_can(on: Run, cluster: ScriptedCluster) -> None:
    """One broker of an older release holds it back."""
    cluster.nodes[2].supported["metadata.version"] = (7, 27)
    assert on("upgrade-all", "--dry-run").code == 0
    levels = {update.feature: update.max_version_level for update in cluster.heard[0].request.updates}
    assert levels["metadata.version"] == 27
    assert "streams.version" not in levels


def test_upgrade_all_says_where_its_table_ends(on: Run, cluster: ScriptedCluster) -> None:
    """And goes as far as that: a cluster that is newer is no error."""
    for node in cluster.nodes.values():
        node.supported |= {"metadata.version": (7, 77), "future.version": (0, 3)}
    ended = on("upgrade-all", "--dry-run")
    assert (ended.code, cluster.heard[0].request.updates[0].max_version_level) == (0, 33)
    assert ended.err.startswith(
        "featuregate: this cluster supports newer levels of future.version, metadata.version than this featuregate "
        "knows: they are not used\n"
    )


def test_downgrade_all_wants_a_release(on: Run) -> None:
    """Nobody can guess it."""
    assert "--release-version" in on("downgrade-all").err


def test_a_release_that_is_too_new_for_kafka_features_is_not_too_new_for_us(
    on: Run, drop_in: Run, cluster: ScriptedCluster
) -> None:
    """The drop-in knows what it stands in for, and no more."""
    assert on("upgrade", "--release-version", "4.4", "--dry-run").code == 0
    assert cluster.heard[0].request.updates[0].max_version_level == 33
    code, _, err = drop_in("--bootstrap-server", cluster.bootstrap, "upgrade", "--release-version", "4.4")
    assert (code, err.startswith("Unknown metadata.version '4.4'.")) == (1, True)


def test_a_listed_roster_is_refused(on: Run, cluster: ScriptedCluster) -> None:
    """It names no controller."""
    assert on("upgrade", "--feature", "a=1", "--broker-list", "bootstrap").code == 1
    assert cluster.heard == []


def test_wait_is_over_when_every_broker_shows_it(on: Run, cluster: ScriptedCluster) -> None:
    """The levels are there when it ends."""
    assert on("upgrade", "--feature", "share.version=1", "--wait", "30").code == 0
    assert {node.finalized["share.version"] for node in cluster.nodes.values()} == {1}


def test_a_broker_that_does_not_show_it_in_time_is_named(on: Run, cluster: ScriptedCluster) -> None:
    """It was done all the same, and that is said."""
    cluster.says = lambda *_: UpdateFeaturesResponse()
    ended = on("upgrade", "--feature", "share.version=9", "--wait", "0.2")
    assert (ended.code, ended.out) == (1, "share.version was upgraded to 9.\n")
    assert "the update was applied, but not every broker shows it within 0.2 s: broker 1 " in ended.err


def test_a_lost_answer_is_told_as_what_it_is(on: Run, cluster: ScriptedCluster) -> None:
    """And settled by looking, where it can be."""

    def lose(request: object, node: object) -> str:
        cluster.agree(request, node)  # type: ignore[arg-type]  # as it was called
        return HANG_UP

    cluster.says = lose
    ended = on("upgrade", "--feature", "share.version=5", "--output", "json")
    assert (ended.code, json.loads(ended.out)["read_back"]) == (0, True)


def test_a_cluster_without_features_has_nothing_to_upgrade_to(on: Run, cluster: ScriptedCluster) -> None:
    """As one of Kafka before 2.7."""
    for node in cluster.nodes.values():
        node.supported.clear()
    ended = on("upgrade-all")
    assert (ended.code, cluster.heard) == (1, [])
    assert "the brokers support no feature in common: there is nothing to upgrade to" in ended.err


def test_upgrade_all_of_a_cluster_with_zookeeper_is_that_of_kip_584(
    run: Run, simulated_kafka: MakeSimulatedCluster
) -> None:
    """Feature by feature, with the lowest finalized level where that deprecates levels."""
    cluster = simulated_kafka(ZooKeeper("v1"))
    where = ("--bootstrap-server", cluster.bootstrap)
    assert run(*where, "upgrade-all") == (
        0,
        "",
        "featuregate: not sent, because the cluster has these levels already: group_coordinator 1\n",
    )
    cluster.apply(*(Roll(node_id, "v1-v2") for node_id in (1, 2, 3)))
    ended = run(*where, "upgrade-all")
    assert (ended.code, " ".join(ended.out.split())) == (
        0,
        "[Upgrade] Feature: group_coordinator ExistingFinalizedMaxVersion: 1 NewFinalizedMaxVersion: 2 Result: OK",
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_a_lowest_finalized_level_is_told_where_it_deprecates_levels(
    run: Run, simulated_kafka: MakeSimulatedCluster, *, as_json: bool
) -> None:
    """In text and in JSON."""
    newest = replace(ZooKeeper().find_build("v2"), supported={"group_coordinator": (2, 3)})
    cluster = simulated_kafka(ZooKeeper("v1-v2", builds={"v2-v3": newest}))
    cluster.apply(*(Roll(node_id, "v2-v3") for node_id in (1, 2, 3)))
    argv = ("--bootstrap-server", cluster.bootstrap, "upgrade-all")
    if as_json:
        (said,) = json.loads(run(*argv, "--output", "json").out)["features"]
        assert (said["before_min"], said["before"], said["level"]) == (2, 2, 3)
    else:
        assert " ".join(run(*argv).out.split()) == (
            "[Upgrade] Feature: group_coordinator ExistingFinalizedMinVersion: 2 ExistingFinalizedMaxVersion: 2 "
            "NewFinalizedMaxVersion: 3 Result: OK"
        )


def test_ctrl_c_says_that_it_may_have_been_applied(cluster: ScriptedCluster) -> None:
    """Once the request is on its way nobody can take it back."""
    sent = threading.Event()

    def wait(*_: object) -> str:
        sent.set()
        return SILENCE

    cluster.says = wait
    command = [sys.executable, "-m", "featuregate", "--bootstrap-server", cluster.bootstrap]
    process = subprocess.Popen([*command, "upgrade", "--feature", "a=1"], stderr=subprocess.PIPE, text=True)
    with process:
        assert sent.wait(60)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("featuregate: interrupted: the update may or may not have been applied")


# ------------------------------------------------------------------ confirmation


def on_a_terminal(answer: str, *argv: str) -> tuple[int, str, str]:
    """Run a command whose standard input is a terminal, and type an answer."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "featuregate", *argv],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    try:
        os.write(ours, f"{answer}\n".encode())
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(ours)
    return process.returncode, out, err


@pytest.mark.parametrize(("answer", "done"), [("y", True), ("YES", True), ("n", False), ("", False)])
def test_on_a_terminal_a_downgrade_asks_first(cluster: ScriptedCluster, answer: str, *, done: bool) -> None:
    """It shows the plan, and nothing but yes is yes."""
    argv = ("--bootstrap-server", cluster.bootstrap, "downgrade", "--feature", "group.version=0")
    code, out, err = on_a_terminal(answer, *argv)
    assert "group.version: 1 -> 0" in err
    assert "closes    kip848" in err
    assert "Go on? [y/N] " in err
    assert (code, len(cluster.heard)) == ((0, 1) if done else (1, 0))
    assert out == ("group.version was downgraded to 0.\n" if done else "")
    assert ("nothing was changed" in err) is not done


def test_nobody_who_answers_is_no_yes(cluster: ScriptedCluster) -> None:
    """As where the terminal is closed; what follows has a line of its own."""
    argv = ("--bootstrap-server", cluster.bootstrap, "downgrade", "--feature", "group.version=0")
    code, _, err = on_a_terminal("\x04", *argv)
    assert (code, cluster.heard) == (1, [])
    assert err.endswith("Go on? [y/N] \nfeaturegate: nothing was changed\n")


@pytest.mark.parametrize("extra", ["--yes", "--dry-run"])
def test_nobody_is_asked_where_that_is_said(cluster: ScriptedCluster, extra: str) -> None:
    """A dry run changes nothing, so there is nothing to confirm."""
    argv = ("--bootstrap-server", cluster.bootstrap, "disable", "--feature", "group.version", extra)
    code, _, err = on_a_terminal("n", *argv)
    assert (code, "Go on?" in err) == (0, False)


def test_an_upgrade_never_asks(cluster: ScriptedCluster) -> None:
    """As kafka-features never does."""
    argv = ("--bootstrap-server", cluster.bootstrap, "upgrade", "--feature", "group.version=1")
    assert "Go on?" not in on_a_terminal("n", *argv)[2]


def test_nobody_is_asked_without_a_terminal(cluster: ScriptedCluster) -> None:
    """A script must not hang, and must do as kafka-features does."""
    command = [sys.executable, "-m", "featuregate", "--bootstrap-server", cluster.bootstrap]
    done = subprocess.run(
        [*command, "disable", "--feature", "group.version"], input="n\n", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "group.version was disabled.\n", "")


# ------------------------------------------------------------------ plan


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["upgrade", "--feature", "share.version=1"], 0, "accepted: 1 update of cluster scripted"),
        (["upgrade", "--feature", "group.version=9"], 1, "Broker 1 only supports versions 0-1"),
        (["upgrade", "--feature", "kraft.version=1"], 2, "only the leader of the quorum can tell"),
        (["disable", "--feature", "group.version"], 0, "closes    kip848"),
        (["disable", "--feature", "group.version", "--gate", "mine=kip848"], 1, "affects   mine, which stays latched"),
        (["upgrade"], 64, "You must specify at least one feature to upgrade"),
        (["frob"], 64, "invalid choice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_plan_answers_by_its_exit_code(
    on: Run, cluster: ScriptedCluster, argv: list[str], code: int, words: str
) -> None:
    """And sends nothing."""
    ended = on("plan", *argv)
    assert ended.code == code
    assert words in ended.out + ended.err
    assert cluster.heard == []


def test_a_plan_asks_controllers_where_they_are_named(on: Run) -> None:
    """Beside the brokers."""
    with ScriptedCluster(1, role="controller") as quorum:
        quorum.nodes[1].supported["share.version"] = (0, 0)
        ended = on("plan", "upgrade", "--feature", "share.version=1", "--controllers", quorum.bootstrap)
    assert ended.code == 1
    assert "Local controller 1 does not support this feature." in ended.out


def latches(folder: Path, cluster_id: str) -> Path:
    """Write the file that a FileLatchStore would."""
    file = folder / f"{cluster_id}.json"
    gate = {"gate": "eos", "requirement": "group.version>=1", "opened_at": "2026-01-01T00:00:00+00:00", "epoch": 3}
    file.write_text(json.dumps({"schema_version": 1, "cluster_id": cluster_id, "levels": {}, "gates": [gate]}))
    return file


def test_latches_are_read_from_the_folder_of_an_app_or_from_a_file(on: Run, tmp_path: Path) -> None:
    """Those of this cluster count, and no others."""
    file, other = latches(tmp_path, "scripted"), latches(tmp_path, "another")
    for place, hurt in ((tmp_path, 1), (file, 1), (other, 0)):
        argv = ("plan", "disable", "--feature", "group.version", "--latches", str(place), "--output", "json")
        ended = on(*argv)
        assert len(json.loads(ended.out)["affected"]) == hurt
        assert ended.code == hurt


def test_a_place_without_latches_is_a_mistake_of_the_command_line(on: Run, tmp_path: Path) -> None:
    """Rather than be taken for an app that has latched nothing."""
    file = tmp_path / "latches.json"
    ended = on("plan", "disable", "--feature", "group.version", "--latches", str(file))
    assert (ended.code, ended.err) == (64, f"featuregate: argument --latches: {file}: No such file or directory\n")


DAMAGED = ["[]", "{", '{"schema_version": 1}', '{"schema_version": 99}']


@pytest.mark.parametrize("content", DAMAGED)
@pytest.mark.parametrize("as_folder", [True, False])
def test_invariant_11_a_latch_file_that_cannot_be_read_is_named_and_makes_the_plan_unknown(
    on: Run, tmp_path: Path, content: str, *, as_folder: bool
) -> None:
    """What it holds is unknown. A plan moves no file, or the app would lose the latches in it."""
    file = tmp_path / "scripted.json"
    file.write_text(content)
    ended = on("plan", "disable", "--feature", "group.version", "--latches", str(tmp_path if as_folder else file))
    assert ended.code == 2
    assert ended.out.startswith("unknown: 1 update of cluster scripted")
    assert f"  unread    {file}: " in ended.out
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("scripted.json", content)]


def test_a_latch_file_that_cannot_be_read_does_not_hide_the_others(on: Run, tmp_path: Path) -> None:
    """The plan names an affected app beside the file that it cannot read."""
    damaged = tmp_path / "damaged.json"
    damaged.write_text("{")
    places = ("--latches", str(damaged), "--latches", str(latches(tmp_path, "scripted")))
    ended = on("plan", "disable", "--feature", "group.version", *places, "--output", "json")
    said = json.loads(ended.out)
    assert ended.code == 1
    assert [affected["gate"] for affected in said["affected"]] == [f"eos ({tmp_path / 'scripted.json'})"]
    assert [unread["gate"] for unread in said["unread"]] == [str(damaged)]


def test_a_latch_of_a_newer_release_is_named_with_its_file(on: Run, tmp_path: Path) -> None:
    """This release cannot parse its requirement; the other latches of the file count."""
    file = latches(tmp_path, "scripted")
    file.write_text(file.read_text().replace("group.version>=1", "group.version~1"))
    ended = on("plan", "upgrade", "--feature", "share.version=1", "--latches", str(file))
    assert ended.code == 2
    assert f"  unread    eos ({file}): " in ended.out
    assert "of 'group.version~1'" in ended.out


def test_latches_of_a_cluster_without_an_id_are_unknown(on: Run, tmp_path: Path) -> None:
    """A listed broker list asks for no id, so nobody knows which latches are of this cluster."""
    place = latches(tmp_path, "scripted").parent
    ended = on("plan", "upgrade", "--feature", "share.version=1", "--latches", str(place), "--broker-list", "bootstrap")
    assert ended.code == 2
    assert f"  unread    {place}: the cluster has no id" in ended.out


# ------------------------------------------------------------------ looking up


def test_version_mapping_is_that_of_kafka_features(run: Run, drop_in: Run) -> None:
    """No cluster is needed; the version is echoed as it was typed."""
    assert run("version-mapping") == drop_in("version-mapping") == (0, MAPPING, "")
    assert run("version-mapping", "--release-version", "3.9.2").out.startswith("metadata.version=21 (3.9.2)\n")


def test_a_newer_release_is_mapped_by_us_alone(run: Run, drop_in: Run) -> None:
    """The drop-in knows 4.4 by the name of its first level, as kafka-features 4.3 does."""
    assert run("version-mapping", "--release-version", "4.4").out.startswith("metadata.version=33 (4.4)\n")
    assert drop_in("version-mapping", "--release-version", "4.4")[0] == 1
    assert drop_in("version-mapping", "--release-version", "4.4-IV0")[1].startswith("metadata.version=31 (4.4-IV0)\n")


def test_dependencies_are_those_of_kafka_features(run: Run, drop_in: Run) -> None:
    """Several, in the order in which they were asked for."""
    argv = ["feature-dependencies"]
    for level in ("eligible.leader.replicas.version=1", "metadata.version=21", " group.version = 1"):
        argv += ["--feature", level]
    out = (
        "eligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n"
        "metadata.version=21 (3.9-IV0) has no dependencies.\ngroup.version=1 has no dependencies.\n"
    )
    assert run(*argv) == drop_in(*argv) == (0, out, "")


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ("metadata.version=99", "Unknown metadata.version 99"),
        ("metadata.version=1", "Unknown metadata.version 1"),
        ("frob=1", "Unknown feature: frob"),
        ("group.version=9", "No feature:group.version with feature level 9"),
        ("group.version", "equals sign not found."),
    ],
)
def test_what_is_not_in_the_table_fails_as_in_kafka_features(run: Run, drop_in: Run, level: str, words: str) -> None:
    """Word for word."""
    ended = run("feature-dependencies", "--feature", level)
    assert ended.code == 1
    assert words in ended.err
    assert drop_in("feature-dependencies", "--feature", level)[2] == ended.err.removeprefix("featuregate: ")


def test_lookups_have_json_too(run: Run) -> None:
    """For scripts."""
    mapping = json.loads(run("version-mapping", "--release-version", "3.9", "--output", "json").out)
    assert mapping["levels"]["metadata.version"] == 21
    found = json.loads(
        run("feature-dependencies", "--feature", "eligible.leader.replicas.version=1", "--output", "json").out
    )
    assert found == [{"feature": "eligible.leader.replicas.version", "level": 1, "requires": {"metadata.version": 23}}]


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_shells_complete_the_new_commands(run: Run, shell: str) -> None:
    """With their options; for tcsh these are written without hyphens in front."""
    pytest.importorskip("shtab")
    script = run("completion", shell).out
    assert all(word in script for word in ("upgrade-all", "feature-dependencies", "release-version", "latches"))


def test_a_cluster_that_is_newer_than_the_table_is_described_all_the_same(on: Run, cluster: ScriptedCluster) -> None:
    """Levels are numbers then, and a note says why."""
    for node in cluster.nodes.values():
        node.supported |= {"metadata.version": (7, 77), "future.version": (0, 3)}
    ended = on("describe")
    assert (ended.code, "SupportedMaxVersion: UNKNOWN 77 " in ended.out) == (0, True)
    assert ended.err == (
        "featuregate: this cluster supports newer levels of future.version, metadata.version than this featuregate "
        "knows: shown as numbers\n"
    )


# ------------------------------------------------------------------ the drop-in


def test_the_drop_in_describes_as_kafka_features_does(drop_in: Run, cluster: ScriptedCluster) -> None:
    """With names of levels as far as the tool of 4.3 knows them."""
    cluster.nodes[1].supported["metadata.version"] = (1, 33)
    where = cluster.nodes[1].address
    code, out, err = drop_in("--bootstrap-server", where, "describe", "--node-id", "1")
    assert (code, err) == (0, "")
    (row,) = [line for line in out.splitlines() if "metadata.version" in line]
    assert "SupportedMinVersion: UNKNOWN 1 " in row
    assert "SupportedMaxVersion: UNKNOWN 33 " in row


def test_the_drop_in_says_what_the_java_client_would(drop_in: Run, tmp_path: Path) -> None:
    """Its last line is upstream's; ours, in front, says why."""
    code, out, err = drop_in("--bootstrap-server", "127.0.0.1:1", "describe")
    assert (code, out) == (1, "")
    ours, theirs = err.splitlines()
    assert "127.0.0.1:1: failed while connecting" in ours
    assert theirs == (
        "org.apache.kafka.common.errors.TimeoutException: "
        "Timed out waiting for a node assignment. Call: describeFeatures"
    )
    for nowhere in ("h:x", "", "localhost", "localhost:9092,localhost", "no-such-host.invalid:9092"):
        for command in (["describe"], ["upgrade", "--feature", "a=1"]):
            code, out, err = drop_in("--bootstrap-server", nowhere, *command)
            assert (code, out, err.splitlines()[1:]) == (1, "", ["Failed to create new KafkaAdminClient"])
    missing = str(tmp_path / "client.properties")
    assert drop_in("--bootstrap-server", "h:1", "--command-config", missing, "describe") == (1, "", f"{missing}\n")


def test_the_drop_in_never_says_that_nothing_was_sent_where_something_was(cluster: ScriptedCluster) -> None:
    """An update that may have been applied is told as one, where upstream has the controller's words."""

    def lose(*_: object) -> str:
        for node in cluster.nodes.values():
            node.api_ranges[18] = (0, -1)
        return HANG_UP

    cluster.says = lose
    client = Client({"bootstrap.servers": cluster.bootstrap}, read_back=0.2)
    refused = client.update(upgrade({"a": 1}), dry_run=False)
    assert refused["a"].startswith("the update may or may not have been applied: ")


@pytest.mark.parametrize("applied", [True, False])
def test_the_drop_in_prints_an_answer_that_does_not_tell_as_upstream_does(
    cluster: ScriptedCluster, capsys: pytest.CaptureFixture[str], *, applied: bool
) -> None:
    """Standard error says what the brokers show."""

    def time_out(request: object, node: object) -> UpdateFeaturesResponse:
        if applied:
            cluster.agree(request, node)  # type: ignore[arg-type]  # as it was called
        return UpdateFeaturesResponse(error_code=7)

    cluster.says = time_out
    client = Client({"bootstrap.servers": cluster.bootstrap}, read_back=20.0 if applied else 0.2)
    assert client.update(upgrade({"share.version": 7}), dry_run=False) == {"share.version": "The request timed out."}
    said = capsys.readouterr().err
    assert ("they show the new levels" if applied else "the update may or may not have been applied") in said


def test_an_answer_that_does_not_tell_is_no_failure_where_the_brokers_show_the_level(
    on: Run, cluster: ScriptedCluster
) -> None:
    """Our own command tells what is so."""

    def time_out(request: object, node: object) -> UpdateFeaturesResponse:
        cluster.agree(request, node)  # type: ignore[arg-type]  # as it was called
        return UpdateFeaturesResponse(error_code=7)

    cluster.says = time_out
    assert on("upgrade", "--feature", "share.version=7") == (
        0,
        "share.version was upgraded to 7.\n",
        "featuregate: the answer does not tell the outcome, so the brokers were asked: they show the new levels\n",
    )


def test_a_cluster_that_is_too_old_is_told_in_upstreams_words(drop_in: Run, cluster: ScriptedCluster) -> None:
    """With its name of the API."""
    for node in cluster.nodes.values():
        del node.api_ranges[57]
    _, out, _ = drop_in("--bootstrap-server", cluster.bootstrap, "upgrade", "--feature", "a=1")
    assert out == "Could not upgrade a to 1. The node does not support UPDATE_FEATURES\n"


def test_a_node_of_the_wrong_kind_is_told_in_upstreams_words(drop_in: Run, cluster: ScriptedCluster) -> None:
    """Ours, in front, say which option to use."""
    code, _, err = drop_in("--bootstrap-controller", cluster.bootstrap, "describe")
    assert code == 1
    assert "is a broker: use bootstrap.servers" in err
    assert err.endswith(
        "org.apache.kafka.common.errors.MismatchedEndpointTypeException: The request was sent to an endpoint of type "
        "BROKER, but we wanted an endpoint of type CONTROLLER\n"
    )
    with ScriptedCluster(1, role="controller") as quorum:
        err = drop_in("--bootstrap-server", quorum.bootstrap, "describe")[2]
    assert err.endswith("UnsupportedVersionException: The node does not support METADATA\n")


def test_a_node_that_is_not_there_times_out_at_once(drop_in: Run, cluster: ScriptedCluster) -> None:
    """Upstream waits for it for a minute."""
    code, _, err = drop_in("--bootstrap-server", cluster.bootstrap, "describe", "--node-id", "9")
    assert code == 1
    ours, theirs = err.splitlines()
    assert ours == "kafka-features-py: this cluster has no broker 9; its brokers are: 1, 2, 3"
    assert theirs.endswith("TimeoutException: Timed out waiting for a node assignment. Call: describeFeatures")


def test_the_drop_in_knows_nothing_of_ours(drop_in: Run) -> None:
    """Only upstream's flags."""
    for argv in (["plan"], ["upgrade-all"], ["describe", "--output", "json"], ["disable", "--yes"]):
        code, _, err = drop_in("--bootstrap-server", "h:1", *argv)
        assert (code, err.startswith("Command line error: ")) == (1, True)


def test_help_of_the_drop_in_goes_to_standard_output(drop_in: Run) -> None:
    """And is no failure."""
    code, out, err = drop_in("--help")
    assert (code, err, out.startswith("usage: kafka-features ")) == (0, "", True)


def test_the_drop_in_starts_light() -> None:
    """A lookup loads no event loop, no TLS and nothing that a configuration wants."""
    code = (
        "import sys; from featuregate.cli.kafka_features.command import main; main(['version-mapping']); "
        "print(' '.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "asyncio",
        "ssl",
        "argparse",
        "javaproperties",
        "featuregate.cli.app",
        "featuregate.cli.kafka_features.client",
    }
    assert not heavy & set(done.stderr.split())
