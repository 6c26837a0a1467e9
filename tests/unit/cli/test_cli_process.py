"""Both programs as processes: signals, pipes, full disks and terminals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from scripted import SILENCE, ScriptedCluster

import featuregate
from featuregate.cli.output import supports_colour

if TYPE_CHECKING:
    from conftest import Start

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and pipes as POSIX has them")
FULL = Path("/dev/full")
FEATUREGATE = (sys.executable, "-m", "featuregate")
FULL_DISK = "the output could not be written: No space left on device\n"


@pytest.fixture
def mute() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        yield listening


def interrupt(process: subprocess.Popen[str], mute: socket.socket) -> tuple[int, str, str]:
    accepted, _ = mute.accept()
    with accepted:
        accepted.settimeout(60)
        assert accepted.recv(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize(
    "command", ["describe", "matrix", "check kip447", "check kip447 --wait 600", "explain kip447", "doctor"]
)
def test_ctrl_c_prints_nothing(start: Start, mute: socket.socket, command: str) -> None:
    """The command ends with the exit code that shells expect."""
    process = start(*command.split(), "--bootstrap-server", f"127.0.0.1:{mute.getsockname()[1]}")
    assert interrupt(process, mute) == (130, "", "")


def test_ctrl_c_ends_watch_with_a_summary(start: Start, mute: socket.socket) -> None:
    """The exit code is 2, because no broker has answered."""
    process = start("watch", "--bootstrap-server", f"127.0.0.1:{mute.getsockname()[1]}")
    code, out, err = interrupt(process, mute)
    assert (code, out) == (2, "")
    assert err.startswith("featuregate: watched for ")
    assert err.count("\n") == 1


def test_ctrl_c_during_an_update_says_that_it_may_have_been_applied(cluster: ScriptedCluster) -> None:
    """The command cannot take back a request that was sent."""
    sent = threading.Event()

    def wait(*_: object) -> str:
        sent.set()
        return SILENCE

    cluster.says = wait
    command = [*FEATUREGATE, "--bootstrap-server", cluster.bootstrap, "upgrade", "--feature", "a=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert sent.wait(60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.startswith("featuregate: interrupted: the update may or may not have been applied")


def test_ctrl_c_while_the_command_is_imported_prints_nothing(tmp_path: Path) -> None:
    """A module that is found first stands for the moment at which the user presses it."""
    (tmp_path / "argparse.py").write_text("raise KeyboardInterrupt\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([*FEATUREGATE, "describe"], capture_output=True, check=False, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_guard_against_ctrl_c_stands_before_all_other_imports() -> None:
    """Before it, only what Python has imported already, and the packages on the way to it."""
    code = (
        "import gc, importlib, sys; b = set(sys.modules); import featuregate.cli.script; print(*set(sys.modules) - b)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = {"featuregate", *(f"featuregate.{room}" for room in ("before_forks", "version", "cli", "cli.script"))}
    assert set(done.stdout.split()) == {"__future__", *ours}


# ------------------------------------------------------------------ output that is lost


def with_full_output(command: Sequence[str], **environment: str) -> tuple[int, str]:
    with FULL.open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, check=False, text=True, env={**os.environ, **environment}
        )
    return done.returncode, done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="needs a file that is always full")
@pytest.mark.parametrize(("command", "unbuffered"), [("explain --list", ""), ("explain --list", "1"), ("--help", "")])
def test_a_full_disk_is_one_line(command: str, unbuffered: str) -> None:
    """The error occurs at once, or when the output is flushed."""
    ended = with_full_output([*FEATUREGATE, *command.split()], PYTHONUNBUFFERED=unbuffered)
    assert ended == (74, f"featuregate: {FULL_DISK}")


@pytest.mark.skipif(not FULL.exists(), reason="needs a file that is always full")
@pytest.mark.parametrize("extra", [(), ("--dry-run",)])
def test_an_update_whose_output_is_lost_was_applied(cluster: ScriptedCluster, extra: tuple[str, ...]) -> None:
    update = ("upgrade", "--feature", "share.version=1", *extra, "--bootstrap-server", cluster.bootstrap)
    applied = "" if extra else "featuregate: the update was applied; only the output is lost\n"
    assert with_full_output([*FEATUREGATE, *update]) == (74, f"{applied}featuregate: {FULL_DISK}")
    assert len(cluster.received) == 1


@pytest.mark.parametrize(("redirected", "code"), [("explain --list >&-", 0), ("check '' 2>&-", 64)])
def test_closed_standard_streams_are_no_error(redirected: str, code: int) -> None:
    """A supervisor may open no streams; an error message must not reach another stream."""
    script = f'exec "$0" "$1" "$2" {redirected}'
    done = subprocess.run(["sh", "-c", script, *FEATUREGATE], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_a_closed_pipe_is_no_error() -> None:
    """With ``featuregate explain --list | head -1`` the command prints no message, and ends as by SIGPIPE."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([*FEATUREGATE, "explain", "--list"], stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_watch_ends_when_its_reader_has_gone(start: Start, cluster: ScriptedCluster) -> None:
    """With ``featuregate watch | head -1`` no further line need come, so no write would tell."""
    process = start("watch", "--interval", "3600", "--bootstrap-server", cluster.bootstrap)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141


