"""The commands against fake clusters that speak the real protocol; `doctor` has a file of its own."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pytest

from featuregate.testing import FakeCluster
from featuregate.view.cluster_view import View

if TYPE_CHECKING:
    from conftest import Run, Start

    MakeCluster = Callable[..., FakeCluster]


# ---------------------------------------------------------------------- configs of brokers


@pytest.mark.parametrize(
    ("protocols", "code", "words"),
    [
        ("classic,consumer", 0, "open"),
        ("classic", 1, "has group.coordinator.rebalance.protocols=classic"),
        ("refused", 2, "does not tell group.coordinator.rebalance.protocols"),
        (None, 0, "has no config group.coordinator.rebalance.protocols (5.0 removes it, KIP-1237)"),
    ],
)
@pytest.mark.parametrize("command", ["check", "explain"])
def test_a_requirement_on_a_config_has_the_brokers_asked(
    run: Run, fake_cluster: MakeCluster, command: str, protocols: str | None, code: int, words: str
) -> None:
    """The brokers advertise the API of the new protocol whether or not it is on."""
    cluster = fake_cluster(2)
    cluster.broker(2).set(configs={} if protocols is None else {"group.coordinator.rebalance.protocols": protocols})
    if protocols == "refused":
        cluster.broker(2).error_once(31, api="DescribeConfigs")
    ended = run(command, "kip848", "--bootstrap-server", cluster.bootstrap)
    assert ended.code == code
    assert words in ended.out


# ---------------------------------------------------------------------- describe


def test_describe_shows_what_all_brokers_share(run: Run, fake_cluster: MakeCluster) -> None:
    """A note on standard error names the features that some brokers lack."""
    cluster = fake_cluster(3, release="4.2", finalized={"metadata.version": 21})
    cluster.roll(2, "3.9")
    ended = run("describe", "--bootstrap-server", cluster.bootstrap)
    assert ended.code == 0
    assert [line.split()[1] for line in ended.out.splitlines()] == ["kraft.version", "metadata.version"]
    assert "not every broker supports eligible.leader.replicas.version, group.version" in ended.err


def test_describe_with_a_node_id_asks_only_that_node(run: Run, fake_cluster: MakeCluster) -> None:
    """A broker lists the nodes; only the named one lists its features."""
    cluster = fake_cluster(3, release="4.2", finalized={"metadata.version": 21})
    cluster.roll(2, "3.9")
    ended = run("describe", "--node-id", "2", "--bootstrap-server", cluster.broker(1).address)
    assert "group.version" not in ended.out
    assert not [request for request in cluster.requests if request.broker == 3]


def test_describe_of_a_silent_node_never_falls_back_to_another(
    run: Run, fake_cluster: MakeCluster, tmp_path: Path
) -> None:
    """The command fails, although two other brokers would answer."""
    cluster = fake_cluster(3)
    cluster.broker(2).stop()
    ended = run("describe", "--node-id", "2", "--bootstrap-server", cluster.broker(1).address)
    assert (ended.code, ended.out) == (1, "")
    assert cluster.broker(2).address in ended.err


def test_describe_of_an_unknown_node_lists_the_known_ones(run: Run, fake_cluster: MakeCluster) -> None:
    """The message is one line."""
    ended = run("describe", "--node-id", "9", "--bootstrap-server", fake_cluster(3).bootstrap)
    assert ended == (1, "", "featuregate: this cluster has no broker 9; its brokers are: 1-3\n")


def test_a_bootstrap_broker_list_has_no_node_ids(run: Run, fake_cluster: MakeCluster) -> None:
    """The command does not request them."""
    argv = ("describe", "--node-id", "1", "--broker-list", "bootstrap", "--bootstrap-server", fake_cluster(1).bootstrap)
    ended = run(*argv)
    assert ended.code == 1
    assert "--broker-list bootstrap" in ended.err


def test_a_bootstrap_broker_list_needs_no_password(run: Run, fake_cluster: MakeCluster) -> None:
    """Brokers answer ApiVersions before authentication."""
    cluster = fake_cluster(2, passwords={"u": "p"})
    assert run("describe", "--broker-list", "bootstrap", "--bootstrap-server", cluster.bootstrap).code == 0


def test_describe_of_controllers(run: Run, fake_cluster: MakeCluster) -> None:
    """The option --bootstrap-controller names the controllers."""
    cluster = fake_cluster(1, controllers=1)
    ended = run("--bootstrap-controller", cluster.bootstrap_controllers, "describe")
    assert (ended.code, ended.err) == (0, "")


def test_describe_as_json_is_the_view(run: Run, fake_cluster: MakeCluster) -> None:
    """The JSON can be parsed as a view again."""
    cluster = fake_cluster(2)
    view = View.from_json(run("describe", "--output", "json", "--bootstrap-server", cluster.bootstrap).out)
    assert (view.cluster_id, len(view.answering)) == (cluster.cluster_id, 2)


# ---------------------------------------------------------------------- matrix, check


def test_matrix_exits_2_where_a_broker_is_silent(run: Run, fake_cluster: MakeCluster) -> None:
    """The last line names the broker and the cause."""
    cluster = fake_cluster(3)
    cluster.broker(3).stop()
    ended = run("matrix", "--bootstrap-server", cluster.bootstrap)
    assert ended.code == 2
    assert f"no answer: broker 3 ({cluster.broker(3).address}): " in ended.out


def test_matrix_as_json(run: Run, fake_cluster: MakeCluster) -> None:
    """The JSON has the values of each broker by its id."""
    cluster = fake_cluster(2, release="4.2", finalized={"metadata.version": 21})
    cluster.roll(2, "3.9")
    rows = json.loads(run("matrix", "--output", "json", "--bootstrap-server", cluster.bootstrap).out)["rows"]
    (row,) = [row for row in rows if (row["kind"], row["name"]) == ("supported", "group.version")]
    assert row["brokers"] == {"1": [0, 1], "2": None}


@pytest.mark.parametrize(("requirement", "code"), [("kip447", 0), ("kip848", 1)])
def test_check_answers_by_its_exit_code(run: Run, fake_cluster: MakeCluster, requirement: str, code: int) -> None:
    """Kafka 3.9 meets kip447, and does not yet meet kip848."""
    cluster = fake_cluster(2, release="3.9")
    ended = run("check", requirement, "--bootstrap-server", cluster.bootstrap)
    assert ended.code == code
    assert ended.out.startswith("closed" if code else "open")


def test_invariant_3_check_is_unknown_while_a_broker_is_silent(run: Run, fake_cluster: MakeCluster) -> None:
    """A requirement on APIs needs the answer of every broker."""
    cluster = fake_cluster(3)
    cluster.broker(3).stop()
    ended = run("check", "kip447", "--bootstrap-server", cluster.bootstrap)
    assert ended.code == 2
    assert f"broker 3 ({cluster.broker(3).address}) did not answer" in ended.out


def test_check_without_any_answer_is_unknown(run: Run) -> None:
    """The reasons name each address and its cause."""
    ended = run("check", "kip447", "--output", "json", "--bootstrap-server", "127.0.0.1:1")
    decision = json.loads(ended.out)
    assert (ended.code, decision["verdict"], decision["open"]) == (2, "unknown", False)
    assert decision["reasons"][0]["address"] == "127.0.0.1:1"


def test_check_waits_until_the_requirement_is_met(start: Start, fake_cluster: MakeCluster) -> None:
    """The cluster finalizes the level during the wait."""
    cluster = fake_cluster(2, release="4.2", finalized={"metadata.version": 29})
    process = start("check", "kip848", "--wait", "300", "--bootstrap-server", cluster.bootstrap)
    assert cluster.wait_for(lambda requests: len(requests) > 3, timeout=60)
    cluster.finalize({"group.version": 1})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("open: group.version>=1")


def test_the_wait_of_check_is_bounded(run: Run, fake_cluster: MakeCluster) -> None:
    """The last decision counts when the time is over."""
    cluster = fake_cluster(1, release="3.9")
    assert run("check", "kip848", "--wait", "0.1", "--bootstrap-server", cluster.bootstrap).code == 1


def test_explain_checks_a_preset_on_a_cluster(run: Run, fake_cluster: MakeCluster) -> None:
    """The exit codes are those of check."""
    cluster = fake_cluster(1, release="3.9")
    ended = run("explain", "kip848", "--output", "json", "--bootstrap-server", cluster.bootstrap)
    explained = json.loads(ended.out)
    assert (ended.code, explained["name"], explained["decision"]["verdict"]) == (1, "kip848", "closed")


# ---------------------------------------------------------------------- watch


def test_watch_prints_a_gate_that_opens(start: Start, fake_cluster: MakeCluster) -> None:
    """Each line is a JSON object, until Ctrl-C."""
    cluster = fake_cluster(2, release="4.2", finalized={"metadata.version": 29})
    gates = ("--gate", "next=kip848", "--gate", "eos=kip447")
    where = ("--interval", "0.2", "--output", "json", "--bootstrap-server", cluster.bootstrap)
    process = start("watch", *gates, *where)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["kind"] == "start"
    seen = [json.loads(process.stdout.readline()) for _ in gates[::2]]
    assert {line["gate"]: line["open"] for line in seen} == {"next": False, "eos": True}
    cluster.finalize({"group.version": 1})
    level, *_, gate = _lines_until(process.stdout, "gate")
    assert (level["kind"], level["what"], level["subject"]) == ("change", "level", "group.version")
    assert (gate["gate"], gate["open"]) == ("next", True)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert re.fullmatch(r"featuregate: watched for \d+ s: \d+ polls, \d+ changes; gate next open; gate eos open\n", err)


def _lines_until(stream: TextIO, kind: str) -> list[dict[str, Any]]:
    """Read the lines up to the first of this kind."""
    lines = [json.loads(stream.readline())]
    while lines[-1]["kind"] != kind:
        lines.append(json.loads(stream.readline()))
    return lines


def test_watch_ends_after_its_duration(run: Run, fake_cluster: MakeCluster) -> None:
    """The command prints a summary; on a busy machine no poll may have ended by then."""
    ended = run("watch", "--for", "0.5", "--bootstrap-server", fake_cluster(1).bootstrap)
    assert ended.code in {0, 2}
    assert ended.err.startswith("featuregate: watched for ")


# ---------------------------------------------------------------------- matrix on a terminal


@pytest.mark.parametrize(("environment", "colour"), [({"TERM": "xterm"}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_colour_without_no_color(
    fake_cluster: MakeCluster, *, environment: dict[str, str], colour: bool
) -> None:
    """The words are the same with and without colour."""
    pytest.importorskip("rich")
    cluster = fake_cluster(2, release="4.2", finalized={"metadata.version": 21})
    cluster.roll(2, "3.9")
    ours, theirs = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"COLUMNS": "150"}
    command = [sys.executable, "-m", "featuregate", "matrix", "--bootstrap-server", cluster.bootstrap]
    with subprocess.Popen(command, stdout=theirs, env={**environ, **environment}) as process:
        os.close(theirs)
        output = b""
        while chunk := _read(ours):
            output += chunk
    os.close(ours)
    assert process.returncode == 0
    assert (b"\x1b[" in output) is colour
    assert b"group.version *" in output


def _read(terminal: int) -> bytes:
    """Read from a terminal; on Linux its end is an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
