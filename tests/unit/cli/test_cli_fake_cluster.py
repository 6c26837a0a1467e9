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
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

import pytest
from transcripts import replayed, sections

from featuregate.testing import FakeCluster
from featuregate.view.cluster_view import View

if TYPE_CHECKING:
    from conftest import Run, Start

    MakeCluster = Callable[..., FakeCluster]


def rolling(made: MakeCluster) -> FakeCluster:
    cluster = made(3, release="4.2", finalized={"metadata.version": 21})
    cluster.roll(2, "3.9")
    return cluster


def with_protocols(text: str | None) -> Callable[[MakeCluster], FakeCluster]:
    """Let the brokers advertise the API of the new protocol, and the second one have this config."""

    def cluster(made: MakeCluster) -> FakeCluster:
        cluster = made(2)
        cluster.broker(2).set(configs={} if text is None else {"group.coordinator.rebalance.protocols": text})
        return cluster

    return cluster


def refusing(made: MakeCluster) -> FakeCluster:
    cluster = with_protocols("classic")(made)
    for _ in range(2):
        cluster.broker(2).error_once(31, api="DescribeConfigs")
    return cluster


def one_down(made: MakeCluster) -> FakeCluster:
    cluster = made(3)
    cluster.broker(3).stop()
    return cluster


def unreachable(made: MakeCluster) -> FakeCluster:
    """Advertise an address at which nobody listens, as a broker in a container may: the best-known trap."""
    cluster = made(1)
    cluster.broker(1).node = replace(cluster.broker(1).node, host="127.0.0.2")
    return cluster


def not_kafka(made: MakeCluster) -> FakeCluster:
    cluster = made(1)
    cluster.broker(1).garbage_once(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    return cluster


CLUSTERS: dict[str, Callable[[MakeCluster], FakeCluster]] = {
    "a config that all brokers have": with_protocols("classic,consumer"),
    "a config that one broker lacks": with_protocols("classic"),
    "a config that one broker does not tell": refusing,
    "a config that is not there": with_protocols(None),
    "describe shows what all brokers share": rolling,
    # brokers answer ApiVersions before authentication
    "a bootstrap broker list needs no password": lambda made: made(2, passwords={"u": "p"}),
    "describe of controllers": lambda made: made(1, controllers=1),
    "matrix where a broker is silent": one_down,
    "3.9": lambda made: made(2, release="3.9"),
    "no broker answers": one_down,
    "it lists an address that no client reaches": unreachable,
    "it is not Kafka": not_kafka,
}
SESSIONS = sections(__file__, "fake_cluster.txt")


@pytest.mark.parametrize("scene", SESSIONS)
def test_a_session_with_a_cluster_is_as_kept(run: Run, fake_cluster: MakeCluster, scene: str) -> None:
    cluster = CLUSTERS[scene](fake_cluster)
    named = {
        "BOOTSTRAP": cluster.bootstrap,
        "CONTROLLERS": cluster.bootstrap_controllers or "none",
        "CLUSTER": cluster.cluster_id,
    }
    assert replayed(SESSIONS[scene], run, named, list) == SESSIONS[scene]


# ---------------------------------------------------------------------- describe, matrix, check


def test_describe_as_json_is_the_view(run: Run, fake_cluster: MakeCluster) -> None:
    cluster = fake_cluster(2)
    view = View.from_json(run("describe", "--output", "json", "--bootstrap-server", cluster.bootstrap).out)
    assert (view.cluster_id, len(view.answering)) == (cluster.cluster_id, 2)


def test_matrix_as_json(run: Run, fake_cluster: MakeCluster) -> None:
    cluster = fake_cluster(2, release="4.2", finalized={"metadata.version": 21})
    cluster.roll(2, "3.9")
    rows = json.loads(run("matrix", "--output", "json", "--bootstrap-server", cluster.bootstrap).out)["rows"]
    (row,) = [row for row in rows if (row["kind"], row["name"]) == ("supported", "group.version")]
    assert row["brokers"] == {"1": [0, 1], "2": None}


def test_check_waits_until_the_requirement_is_met(start: Start, fake_cluster: MakeCluster) -> None:
    cluster = fake_cluster(2, release="4.2", finalized={"metadata.version": 29})
    process = start("check", "kip848", "--wait", "300", "--bootstrap-server", cluster.bootstrap)
    assert cluster.wait_for(lambda requests: len(requests) > 3, timeout=60)
    cluster.finalize({"group.version": 1})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("open: group.version>=1")


# ---------------------------------------------------------------------- watch


def test_watch_prints_a_gate_that_opens(start: Start, fake_cluster: MakeCluster) -> None:
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
