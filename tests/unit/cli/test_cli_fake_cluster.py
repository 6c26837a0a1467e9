"""The commands against fake clusters that speak the real protocol."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import ssl
import subprocess
import sys
from typing import TYPE_CHECKING, Any, TextIO

import pytest
from trustme import CA

from featuregate.view.cluster_view import View

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Run, Start

    from featuregate.testing import FakeCluster

    MakeCluster = Callable[..., FakeCluster]


def codes(out: str) -> dict[str, str]:
    """Read doctor's JSON: codes, and their severities."""
    return {finding["code"]: finding["severity"] for finding in json.loads(out)["findings"]}


# ---------------------------------------------------------------------- describe


def test_describe_shows_what_all_brokers_share(run: Run, fake_cluster: MakeCluster) -> None:
    """And says on standard error that they differ."""
    cluster = fake_cluster(3, release="4.2")
    cluster.broker(2).upgrade("3.9")
    ended = run("describe", "--bootstrap-server", cluster.bootstrap)
    assert ended.code == 0
    assert [line.split()[1] for line in ended.out.splitlines()] == ["kraft.version", "metadata.version"]
    assert "not every broker supports eligible.leader.replicas.version, group.version" in ended.err


def test_describe_asks_the_node_of_the_id_and_no_other(run: Run, fake_cluster: MakeCluster) -> None:
    """A broker names the others, and only the one that was asked for tells its features."""
    cluster = fake_cluster(3, release="4.2")
    cluster.broker(2).upgrade("3.9")
    ended = run("describe", "--node-id", "2", "--bootstrap-server", cluster.broker(1).address)
    assert "group.version" not in ended.out
    assert not [asked for asked in cluster.requests if asked.broker == 3]


def test_describe_of_a_silent_node_never_falls_back_to_another(
    run: Run, fake_cluster: MakeCluster, tmp_path: Path
) -> None:
    """It fails, though two others would answer."""
    cluster = fake_cluster(3)
    cluster.broker(2).stop()
    ended = run("describe", "--node-id", "2", "--bootstrap-server", cluster.broker(1).address)
    assert (ended.code, ended.out) == (1, "")
    assert cluster.broker(2).address in ended.err


def test_describe_of_a_node_that_does_not_exist_names_those_that_do(run: Run, fake_cluster: MakeCluster) -> None:
    """One line."""
    ended = run("describe", "--node-id", "9", "--bootstrap-server", fake_cluster(3).bootstrap)
    assert ended == (1, "", "featuregate: this cluster has no broker 9; its brokers are: 1, 2, 3\n")


def test_a_listed_roster_has_no_node_ids(run: Run, fake_cluster: MakeCluster) -> None:
    """Nobody was asked for them."""
    argv = ("describe", "--node-id", "1", "--broker-list", "bootstrap", "--bootstrap-server", fake_cluster(1).bootstrap)
    ended = run(*argv)
    assert ended.code == 1
    assert "--broker-list bootstrap" in ended.err


def test_a_listed_roster_needs_no_password(run: Run, fake_cluster: MakeCluster) -> None:
    """ApiVersions is answered before authentication."""
    cluster = fake_cluster(2, passwords={"u": "p"})
    assert run("describe", "--broker-list", "bootstrap", "--bootstrap-server", cluster.bootstrap).code == 0


def test_describe_of_controllers(run: Run, fake_cluster: MakeCluster) -> None:
    """With the other option."""
    cluster = fake_cluster(1, controllers=1)
    ended = run("--bootstrap-controller", cluster.bootstrap_controllers, "describe")
    assert (ended.code, ended.err) == (0, "")


def test_describe_as_json_is_the_view(run: Run, fake_cluster: MakeCluster) -> None:
    """It can be read back."""
    cluster = fake_cluster(2)
    view = View.from_json(run("describe", "--output", "json", "--bootstrap-server", cluster.bootstrap).out)
    assert (view.cluster_id, len(view.answering)) == (cluster.cluster_id, 2)


# ---------------------------------------------------------------------- matrix, check


def test_matrix_exits_2_where_a_broker_is_silent(run: Run, fake_cluster: MakeCluster) -> None:
    """And names it with the reason."""
    cluster = fake_cluster(3)
    cluster.broker(3).stop()
    ended = run("matrix", "--bootstrap-server", cluster.bootstrap)
    assert ended.code == 2
    assert f"no answer: broker 3 ({cluster.broker(3).address}): " in ended.out


def test_matrix_as_json(run: Run, fake_cluster: MakeCluster) -> None:
    """Every broker by its id."""
    cluster = fake_cluster(2, release="4.2")
    cluster.broker(2).upgrade("3.9")
    rows = json.loads(run("matrix", "--output", "json", "--bootstrap-server", cluster.bootstrap).out)["rows"]
    (row,) = [row for row in rows if (row["kind"], row["name"]) == ("supported", "group.version")]
    assert row["brokers"] == {"1": [0, 1], "2": None}


