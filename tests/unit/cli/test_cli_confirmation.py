"""Confirmation, on a terminal and off it, of downgrades and of upgrades that cannot be taken back."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from scripted import ScriptedCluster

if TYPE_CHECKING:
    from conftest import Run

QUESTION = "Go on? [y/N] "


def on_a_terminal(cluster: ScriptedCluster, answer: str, command: str) -> tuple[int, str, str]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "featuregate", "--bootstrap-server", cluster.bootstrap, *command.split()],
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
def test_invariant_16_on_a_terminal_a_downgrade_asks_first(
    cluster: ScriptedCluster, answer: str, *, done: bool
) -> None:
    """The command shows the plan, and only yes confirms it."""
    code, out, err = on_a_terminal(cluster, answer, "downgrade --feature group.version=0")
    assert "group.version: 1 -> 0" in err
    assert "closes    kip848" in err
    assert QUESTION in err
    assert (code, len(cluster.received)) == ((0, 1) if done else (1, 0))
    assert out == ("group.version was downgraded to 0.\n" if done else "")
    assert ("nothing was changed" in err) is not done


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("upgrade --release-version 4.3", "metadata.version: 30 cannot be lowered again, and Kafka before 4.3"),
        ("upgrade --feature metadata.version=30", "metadata.version: 30 cannot be lowered again"),
        ("upgrade --feature kraft.version=1", "kraft.version: 1 cannot be lowered again, and Kafka before 3.9"),
    ],
)
@pytest.mark.parametrize(("answer", "done"), [("y", True), ("", False)])
def test_invariant_16_on_a_terminal_an_upgrade_that_cannot_be_taken_back_asks_first(
    cluster: ScriptedCluster, command: str, says: str, answer: str, *, done: bool
) -> None:
    """The plan has a line for each level that cannot be lowered again, and for the releases that do not start then."""
    cluster.apply({"metadata.version": 27, "kraft.version": 0})
    for node in cluster.nodes.values():
        node.supported["metadata.version"] = (7, 30)
    code, _, err = on_a_terminal(cluster, answer, command)
    assert f"no return  {says}" in err
    assert QUESTION in err
    assert (code, len(cluster.received)) == ((0, 1) if done else (1, 0))


@pytest.mark.parametrize(
    ("where", "refused"),
    [("localhost", True), ("localhost:1,::1", True), ("PLAINTEXT://localhost", True), ("localhost:1,[::1]:1", False)],
)
def test_a_change_does_not_guess_a_port(
    run: Run, monkeypatch: pytest.MonkeyPatch, where: str, *, refused: bool
) -> None:
    """At 9092 was another cluster than meant. A plan may look there."""
    text = "an address has no port, and at port 9092 may be another cluster: write host:port"
    command = ("downgrade", "--feature", "group.version=0", "--timeout", "1")
    assert (text in run("--bootstrap-server", where, *command).err) is refused
    monkeypatch.setenv("FEATUREGATE_BOOTSTRAP_SERVER", where)
    assert (text in run(*command).err) is refused
    assert text in run("--bootstrap-server", "localhost:1", *command, "--controllers", "localhost").err
    assert text not in run("--bootstrap-server", "localhost", "plan", *command).err


def test_the_plan_in_the_question_asks_the_controllers_that_are_named(cluster: ScriptedCluster) -> None:
    """With the security of the brokers. Without them a level that rises is unknown there."""
    cluster.apply({"metadata.version": 27})
    for node in cluster.nodes.values():
        node.supported["metadata.version"] = (7, 30)
    command = "upgrade --feature metadata.version=30"
    with ScriptedCluster(1, role="controller") as quorum:
        quorum.nodes[1].supported["metadata.version"] = (7, 29)
        _, _, unasked = on_a_terminal(cluster, "n", command)
        _, _, asked = on_a_terminal(cluster, "n", f"{command} --controllers {quorum.bootstrap}")
    said = "Local controller 1 only supports"
    assert said not in unasked
    assert said in asked
    assert "Go on? [y/N]" in asked


@pytest.mark.parametrize("is_of_another_cluster", [False, True])
def test_controllers_that_say_nothing_of_this_cluster_end_it_before_the_question(
    cluster: ScriptedCluster, *, is_of_another_cluster: bool
) -> None:
    """The error names the option, because the brokers have answered."""
    with ScriptedCluster(1, role="controller") as quorum:
        quorum.cluster_id = "another"
        where = quorum.bootstrap if is_of_another_cluster else "127.0.0.1:1"
        code, out, err = on_a_terminal(cluster, "y", f"downgrade --feature group.version=0 --controllers {where}")
    assert err.startswith("featuregate: argument --controllers: ")
    assert (code, out, QUESTION in err) == (1, "", False)
    assert not cluster.received


def test_the_end_of_input_is_no_confirmation(cluster: ScriptedCluster) -> None:
    """The next message starts on a line of its own."""
    code, _, err = on_a_terminal(cluster, "\x04", "downgrade --feature group.version=0")
    assert (code, cluster.received) == (1, [])
    assert err.endswith(f"{QUESTION}\nfeaturegate: nothing was changed\n")


@pytest.mark.parametrize(
    "command",
    [
        "disable --feature group.version --yes",
        "disable --feature group.version --dry-run",
        "upgrade --feature group.version=1",
        "upgrade --release-version 4.3 --dry-run",
        "upgrade --feature metadata.version=29",
    ],
)
def test_some_commands_need_no_confirmation(cluster: ScriptedCluster, command: str) -> None:
    """A dry run changes nothing; and a level that can be lowered again is raised without a question."""
    cluster.apply({"metadata.version": 27})
    for node in cluster.nodes.values():
        node.supported["metadata.version"] = (7, 30)
    code, _, err = on_a_terminal(cluster, "n", command)
    assert (code, QUESTION in err) == (0, False)


def test_without_a_terminal_there_is_no_question(cluster: ScriptedCluster) -> None:
    """A script must not hang, and works as with kafka-features."""
    command = [sys.executable, "-m", "featuregate", "--bootstrap-server", cluster.bootstrap]
    done = subprocess.run(
        [*command, "disable", "--feature", "group.version"], input="n\n", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "group.version was disabled.\n")
    assert "group.version=1 may be in the metadata log still: a node of Kafka before 4.0" in done.stderr
