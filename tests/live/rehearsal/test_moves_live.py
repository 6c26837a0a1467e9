"""Moves that are carried out in small, with real brokers, as a user starts them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rehearsing import rehearse

pytestmark = [pytest.mark.proof("testing"), pytest.mark.live, pytest.mark.slow]


def test_nodes_move_first_and_levels_follow_what_can_be_lowered_before_the_rest(tmp_path: Path) -> None:
    """The runbook says from where there is no way back. What it needs is said before it begins."""
    done = rehearse(tmp_path, "--from", "3.9.2", "--to", "4.2.0", "--nodes", "1")
    assert done.code == 0, done.printed
    assert "MB of memory" in done.printed.partition("...")[0]
    assert done.names[0] == "Node 1: 3.9.2 -> 4.2.0"
    moved = [name.partition(":")[0] for name in done.names[1:]]
    assert set(moved[:-2]) >= {"group.version", "transaction.version"}
    assert moved[-2:] == ["metadata.version", "eligible.leader.replicas.version"]  # the second one needs the first
    assert "cannot be lowered below" in done.runbook["steps"][-2]["way_back"]


def test_brokers_with_zookeeper_move_and_then_their_protocol(tmp_path: Path) -> None:
    """Each broker is restarted twice."""
    done = rehearse(tmp_path, "--from", "2.8.2", "--to", "3.9.2", "--nodes", "1")
    assert done.code == 0, done.printed
    assert done.names == ["Node 1: 2.8.2 -> 3.9.2", "Node 1: inter.broker.protocol.version=3.9"]


@pytest.mark.parametrize("changed", [True, False], ids=["2 in the properties of brokers", "Kafka's default"])
def test_a_value_that_a_level_lowers_is_found(tmp_path: Path, *, changed: bool) -> None:
    """The controller writes its own min.insync.replicas over that of brokers, once it tracks eligible leaders."""
    settings = tmp_path / "server.properties"
    settings.write_text("min.insync.replicas=2\nlog.retention.hours=99\n" if changed else "log.retention.hours=99\n")
    where = ("--properties", str(settings), "--nodes", "2", "--controllers", "1")
    done = rehearse(tmp_path, "--from", "4.0.0", "--to", "4.2.0", *where)
    assert done.code == int(changed), done.printed
    lowered = [text for text in done.said("block") if "min.insync.replicas" in text]
    assert bool(lowered) is changed
    assert not any("log.retention.hours" in text for text in (*done.said("block"), *done.said("warn")))


def test_a_second_start_with_the_same_folder_goes_on(tmp_path: Path) -> None:
    """The steps of the first hop are not carried out again."""
    move = ("--from", "3.9.2", "--via", "4.0.0", "--to", "4.2.0", "--nodes", "1")
    command = [sys.executable, "-m", "featuregate", "rehearse", "--folder", str(tmp_path), *move]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "Node 1: 4.0.0 -> 4.2.0 ..." in line)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    done = rehearse(tmp_path, *move)
    assert done.code == 0, done.printed
    assert "goes on from there" in done.printed
    assert "Node 1: 3.9.2 -> 4.0.0 (" not in done.printed
    assert done.names[0] == "Node 1: 3.9.2 -> 4.0.0"
    assert {"Node 1: 4.0.0 -> 4.2.0", "metadata.version: 4.0-IV3 -> 4.2-IV1"} <= {*done.names}
    assert len(done.names) == len({*done.names})


def test_the_way_back_ends_at_the_first_level_that_does_not_go_down(tmp_path: Path) -> None:
    """Old software starts after each step before it, once a snapshot is without the level."""
    done = rehearse(tmp_path, "--from", "3.9.2", "--to", "4.2.0", "--nodes", "1", "--step-timeout", "60", "--back")
    assert done.code == 0, done.printed
    back = {step["name"].partition(":")[0]: step["back"]["text"] for step in done.runbook["steps"]}
    for step in ("Node 1", "transaction.version", "group.version"):
        assert back[step].startswith("the way back was tried, and took"), done.printed
    assert back["metadata.version"].startswith("no return from here: ")
    assert "not tried" in back["eligible.leader.replicas.version"]
