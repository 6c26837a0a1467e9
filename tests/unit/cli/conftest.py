"""Fixtures that run the command line in this process, or as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import pytest
from scripted import ScriptedCluster
from transcripts import in_this_process


class Ended(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


class Run(Protocol):
    """Run one command to its end."""

    def __call__(self, *argv: str) -> Ended: ...


class Start(Protocol):
    """Start one command as a process of its own."""

    def __call__(self, *argv: str, **environment: str) -> subprocess.Popen[str]: ...


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    command = in_this_process(capsys)
    return lambda *argv: Ended(*command(*argv))


@pytest.fixture
def start() -> Iterator[Start]:
    """Start ``python -m featuregate`` as a process, which the end of the test kills."""
    processes: list[subprocess.Popen[str]] = []

    def start(*argv: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "featuregate", *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        with process:
            process.kill()


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(3) as made:
        yield made


@pytest.fixture
def on(run: Run, cluster: ScriptedCluster) -> Run:
    def run_there(*argv: str) -> Ended:
        return run("--bootstrap-server", cluster.bootstrap, *argv)

    return run_there
