"""The sandbox, with fake brokers."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE

import pytest
from reserving import two_ports_in_a_row

import featuregate as fg
from featuregate.cli.app import main
from featuregate.cli.arguments.parser import parse_arguments
from featuregate.errors import LocalKafkaError
from featuregate.version import how_to_install

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a reserved port can be used by another process")
COMMAND = (sys.executable, "-m", "featuregate", "sandbox", "--fake")


@pytest.fixture
def port() -> Iterator[int]:
    with two_ports_in_a_row() as first:
        yield first


@contextmanager
def running(*options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen((*COMMAND, *options), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def lines_until(process: subprocess.Popen[str], last: str) -> list[str]:
    assert process.stdout is not None
    found: list[str] = []
    for line in process.stdout:
        found.append(line)
        if last in line:
            return found
    pytest.fail(f"no line with {last!r} in {found}")


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_runs_until_it_is_told_to_end(port: int, end: signal.Signals) -> None:
    """The printed commands work as they are, and nobody tries what fake brokers cannot."""
    with running("--port", str(port), "--nodes", "2", "--features", "group.version=0") as process:
        said = "".join(lines_until(process, "Ctrl-C ends it"))
        assert "take no records" in said
        tried = [line.split()[1:] for line in said.splitlines() if line.startswith("  featuregate ")]
        assert [parse_arguments(words).command for words in tried] == ["describe", "check", "watch"]
        assert f"featuregate check kip848 --bootstrap-server localhost:{port}" in said
        view = fg.discover(f"127.0.0.1:{port}")
        assert [broker.port for broker in view.brokers] == [port, port + 1]
        assert view.level("group.version") == 0
        process.send_signal(end)
        assert process.wait(30) == 0


def test_it_rolls_its_brokers(port: int) -> None:
    with running("3.9.2", "--port", str(port), "--nodes", "2", "--roll-to", "4.2.0") as process:
        lines_until(process, "all brokers run 4.2.0")
        assert fg.evaluate(fg.discover(f"127.0.0.1:{port}"), fg.Release("4.2")).open


def practised(port: int, *options: str, words: str) -> str:
    """Give words to a sandbox that asks between two brokers; return what it printed until its input ended."""
    command = (*COMMAND, "--port", str(port), "--nodes", "2", "--pause", *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(words)
        process.stdin.close()
        try:
            return "".join(lines_until(process, "? \n"))
        finally:
            process.send_signal(signal.SIGINT)


def test_it_goes_on_and_back_as_the_user_says(port: int) -> None:
    """One broker at a time, in the order of a roll, and back in the other one."""
    said = practised(port, "3.9", "--roll-to", "4.2", words="back\nnext\nn\nback\nb\n")
    assert [line.split("next, stop? ")[-1] for line in said.splitlines() if "starts with" in line] == [
        "broker 1 stops, and starts with 4.2.0",
        "1 of 2 brokers run 4.2.0; next, back, stop? broker 2 stops, and starts with 4.2.0",
        "2 of 2 brokers run 4.2.0; back, stop? broker 2 stops, and starts with 3.9.0",
        "1 of 2 brokers run 4.2.0; next, back, stop? broker 1 stops, and starts with 3.9.0",
    ]
    assert "all brokers run 4.2.0; finalized levels stay as they are; what comes next: featuregate plan" in said


def test_a_broker_that_does_not_start_is_one_line_and_starts_as_before(port: int) -> None:
    """As after a level was raised that older software does not know."""
    said = practised(port, "4.2", "--features", "share.version=1", "--roll-to", "3.9", words="next\n")
    (line,) = (line for line in said.splitlines() if line.startswith("featuregate: "))
    assert line.startswith("featuregate: broker 1 does not start: ")
    assert line.endswith("; so it starts with 4.2.0 again")
    assert said.endswith("0 of 2 brokers run 3.9.0; next, stop? \n")


def test_a_trace_of_java_is_one_line() -> None:
    """Levels that need one another are known to Kafka alone."""
    trace = (
        'Exception in thread "main" java.lang.IllegalArgumentException: No feature:a with feature level 9\n\tat o.a.k'
    )
    assert LocalKafkaError("not formatted", trace).in_one_line == "not formatted: No feature:a with feature level 9"
    assert LocalKafkaError("not formatted", "a\n b").in_one_line == "not formatted a b"


def test_the_extra_for_topics_is_named_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not when the brokers run already."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert main(["sandbox", "--topic", "orders"]) == 64
    assert f"need confluent-kafka: {how_to_install('confluent')}\n" in capsys.readouterr().err


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_port_that_is_taken_is_named(port: int, nodes: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Another cluster may run there, and of several ports any may be the one."""
    with socket.create_server(("127.0.0.1", port + nodes - 1)):
        assert main(["sandbox", "--fake", "--nodes", str(nodes), "--port", str(port)]) == 2
    ports = f"port {port}" if nodes == 1 else f"the ports {port} to {port + 1}"
    assert f"{ports} cannot be used: Address already in use; give another --port" in capsys.readouterr().err


def test_a_second_sandbox_does_not_share_the_port_of_the_first(port: int) -> None:
    """Its clients would get answers of both clusters."""
    with running("--port", str(port)) as first:
        lines_until(first, "Ctrl-C ends it")
        second = subprocess.run(
            (*COMMAND, "--port", str(port)), capture_output=True, text=True, timeout=60, check=False
        )
        assert second.returncode == 2
        assert f"port {port} cannot be used: Address already in use; give another --port" in second.stderr


def test_a_folder_for_jars_that_cannot_be_used_is_named(
    port: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEATUREGATE_CACHE", "/proc/nope")
    assert main(["sandbox", "--port", str(port)]) == 2
    assert "jars cannot be kept in /proc/nope: No such file or directory" in capsys.readouterr().err


def test_ctrl_d_ends_it_before_the_roll(port: int) -> None:
    """It waits for Enter, and there is no more input."""
    ours, theirs = os.openpty()
    command = (*COMMAND, "--port", str(port), "--roll-to", "4.2.0")
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.write(ours, b"\x04")
        out, err = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert (process.returncode, err) == (0, "")
    assert "stops, and starts" not in out
