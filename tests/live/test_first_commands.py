"""Each command of README and of the first page runs as it is printed, in order, in a new checkout and a new venv."""

import os
import random
import re
import signal
import socket
import subprocess
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from doc_pages import ROOT
from waiting import BOUND, eventually

pytestmark = [pytest.mark.proof("docs"), pytest.mark.live, pytest.mark.timeout(900)]

PAGES = ("README.md", "docs/index.md")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$\n?((?:(?!\$ ).*\n)*)", re.MULTILINE)
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SANDBOX = "featuregate sandbox"
PORTS = 10
"""Ports: a sandbox takes one for each of its brokers."""
LONG = {"make demo", "make demo-fleet", "make demo-spark", "make test"}
"""These have tests of their own, or are the tests."""


def commands(page: str) -> list[tuple[str, str]]:
    """Return each command of a page with what it prints, as the page says."""
    blocks = "".join(BLOCK.findall((ROOT / page).read_text(encoding="utf-8")))
    return [(re.sub(r"\s+#\s.*", "", command).replace("\\\n", ""), said) for command, said in COMMAND.findall(blocks)]


def alike(output: str) -> str:
    return re.sub(r"cluster [\w-]{22}", "cluster ID", output)


def free_block() -> int:
    """Return the first of some free ports in a row, below those that the system gives to others meanwhile."""
    first = random.randrange(10_000, 32_000)
    with ExitStack() as held:
        try:
            for port in range(first, first + PORTS):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            return 0
    return first


class Shell:
    """A checkout, a venv, and a port in place of 9092, which a machine of tests may use."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.checkout)], check=True, timeout=BOUND)
        venv.create(folder / "venv", with_pip=True, symlinks=True)
        self._bin = folder / "venv" / "bin"
        self._port = eventually(free_block)
        self._sandbox: subprocess.Popen[str] | None = None

    def run(self, command: str) -> str:
        """Run a command as a person would, and return what it prints. A sandbox goes on."""
        here = command.replace("localhost:9092", f"localhost:{self._port}")
        if here.startswith(SANDBOX):
            self._start(f"{here} --port {self._port}")
            return ""
        if here in LONG:
            here = here.replace("make ", "make --dry-run ")
        done = self._shell(here)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def _shell(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.checkout,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=10 * BOUND,
            check=False,
        )

    def _start(self, command: str) -> None:
        self.close()
        self._sandbox = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.checkout,
            env=self._environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        output = self._sandbox.stdout
        assert output is not None
        begun = next((line for line in output if line.startswith("Ctrl-C ends it")), None)
        assert begun, "the sandbox has ended before it began"

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        return kept | {"PATH": f"{self._bin}:{os.environ['PATH']}"}

    def close(self) -> None:
        """End the sandbox as Ctrl-C does."""
        if self._sandbox is not None:
            self._sandbox.send_signal(signal.SIGINT)
            self._sandbox.communicate(timeout=BOUND)
            self._sandbox = None


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


@pytest.mark.parametrize("page", PAGES)
def test_each_command_runs_as_printed_and_prints_what_the_page_says(page: str, shell: Shell) -> None:
    """One after the other; where the page shows an output, it is that one, but for the id of the cluster."""
    found = commands(page)
    assert [command for command, _ in found if command.startswith("pip install")]
    for command, said in found:
        printed = shell.run(command)
        if said.strip():
            assert alike(printed).strip() == alike(said).strip(), command


def test_a_command_that_does_not_exist_is_seen(shell: Shell) -> None:
    """Otherwise the test above would prove nothing."""
    with pytest.raises(AssertionError, match="no-such-command"):
        shell.run("featuregate no-such-command")


def test_commands_with_several_lines_and_comments_are_found() -> None:
    """As a shell reads them."""
    assert "pip install '.[cli]'" in [command for command, _ in commands("README.md")]
    found = [command for command, _ in commands("docs/how-to/move-a-cluster.md")]
    assert any(
        command.startswith("kafka-acls") and "--allow-principal" in command and "\n" not in command for command in found
    )