@pytest.mark.parametrize(("requirement", "code"), [("kip447", 0), ("kip848", 1)])
def test_check_answers_by_its_exit_code(run: Run, fake_cluster: MakeCluster, requirement: str, code: int) -> None:
    """On 3.9 there is the one, and not yet the other."""
    cluster = fake_cluster(2, release="3.9")
    ended = run("check", requirement, "--bootstrap-server", cluster.bootstrap)
    assert ended.code == code
    assert ended.out.startswith("closed" if code else "open")


def test_invariant_3_check_is_unknown_while_a_broker_is_silent(run: Run, fake_cluster: MakeCluster) -> None:
    """One is enough for APIs."""
    cluster = fake_cluster(3)
    cluster.broker(3).stop()
    ended = run("check", "kip447", "--bootstrap-server", cluster.bootstrap)
    assert ended.code == 2
    assert f"broker 3 ({cluster.broker(3).address}) did not answer" in ended.out


def test_check_where_nobody_answers_is_unknown(run: Run) -> None:
    """With each address and its reason."""
    ended = run("check", "kip447", "--output", "json", "--bootstrap-server", "127.0.0.1:1")
    decision = json.loads(ended.out)
    assert (ended.code, decision["verdict"], decision["open"]) == (2, "unknown", False)
    assert decision["reasons"][0]["address"] == "127.0.0.1:1"


def test_check_waits_until_it_is_open(start: Start, fake_cluster: MakeCluster) -> None:
    """The last broker qualifies while it waits."""
    cluster = fake_cluster(2, release="4.2", finalized={"metadata.version": 29})
    process = start("check", "kip848", "--wait", "300", "--bootstrap-server", cluster.bootstrap)
    assert cluster.wait_for(lambda asked: len(asked) > 3, timeout=60)
    cluster.finalize({"group.version": 1})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("open: group.version>=1")


def test_check_does_not_wait_for_ever(run: Run, fake_cluster: MakeCluster) -> None:
    """Then the last decision counts."""
    cluster = fake_cluster(1, release="3.9")
    assert run("check", "kip848", "--wait", "0.1", "--bootstrap-server", cluster.bootstrap).code == 1


def test_explain_decides_where_a_cluster_is_given(run: Run, fake_cluster: MakeCluster) -> None:
    """The exit codes are those of check."""
    cluster = fake_cluster(1, release="3.9")
    ended = run("explain", "kip848", "--output", "json", "--bootstrap-server", cluster.bootstrap)
    explained = json.loads(ended.out)
    assert (ended.code, explained["name"], explained["decision"]["verdict"]) == (1, "kip848", "closed")


# ---------------------------------------------------------------------- watch


def test_watch_tells_a_gate_opening(start: Start, fake_cluster: MakeCluster) -> None:
    """One JSON object on a line, until Ctrl-C."""
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


def test_watch_ends_by_itself(run: Run, fake_cluster: MakeCluster) -> None:
    """After --for."""
    ended = run("watch", "--for", "0.5", "--bootstrap-server", fake_cluster(1).bootstrap)
    assert ended.code == 0
    assert ": 1 of 1 brokers answered, epoch " in ended.out


# ---------------------------------------------------------------------- doctor (slow where it looks twice)


@pytest.mark.slow
def test_doctor_names_mixed_releases(run: Run, fake_cluster: MakeCluster) -> None:
    """And which brokers run which."""
    cluster = fake_cluster(3, release="4.2")
    cluster.broker(2).upgrade("3.9")
    ended = run("doctor", "--output", "json", "--bootstrap-server", cluster.bootstrap)
    (finding,) = [each for each in json.loads(ended.out)["findings"] if each["code"] == "mixed-releases"]
    assert finding["evidence"] == (f"brokers 1,3 like 4.2; broker 2 ({cluster.broker(2).address}) like 3.9")


@pytest.mark.slow
def test_doctor_reports_a_silent_broker_once(run: Run, fake_cluster: MakeCluster) -> None:
    """Not as a broker and as an address too."""
    cluster = fake_cluster(3)
    cluster.broker(3).stop()
    ended = run("doctor", "--output", "json", "--bootstrap-server", cluster.bootstrap)
    assert ended.code == 1
    assert codes(ended.out) == {"broker-silent": "error", "epoch-frozen": "warning"}


@pytest.mark.slow
def test_doctor_sees_two_clusters_in_one_list(run: Run, fake_cluster: MakeCluster) -> None:
    """Each address is asked for itself."""
    bootstrap = f"{fake_cluster(1).bootstrap},{fake_cluster(1).bootstrap}"
    ended = run("doctor", "--output", "json", "--bootstrap-server", bootstrap)
    assert codes(ended.out)["two-clusters"] == "error"