# ------------------------------------------------------------------ log and colour


def test_verbose_prints_the_log_to_standard_error(start: Start) -> None:
    process = start("watch", "--verbose", "--bootstrap-server", "127.0.0.1:1")
    assert process.stderr is not None
    while "WARNING featuregate: a poll failed: no broker answered" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert "WARNING" not in out


def test_without_verbose_there_is_no_log(start: Start) -> None:
    process = start("watch", "--for", "0.1", "--bootstrap-server", "127.0.0.1:1")
    assert process.communicate(timeout=60)[1].count("\n") == 1


@pytest.mark.parametrize(
    ("terminal", "environment", "colour"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colour_is_for_terminals_without_no_color(
    monkeypatch: pytest.MonkeyPatch, *, terminal: bool, environment: dict[str, str], colour: bool
) -> None:
    """By https://no-color.org the variable counts if it is not empty."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream: Any = SimpleNamespace(isatty=lambda: terminal)
    assert supports_colour(stream) is colour


@pytest.mark.parametrize("command", ["describe", "explain", "completion"])
def test_a_command_imports_only_what_it_needs(command: str) -> None:
    """Imports take most of the time of describe."""
    code = f"import sys, featuregate.cli.commands.{command}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"rich", "requests", "scramp", "javaproperties", "confluent_kafka", "pytest"}
    others = {"matrix", "watch", "doctor", "describe", "completion"} - {command}
    assert not {f"featuregate.cli.commands.{other}" for other in others} & loaded


_HEAVY = """
ast asyncio atexit cachetools concurrent.futures dataclasses datetime featuregate.admin
featuregate.config.oauthbearer featuregate.config.providers featuregate.config.sasl featuregate.config.tls
featuregate.credentials featuregate.net.asyncio_carrier featuregate.net.tls featuregate.view.json_text
featuregate.view.matrix featuregate.wire.metadata inspect
ipaddress javaproperties logging pathlib pkgutil random shutil ssl tempfile textwrap threading traceback
"""
HEAVY = set(_HEAVY.split())
"""What a command does not import that asks a cluster once, by an address and without TLS.

With atexit, the process takes its modules apart at its end.
"""


def imported_by(argv: list[str]) -> set[str]:
    code = f"import sys; from featuregate.cli.app import main; main({argv}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


OF_GATES = {"featuregate.gating", "featuregate.requirements"}


@pytest.mark.parametrize(("command", "more"), [("describe", OF_GATES), ("check kip447", set())])
def test_commands_that_ask_once_start_light(cluster: ScriptedCluster, command: str, more: set[str]) -> None:
    """Most of the time of a short command is spent on its imports; describe checks no gate."""
    assert not (HEAVY | more) & imported_by(["--bootstrap-server", cluster.bootstrap, *command.split()])


def test_a_package_that_was_overwritten_is_named(tmp_path: Path) -> None:
    """Another distribution installs a package of the same name over ours, and pip checks nothing."""
    overwritten = tmp_path / "featuregate"
    overwritten.mkdir()
    for part in Path(featuregate.__file__).parent.iterdir():
        (overwritten / part.name).symlink_to(part)
    (overwritten / "__init__.py").unlink()
    (overwritten / "__init__.py").write_text("__all__ = ['FeatureGate']\n")
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; import featuregate.cli.script as s; s.featuregate()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("featuregate: another distribution has overwritten the package featuregate, as ")
