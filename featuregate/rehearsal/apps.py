"""The apps of a rehearsal: started as they are, watched, and ended. They reach the small cluster alone.

On Linux their processes are found by a mark in their environment, with whom they are connected to.
"""

from __future__ import annotations

import re
import secrets
import shlex
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from featuregate.config.allowed_hosts import one_spelling
from featuregate.testing.local_kafka.processes import ChildProcess, ProcessGroup

_MARK: Final = "FEATUREGATE_REHEARSAL"
"""The variable by which a process, and each that it starts, is known."""
READABLE: Final = psutil.LINUX
Peer = tuple[str, int]
"""An address and a port."""
_KEPT: Final = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|TERM|VIRTUAL_ENV|JAVA_HOME|PYTHONPATH|NODE_PATH|LD_LIBRARY_PATH"
)
"""Variables that no address and no secret is expected in; any other one is named by ``--env``."""
_ERROR: Final = re.compile(r"\b(?:ERROR|FATAL|CRITICAL)\b|^Traceback |Exception\b")
_STOP_SECONDS: Final = 10.0


def clean_environment(given: Mapping[str, str], let_through: Iterable[str], bootstrap: str) -> dict[str, str]:
    """Return the environment of an app, with the addresses of the small cluster."""
    kept = {name: text for name, text in given.items() if _KEPT.fullmatch(name) or name in {*let_through}}
    return kept | {"FEATUREGATE_BOOTSTRAP_SERVER": bootstrap, "BOOTSTRAP_SERVERS": bootstrap}


class AppProcesses:
    """The processes of all apps, and of those that they start.

    ``small``, ``real``: the listeners of the small cluster, and those of the real one. Of the real one each port of a
    host counts, but for this machine.
    """

    def __init__(
        self, commands: Iterable[str], environment: Mapping[str, str], small: set[Peer], real: set[Peer]
    ) -> None:
        self.commands = tuple(commands)
        self.strayed = ""
        """Which app was connected to the real cluster."""
        self._environment, self._small, self._real = environment, small, real
        self._hosts = {host for host, _ in real if not host.startswith("127.") and host != "::1"}
        self._mark = secrets.token_hex(8)
        self._group = ProcessGroup("apps")
        self._children: list[ChildProcess] = []
        self.connected: list[set[psutil.Process]] = [set() for _ in self.commands]
        """The processes of each app that were seen on the small cluster."""
        self._found = dict[psutil.Process, int]()
        """All processes with the numbers of their apps. One that got a clean environment has no mark."""
        self._before: set[psutil.Process] = set()
        """Those that ran before the apps, and still do. None of them is one of an app."""
        self._known, self._read = [0] * len(self.commands), [0] * len(self.commands)

    def start(self) -> None:
        """Start each app in the folder of the caller."""
        self._before = {*psutil.process_iter()}
        for number, command in enumerate(self.commands):
            own = {**self._environment, _MARK: f"{self._mark}-{number}"}
            log = self._group.folder / f"{number}.log"
            child = self._group.start(shlex.split(command), log=log, folder=Path.cwd(), environment=own)
            self._children.append(child)
            self._found[psutil.Process(child.pid)] = number

    def look(self) -> None:
        """Look whom the processes are connected to. One that reached the real cluster ends all apps, and the caller."""
        for number, process in self._processes():
            found = _peers(process)
            for host, port in filter(self.is_real, found):
                self.strayed = f"{self.commands[number]} connected to {host}:{port}, a broker of the real cluster"
                self.kill()
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # amid any wait
                return
            if found & self._small:
                self.connected[number].add(process)

    def _processes(self) -> Iterator[tuple[int, psutil.Process]]:
        """Yield each process with the number of its app: that of its mark or, without one, of its parent."""
        self._found = {process: number for process, number in self._found.items() if process.is_running()}
        known = {process.pid: number for process, number in self._found.items()}
        self._before = {process for process in self._before if process.is_running()}  # an id may be given again
        for process in (each for each in psutil.process_iter() if each not in self._before):
            with suppress(psutil.Error):  # it has ended
                number = known.get(process.pid, known.get(process.ppid()))
                with suppress(psutil.Error, OSError):  # it is of another user
                    mark, _, own = process.environ().get(_MARK, "").partition("-")
                    number = int(own) if mark == self._mark else number
                if number is not None:
                    known[process.pid] = self._found[process] = number
        yield from ((number, process) for process, number in self._found.items())

    def is_real(self, peer: Peer) -> bool:
        """Say whether this is a broker of the real cluster."""
        return peer in self._real or peer[0] in self._hosts

    def unseen(self) -> list[str]:
        """Return the apps of which no process was seen on the small cluster; none where processes cannot be read."""
        return [self.commands[n] for n, found in enumerate(self.connected) if not found] if READABLE else []

    def ended(self) -> list[str]:
        """Describe the apps that have ended by themselves."""
        every = zip(self.commands, self._children, strict=True)
        return [f"{command} ended with {child.exit_code}" for command, child in every if child.state == "exited"]

    def restarted(self) -> list[str]:
        """Describe the apps of which a process was seen on the small cluster for the first time since the last call."""
        new = [len(now) - before for now, before in zip(self.connected, self._known, strict=True)]
        self._known = [len(each) for each in self.connected]
        every = zip(self.commands, new, strict=True)
        return [f"{command} was restarted: {count} processes connected again" for command, count in every if count]

    def new_errors(self) -> list[str]:
        """Return for each app how many lines of its output since the last call are errors, with the first one."""
        found = []
        for number, child in enumerate(self._children):
            text = child.log.read_text(errors="replace")
            lines = [line for line in text[self._read[number] :].splitlines() if _ERROR.search(line)]
            self._read[number] = len(text)
            if lines:
                count = f"{len(lines)} line{'s' * (len(lines) > 1)} with errors"
                found.append(f"{self.commands[number]} printed {count}: {lines[0].strip()[:300]}")
        return found

    def tail(self) -> str:
        """Return the last lines of all apps."""
        return "\n".join(child.last_lines(20) for child in self._children)

    def kill(self) -> None:
        """Kill all processes of all apps at once."""
        for _, process in self._processes():
            with suppress(psutil.Error):
                process.kill()

    def close(self) -> None:
        """Ask the apps to end, and kill what is left."""
        for child in self._children:
            child.terminate()
        for child in self._children:
            child.wait(_STOP_SECONDS)
        self.kill()
        self._group.close()


def _peers(process: psutil.Process) -> set[Peer]:
    """Return the other ends of the TCP connections of a process; none of one that has ended."""
    with suppress(psutil.Error, OSError):
        every = process.net_connections("tcp")
        return {(one_spelling(each.raddr.ip), each.raddr.port) for each in every if len(each.raddr)}
    return set()
