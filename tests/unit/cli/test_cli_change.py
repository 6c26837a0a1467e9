"""The commands that change finalized levels."""

from __future__ import annotations

import json
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from scripted import HANG_UP, ScriptedCluster

from featuregate.wire.in_use import ListedGroup, ListGroupsResponse
from featuregate.wire.update_features import FeatureResult, UpdateFeaturesResponse, UpgradeType

if TYPE_CHECKING:
    from conftest import Run, Start

REFUSED = UpdateFeaturesResponse(error_code=95, error_message="no, because")
DEPRECATION = " `metadata` flag is deprecated and may be removed in a future release.\n"


def by_words(value: object) -> str | None:
    """Name an argument list by its words, and lines by the first of them: mutmut finds no test by a line break."""
    if isinstance(value, list):
        return " ".join(value)
    return value.splitlines()[0] if isinstance(value, str) and value else None


# ------------------------------------------------------------------ output


@pytest.mark.parametrize(
    ("argv", "out"),
    [
        (["upgrade", "--feature", "b=2", "--feature", "a=1"], "a was upgraded to 1.\nb was upgraded to 2.\n"),
        (["upgrade", "--feature", "a=1", "--dry-run"], "a can be upgraded to 1.\n"),
        (["downgrade", "--feature", "a=1"], "a was downgraded to 1.\n"),
        (["downgrade", "--feature", "a=1", "--dry-run", "--unsafe"], "a can be downgraded to 1.\n"),
        (["disable", "--feature", "b", "--feature", "a"], "a was disabled.\nb was disabled.\n"),
        (["disable", "--feature", "a", "--dry-run"], "a can be disabled.\n"),
        (["upgrade", "--metadata", "3.9"], f"{DEPRECATION}metadata.version was upgraded to 21.\n"),
    ],
    ids=by_words,
)
def test_output_of_a_change_is_that_of_kafka_features(on: Run, argv: list[str], out: str) -> None:
    """The output has a line for each feature, sorted by name."""
    assert on(*argv) == (0, out, "")


def test_an_update_is_one_request_with_every_kind_of_change(on: Run, cluster: ScriptedCluster) -> None:
    """From 4.0 on the controller applies all of it or nothing."""
    words = ("update", "--delete", "c", "--upgrade", "a=2", "--downgrade", "b=1", "--upgrade", "d=1")
    assert on(*words) == (
        0,
        "a was upgraded to 2.\nb was downgraded to 1.\nc was disabled.\nd was upgraded to 1.\n",
        "",
    )
    (received,) = cluster.received
    sent = [
        (each.feature, each.max_version_level, UpgradeType(each.upgrade_type).name) for each in received.request.updates
    ]
    assert sent == [("a", 2, "UPGRADE"), ("d", 1, "UPGRADE"), ("b", 1, "SAFE_DOWNGRADE"), ("c", 0, "SAFE_DOWNGRADE")]
    cluster.says = lambda *_: REFUSED
    code, out, err = on(*words, "--dry-run", "--unsafe")
    assert (code, out.splitlines()[2]) == (1, "Can not disable c. no, because")
    assert err.endswith("4 out of 4 operation(s) failed.\n")
    assert cluster.received[-1].request.updates[-1].upgrade_type == UpgradeType.UNSAFE_DOWNGRADE


@pytest.mark.parametrize(
    ("argv", "words", "code"),
    [
        (["update"], "You must specify at least one feature to update", 1),
        (["update", "--upgrade", "a=1", "--delete", "a"], "Feature a was specified more than once.", 1),
        (["update", "--upgrade", "a"], "Can't parse feature=level string a", 1),
        (["plan", "update", "--upgrade", "a=1", "--feature", "b=1"], "update does not take --feature", 64),
        (["plan", "upgrade", "--delete", "a"], "upgrade does not take --delete", 64),
        (["plan", "upgrade", "--feature", "a=1", "--unsafe"], "upgrade does not take --unsafe", 64),
        (["plan", "disable", "--release-version", "4.1"], "disable does not take --release-version", 64),
        (["plan", "disable", "--metadata", "4.1"], "disable does not take --metadata", 64),
        (["plan", "update"], "You must specify at least one feature to update", 64),
    ],
    ids=by_words,
)
def test_an_update_that_names_nothing_or_too_much_is_not_sent(
    on: Run, cluster: ScriptedCluster, argv: list[str], words: str, code: int
) -> None:
    """Each verb has its options."""
    ended = on(*argv)
    assert (ended.code, cluster.received) == (code, [])
    assert words in ended.err


