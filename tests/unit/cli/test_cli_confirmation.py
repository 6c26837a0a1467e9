"""Confirmation of downgrades on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from scripted import ScriptedCluster

QUESTION = "Go on? [y/N] "


def on_a_terminal(cluster: ScriptedCluster, answer: str, command: str) -> tuple[int, str, str]:
    """Run a command whose standard input is a terminal, and type an answer."""
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
    ],
)
def test_some_commands_need_no_confirmation(cluster: ScriptedCluster, command: str) -> None:
    """A dry run changes nothing, and kafka-features never asks before an upgrade."""
    code, _, err = on_a_terminal(cluster, "n", command)
    assert (code, QUESTION in err) == (0, False)


def test_without_a_terminal_there_is_no_question(cluster: ScriptedCluster) -> None:
    """A script must not hang, and works as with kafka-features."""
    command = [sys.executable, "-m", "featuregate", "--bootstrap-server", cluster.bootstrap]
    done = subprocess.run(
        [*command, "disable", "--feature", "group.version"], input="n\n", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "group.version was disabled.\n", "")
