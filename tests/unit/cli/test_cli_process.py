"""The command line as a process of its own: signals, pipes and terminals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from featuregate.cli.output import supports_colour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Start

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and pipes as POSIX has them")
FULL = Path("/dev/full")


@pytest.fixture
def mute() -> Iterator[socket.socket]:
    """Listen, and say nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        yield listening


def interrupted(process: subprocess.Popen[str], mute: socket.socket) -> tuple[int, str, str]:
    """Press Ctrl-C once the command waits for an answer."""
    accepted, _ = mute.accept()
    with accepted:
        accepted.settimeout(60)
        assert accepted.recv(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize(
    "command",
    [
        ["describe"],
        ["describe", "--node-id", "1"],
        ["matrix"],
        ["check", "kip447"],
        ["check", "kip447", "--wait", "600"],
        ["explain", "kip447"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_ctrl_c_is_clean(start: Start, mute: socket.socket, command: list[str]) -> None:
    """Nothing is printed, and the exit code is what shells expect."""
    process = start(*command, "--bootstrap-server", f"127.0.0.1:{mute.getsockname()[1]}")
    assert interrupted(process, mute) == (130, "", "")


def test_ctrl_c_is_how_watch_ends(start: Start, mute: socket.socket) -> None:
    """With a last line that sums up; nobody ever answered here, so with exit code 2."""
    process = start("watch", "--bootstrap-server", f"127.0.0.1:{mute.getsockname()[1]}")
    code, out, err = interrupted(process, mute)
    assert (code, out) == (2, "")
    assert err.startswith("featuregate: watched for ")
    assert err.count("\n") == 1


@pytest.mark.skipif(not FULL.exists(), reason="needs a file that is always full")
@pytest.mark.parametrize(("command", "unbuffered"), [("explain --list", ""), ("explain --list", "1"), ("--help", "")])
def test_output_that_cannot_be_written_is_a_line(command: str, unbuffered: str) -> None:
    """Whether it is found at once or when the rest is flushed: a full disk is no bug of ours, and not silence."""
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "featuregate", *command.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.stderr == "featuregate: the output could not be written: No space left on device\n"
    assert done.returncode == 74


def test_closed_standard_streams_are_no_error() -> None:
    """As under a supervisor that gives none: what is done counts, and an error does not land in the output."""
    command = 'exec "$0" -m featuregate'
    for redirected, code in ((f"{command} explain --list >&-", 0), (f"{command} check '' 2>&-", 64)):
        done = subprocess.run(["sh", "-c", redirected, sys.executable], capture_output=True, check=False, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_a_reader_that_has_gone_is_no_error() -> None:
    """As in ``featuregate explain --list | head -1``: silence, and the exit code that shells give to SIGPIPE."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "featuregate", "explain", "--list"],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_verbose_shows_the_log_on_standard_error(start: Start) -> None:
    """And nothing of it on standard output."""
    process = start("watch", "--for", "0.1", "--verbose", "--bootstrap-server", "127.0.0.1:1")
    out, err = process.communicate(timeout=60)
    assert "WARNING featuregate: a poll failed: no broker answered" in err
    assert "WARNING" not in out


def test_without_verbose_there_is_no_log(start: Start) -> None:
    """What matters is printed as a line."""
    process = start("watch", "--for", "0.1", "--bootstrap-server", "127.0.0.1:1")
    _, err = process.communicate(timeout=60)
    assert err.count("\n") == 1


class Screen:
    """A stream that says whether it is a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        self.terminal = terminal

    def isatty(self) -> bool:
        """Answer."""
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "wanted"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    monkeypatch: pytest.MonkeyPatch, *, terminal: bool, environment: dict[str, str], wanted: bool
) -> None:
    """As https://no-color.org has it: set and not empty."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert supports_colour(Screen(terminal=terminal)) is wanted  # type: ignore[arg-type]  # all that is asked of a stream


@pytest.mark.parametrize("command", ["describe", "explain", "completion"])
def test_a_command_imports_only_what_it_needs(command: str) -> None:
    """Starting is most of what describe costs."""
    code = f"import sys, featuregate.cli.commands.{command}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"rich", "requests", "scramp", "javaproperties", "confluent_kafka", "pytest"}
    others = {"matrix", "watch", "doctor", "describe", "completion"} - {command}
    assert not {f"featuregate.cli.commands.{other}" for other in others} & loaded