def test_a_plan_of_an_update_has_every_change(on: Run, cluster: ScriptedCluster) -> None:
    """A level may depend on another one of the request."""
    cluster.apply({"share.version": 1, "group.version": 1})
    ended = on("plan", "update", "--upgrade", "transaction.version=2", "--delete", "share.version")
    assert "2 updates of cluster scripted, epoch" in ended.out
    assert "all or nothing" in ended.out
    assert "closes    kip932" in ended.out


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["upgrade", "--feature", "a=1"], "Could not upgrade a to 1. no, because"),
        (["upgrade", "--feature", "a=1", "--dry-run"], "Can not upgrade a to 1. no, because"),
        (["downgrade", "--feature", "a=1"], "Could not downgrade a to 1. no, because"),
        (["disable", "--feature", "a"], "Could not disable a. no, because"),
        (["disable", "--feature", "a", "--dry-run"], "Can not disable a. no, because"),
    ],
    ids=by_words,
)
def test_refused_features_are_printed_with_the_message_of_the_controller(
    on: Run, cluster: ScriptedCluster, argv: list[str], line: str
) -> None:
    """Standard output has a line for each, and standard error has their number."""
    cluster.says = lambda *_: REFUSED
    count = "1 out of 1 operation(s) failed.\n"
    assert on(*argv) == (1, f"{line}\n", f"featuregate: {count}")


def test_clusters_before_4_0_decide_feature_by_feature(on: Run, cluster: ScriptedCluster) -> None:
    """The output shows which feature was changed."""
    cluster.speak(0, 1)
    results = (FeatureResult(feature="a"), FeatureResult(feature="b", error_code=95, error_message="no"))
    cluster.says = lambda *_: UpdateFeaturesResponse(results=results)
    assert on("upgrade", "--feature", "a=1", "--feature", "b=2") == (
        1,
        "a was upgraded to 1.\nCould not upgrade b to 2. no\n",
        "featuregate: 1 out of 2 operation(s) failed.\n",
    )


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
        (["upgrade", "--release-version", "9.9"], "Unknown release or metadata.version '9.9': releases 3.3 to 4.4 are"),
        (["downgrade", "--metadata", "3.0-IV1"], "Unknown release or metadata.version '3.0-IV1': releases"),
    ],
    ids=by_words,
)
def test_invalid_updates_fail_with_1_and_are_not_sent(
    on: Run, cluster: ScriptedCluster, argv: list[str], words: str
) -> None:
    """With the error message of kafka-features."""
    ended = on(*argv)
    assert ended.code == 1
    assert ended.err.startswith("featuregate: ")
    assert words in ended.err
    assert cluster.received == []


def test_levels_of_metadata_version_may_be_names(on: Run, cluster: ScriptedCluster) -> None:
    """Updates, plans, lookups and requirements accept the names."""
    assert on("upgrade", "--feature", "metadata.version=3.3-IV3") == (0, "metadata.version was upgraded to 7.\n", "")
    assert on("downgrade", "--feature", "metadata.version = 4.2-IV0", "--yes").code == 0
    assert [received.request.updates[0].max_version_level for received in cluster.received] == [7, 28]
    plan = on("plan", "downgrade", "--feature", "metadata.version=4.1-IV1")
    assert "metadata.version: 28 (4.2-IV0) -> 27 (4.1-IV1)" in plan.out
    assert on("feature-dependencies", "--feature", "metadata.version=3.9-IV0").out == (
        "metadata.version=21 (3.9-IV0) has no dependencies.\n"
    )
    assert on("check", "metadata.version>=4.2-IV0").code == 0
    assert on("check", "metadata.version>=4.2-IV1").code == 1


@pytest.mark.parametrize("argv", [["upgrade"], ["downgrade"], ["plan", "upgrade"], ["feature-dependencies"]])
def test_an_unknown_level_name_is_one_line_with_similar_names(
    on: Run, cluster: ScriptedCluster, argv: list[str]
) -> None:
    """The command sends no update."""
    ended = on(*argv, "--feature", "metadata.version=3.3-IV7")
    assert ended.err == (
        "featuregate: Can't parse feature=level string metadata.version=3.3-IV7: no metadata.version is called "
        "'3.3-IV7'; did you mean 3.3-IV3 or 3.3-IV2 or 3.3-IV1? (write the number of a newer one)\n"
    )
    assert (ended.code, cluster.received) == (64 if argv[0] == "plan" else 1, [])


def test_json_holds_the_whole_outcome(on: Run, cluster: ScriptedCluster) -> None:
    """Standard output holds nothing else."""
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
                "before": 29,
                "before_min": None,
                "level": 21,
                "change": "downgrade",
                "upgrade_type": "safe_downgrade",
                "done": False,
                "error": {"code": 95, "name": "INVALID_UPDATE_VERSION", "message": "no, because"},
            }
        ],
        "left_out": [],
    }
    assert ended.code == 1


def test_messages_of_a_controller_cannot_steer_a_terminal(on: Run, cluster: ScriptedCluster) -> None:
    """The command escapes control characters."""
    cluster.says = lambda *_: UpdateFeaturesResponse(error_code=95, error_message="\x1b[2Jgone\nand more")
    assert on("upgrade", "--feature", "a=1").out == "Could not upgrade a to 1. \\x1b[2Jgone\\x0aand more\n"


def test_a_script_that_lowers_a_level_learns_who_uses_it(on: Run, cluster: ScriptedCluster) -> None:
    """As the plan says it, which nobody is shown without a terminal."""
    group = ListedGroup(group_id="orders", protocol_type="", group_state="Stable", group_type="consumer")
    cluster.lists = lambda *_: ListGroupsResponse(groups=(group,))
    cluster.apply({"group.version": 1})
    ended = on("disable", "--feature", "group.version")
    assert "consumer group with members need group.version, and their next heartbeat fails: orders" in ended.err
    assert ended.out == "group.version was disabled.\n"