def test_doctor_sees_a_controller_among_brokers(run: Run, fake_cluster: MakeCluster) -> None:
    """By what it can do."""
    cluster = fake_cluster(1, controllers=1)
    ended = run("doctor", "--output", "json", "--bootstrap-server", cluster.bootstrap_controllers)
    assert codes(ended.out) == {"wrong-endpoint": "error"}


def test_doctor_sees_that_a_listener_wants_sasl(run: Run, fake_cluster: MakeCluster) -> None:
    """And which mechanisms it enables."""
    cluster = fake_cluster(1, passwords={"u": "p"})
    ended = run("doctor", "--output", "json", "--bootstrap-server", cluster.bootstrap)
    (finding,) = json.loads(ended.out)["findings"]
    assert finding["code"] == "listener-wants-sasl"
    assert "PLAIN" in finding["advice"]


def test_doctor_sees_a_wrong_password_and_does_not_tell_it(run: Run, fake_cluster: MakeCluster, tmp_path: Path) -> None:
    """Invariant 9 holds for evidence too."""
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=hunter2\n")
    cluster = fake_cluster(1, passwords={"u": "p"})
    ended = run("doctor", "--output", "json", "--command-config", str(file), "--bootstrap-server", cluster.bootstrap)
    assert codes(ended.out) == {"authentication": "error"}
    assert "hunter2" not in ended.out + ended.err


def test_doctor_sees_that_a_listener_speaks_tls(run: Run, fake_cluster: MakeCluster, tls_cluster: FakeCluster) -> None:
    """A handshake is tried."""
    ended = run("doctor", "--output", "json", "--bootstrap-server", tls_cluster.bootstrap)
    assert codes(ended.out) == {"listener-speaks-tls": "error"}


def test_doctor_sees_that_nobody_signed_the_certificate(run: Run, tls_cluster: FakeCluster, tmp_path: Path) -> None:
    """The advice names the property."""
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\n")
    argv = ("--output", "json", "--command-config", str(file), "--bootstrap-server", tls_cluster.bootstrap)
    (finding,) = json.loads(run("doctor", *argv).out)["findings"]
    assert finding["code"] == "tls"
    assert "ssl.ca.location" in finding["advice"]


def test_doctor_sees_that_a_listener_speaks_no_tls(run: Run, fake_cluster: MakeCluster, tmp_path: Path) -> None:
    """It answers in plaintext."""
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\n")
    argv = ("--output", "json", "--command-config", str(file), "--bootstrap-server", fake_cluster(1).bootstrap)
    assert codes(run("doctor", *argv).out) == {"listener-speaks-plaintext": "error"}


def test_doctor_sees_what_is_no_kafka(run: Run, fake_cluster: MakeCluster) -> None:
    """A web server answers in words."""
    cluster = fake_cluster(1)
    cluster.broker(1).garbage_once(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    ended = run("doctor", "--output", "json", "--bootstrap-server", cluster.bootstrap)
    assert codes(ended.out) == {"not-kafka": "error"}


def test_doctor_sees_a_listener_that_says_nothing(run: Run, fake_cluster: MakeCluster, tmp_path: Path) -> None:
    """Whatever protocol is tried."""
    file = tmp_path / "client.properties"
    file.write_text("socket.timeout.ms=200\nsocket.connection.setup.timeout.ms=200\n")
    cluster = fake_cluster(1)
    cluster.broker(1).pause()
    ended = run("doctor", "--output", "json", "--command-config", str(file), "--bootstrap-server", cluster.bootstrap)
    assert codes(ended.out) == {"silent": "error"}


# ---------------------------------------------------------------------- a terminal


@pytest.mark.parametrize(("environment", "painted"), [({"TERM": "xterm"}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_colour_unless_it_asks_for_none(
    fake_cluster: MakeCluster, *, environment: dict[str, str], painted: bool
) -> None:
    """The same words either way."""
    pytest.importorskip("rich")
    cluster = fake_cluster(2, release="4.2")
    cluster.broker(2).upgrade("3.9")
    ours, theirs = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"COLUMNS": "150"}
    command = [sys.executable, "-m", "featuregate", "matrix", "--bootstrap-server", cluster.bootstrap]
    with subprocess.Popen(command, stdout=theirs, env={**environ, **environment}) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
    os.close(ours)
    assert process.returncode == 0
    assert (b"\x1b[" in shown) is painted
    assert b"group.version *" in shown


def _read(terminal: int) -> bytes:
    """Read from a terminal, whose end is an error on Linux."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


@pytest.fixture
def tls_cluster(fake_cluster: MakeCluster) -> FakeCluster:
    """One broker behind a certificate that nobody trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CA().issue_cert("127.0.0.1").configure_cert(context)
    return fake_cluster(1, tls=context)
