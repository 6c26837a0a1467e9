"""Child processes and reserved ports, which end with the process that owns them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

from featuregate.errors import LocalKafkaError
from featuregate.testing.local_kafka import watchdog

HOST = "127.0.0.1"
"""The address of every listener: no name to resolve, and one address family."""

PAUSE_TIMEOUT = 30.0
"""Seconds that a process may take until SIGSTOP has stopped all its threads."""

ProcessState = Literal["running", "paused", "stopped", "exited"]
"""``stopped``: the owner ended the process; ``exited``: the process ended by itself."""


class ChildProcess:
    """One process of a group. Its output is appended to a file."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        folder: Path,
        group: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        self._paused = False
        self._ended_by_us = False
        with log.open("ab") as output:
            # A background group in the same session: Ctrl-C reaches only the owner, which then ends its children.
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                process_group=group,
                env=environment,
            )

    @property
    def pid(self) -> int:
        """The process id. The system does not reuse it before the process is reaped."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return self._process.poll()

    @property
    def state(self) -> ProcessState:
        """The state of the process."""
        if self._process.poll() is not None:
            return "stopped" if self._ended_by_us else "exited"
        return "paused" if self._paused else "running"

    def pause(self) -> None:
        """Pause the process (SIGSTOP). Its sockets stay open and answer nothing.

        Returns when all its threads have stopped: the signal reaches one thread first, and on a busy machine the others
        may answer a request before that thread runs. macOS has no such wait before Python 3.13.
        """
        self._paused = True
        self._process.send_signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):
            wait_until(self._ended_or_paused, f"process {self.pid} is paused", {}, timeout=PAUSE_TIMEOUT)

    def _ended_or_paused(self) -> bool:
        if self._process.poll() is not None:
            return True
        seen = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, seen) is not None

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        self._paused = False
        self._process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Send SIGTERM. A paused process is resumed, so that it receives the signal."""
        self._ended_by_us = True
        self._process.terminate()
        if self._paused:
            self.resume()

    def wait(self, timeout: float) -> bool:
        """Wait for the end of the process, for ``timeout`` seconds at most; return whether it has ended."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Kill the process (SIGKILL), and wait for its end."""
        self._ended_by_us = True
        self._process.kill()
        self._process.wait()

    def last_lines(self, count: int) -> str:
        """Return the last lines of the log; fewer if the log is shorter."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])


class ProcessGroup:
    """A folder and the processes that use it, which end with the process that owns them.

    ``close()`` ends them and deletes the folder. So do the end of the interpreter and the garbage collection of the
    group. If the owner is killed with SIGKILL, a watchdog does it. A forked child of the owner owns nothing.
    """

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"featuregate-{name}-"))
        self._children: list[ChildProcess] = []
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid()), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd="/",
            process_group=0,
        )
        self._finalizer = weakref.finalize(self, _end, os.getpid(), self._children, self._watchdog, self.folder)

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ChildProcess:
        """Start one process in the process group; by default in its folder, with the environment of this process."""
        place = folder or self.folder
        child = ChildProcess(argv, log=log, folder=place, group=self._watchdog.pid, environment=environment)
        self._children.append(child)
        return child

    def run(self, argv: Sequence[str | Path], *, timeout: float) -> subprocess.CompletedProcess[str]:
        """Run one process to its end, and return its output. Kills it after ``timeout`` seconds: TimeoutExpired."""
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd=self.folder,
            process_group=self._watchdog.pid,
        )

    def close(self) -> None:
        """Kill all processes and delete the folder. A second call does nothing."""
        self._finalizer()


def _end(owner: int, children: list[ChildProcess], watchdog_process: subprocess.Popen[bytes], folder: Path) -> None:
    if os.getpid() != owner:  # a forked child inherits the finalizer, but not the processes
        return
    for child in children:
        child.kill()
    shutil.rmtree(folder, ignore_errors=True)
    assert watchdog_process.stdin is not None
    with suppress(BrokenPipeError):  # the watchdog was killed
        watchdog_process.stdin.write(watchdog.CLEAN_EXIT)
        watchdog_process.stdin.close()
    watchdog_process.wait()


def wait_until(
    condition: Callable[[], bool], what: str, watched: Mapping[str, ChildProcess], *, timeout: float
) -> None:
    """Block until a condition holds. ``what`` names it, and ``watched`` the processes that it depends on.

    Raises `LocalKafkaError` with the end of a log if a process ends, or if the wait takes longer than ``timeout``
    seconds.
    """
    until = time.monotonic() + timeout
    while not condition():
        for name, child in watched.items():
            if child.state == "exited":
                raise LocalKafkaError(f"{name} ended with {child.exit_code}", child.last_lines(50))
        if time.monotonic() > until:
            logs = "\n".join(f"--- {name}\n{child.last_lines(20)}" for name, child in watched.items())
            raise LocalKafkaError(f"after {timeout:.0f} s it is not so that {what}", logs)
        time.sleep(0.05)


class ReservedPorts:
    """Free ports of the loopback interface, reserved until ``close()``.

    A reservation is a socket that is bound and does not listen. On Linux it lasts while a broker uses the port, and
    between its restarts: another socket may listen on a port that is bound with SO_REUSEADDR while the first does not
    listen, and Java sets that option, but the kernel does not assign the port to sockets that ask for any free port. On
    other systems two such sockets exclude each other, so there the ports are chosen together and then released.
    """

    def __init__(self, wanted: Sequence[int]) -> None:
        """Reserve these ports; 0 is any free one, and none of the others. Raises OSError where one is taken."""
        numbers: dict[int, int] = {}
        with ExitStack() as held:
            for place in sorted(range(len(wanted)), key=lambda place: wanted[place] == 0):
                port = _bound(wanted[place])
                held.callback(port.close)
                numbers[place] = port.getsockname()[1]
            self._finalizer = weakref.finalize(self, held.pop_all().close)
        self.numbers = tuple(numbers[place] for place in range(len(wanted)))
        if sys.platform != "linux":
            self.close()

    def close(self) -> None:
        """Release the ports, as deleting this object does."""
        self._finalizer()


def _bound(port: int) -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind((HOST, port))
    except OSError:
        held.close()
        raise
    return held