# ------------------------------------------------------------------ advice


@pytest.mark.parametrize("command", ["upgrade", "plan upgrade"])
def test_a_misspelt_feature_gets_a_suggestion(on: Run, cluster: ScriptedCluster, command: str) -> None:
    """The controller reports only that no node supports the feature."""
    cluster.says = lambda *_: REFUSED
    ended = on(*command.split(), "--feature", "grup.version=1")
    assert ended.code == 1
    assert "did you mean group.version" in (ended.out + ended.err).lower()


def test_a_name_without_similar_names_gets_no_suggestion(on: Run, cluster: ScriptedCluster) -> None:
    """The command prints the same standard error as kafka-features."""
    cluster.says = lambda *_: REFUSED
    assert on("upgrade", "--feature", "bogus=1").err == "featuregate: 1 out of 1 operation(s) failed.\n"


def test_a_missing_right_is_named(on: Run, cluster: ScriptedCluster) -> None:
    """Without the dump of the request that Kafka's message begins with: it is 400 characters long."""
    dump = "Request(processor=0, connectionId=127.0.0.1:1-127.0.0.1:2-0-3, session=Session(User:app,/127.0.0.1))"
    said = UpdateFeaturesResponse(error_code=31, error_message=f"Request {dump} needs ALTER permission.")
    cluster.says = lambda *_: said
    ended = on("upgrade", "--feature", "group.version=1")
    assert ended.out == "Could not upgrade group.version to 1. Request needs ALTER permission.\n"
    assert ended.err == (
        "featuregate: 1 out of 1 operation(s) failed. A dry run and a change need ALTER on the cluster, "
        "which this user does not have.\n"
    )


def test_nodes_of_the_wrong_kind_are_reported_once(run: Run) -> None:
    """One line names the right option, however many addresses there are."""
    with ScriptedCluster(3, role="controller") as quorum:
        ended = run("upgrade", "--feature", "a=1", "--bootstrap-server", quorum.bootstrap)
    assert (ended.code, ended.err.count("is a controller")) == (1, 1)
    assert ended.err.endswith("use bootstrap.controllers, or --bootstrap-controller\n")


def test_a_bootstrap_broker_list_is_refused(on: Run, cluster: ScriptedCluster) -> None:
    """The list does not say which node is the controller."""
    assert on("upgrade", "--feature", "a=1", "--broker-list", "bootstrap").code == 1
    assert cluster.received == []


# ------------------------------------------------------------------ after the request


@pytest.mark.parametrize("answer", [HANG_UP, UpdateFeaturesResponse(error_code=7)])
def test_the_outcome_is_read_back_where_the_answer_does_not_tell(
    on: Run, cluster: ScriptedCluster, answer: object
) -> None:
    """The answer was lost, or the controller timed out."""

    def apply_and_answer(request: object, node: object) -> object:
        cluster.agree(request, node)  # type: ignore[arg-type]  # as it was called
        return answer

    cluster.says = apply_and_answer
    argv = ("upgrade", "--feature", "share.version=5")
    message = (
        "featuregate: the answer does not say the outcome, so the brokers were asked: they report the new levels\n"
    )
    assert on(*argv) == (0, "share.version was upgraded to 5.\n", message)
    assert json.loads(on(*argv, "--output", "json").out)["read_back"] is True


def test_wait_ends_when_every_broker_shows_the_levels(on: Run, cluster: ScriptedCluster) -> None:
    """The command waits for the last broker."""
    assert on("upgrade", "--feature", "share.version=1", "--wait", "30").code == 0
    assert {node.finalized["share.version"] for node in cluster.nodes.values()} == {1}


def test_wait_names_the_brokers_that_do_not_show_the_levels(on: Run, cluster: ScriptedCluster) -> None:
    """The message says that the update was applied."""
    cluster.says = lambda *_: UpdateFeaturesResponse()
    ended = on("upgrade", "--feature", "share.version=9", "--wait", "0.2")
    assert (ended.code, ended.out) == (1, "share.version was upgraded to 9.\n")
    assert "the update was applied, but not every broker shows it within 0.2 s: broker 1 " in ended.err


def test_wait_reports_brokers_that_stop_answering(on: Run, cluster: ScriptedCluster) -> None:
    """The message follows the line that the update was applied."""

    def agree_and_stop(*_: object) -> UpdateFeaturesResponse:
        cluster.refuse_clients()
        return UpdateFeaturesResponse()

    cluster.says = agree_and_stop
    ended = on("upgrade", "--feature", "share.version=1", "--wait", "0.3")
    assert (ended.code, ended.out) == (1, "share.version was upgraded to 1.\n")
    assert ended.err.startswith("featuregate: the update was applied, but no broker answered: ")


def test_ctrl_c_during_the_wait_says_that_the_update_was_applied(start: Start, cluster: ScriptedCluster) -> None:
    """Ctrl-C interrupts only the wait."""
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
