"""Starts the servers, and says what each takes: processor time and memory."""

from __future__ import annotations

import re
import resource
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import requests

if TYPE_CHECKING:
    import ssl

HERE = Path(__file__).parent
BOUND = 120.0
HELD = re.compile(r"^(?:held|featuregate_relay_(?:streams|requests_waiting)\{.*\}) (\S+)$", re.MULTILINE)


def raise_file_limit() -> None:
    """Ten thousand connections are more files than many shells allow."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Server:
    """A server that runs on a port of this machine."""

    def __init__(self, process: subprocess.Popen[str], port: int, tls: ssl.SSLContext | None, ca: Path | None) -> None:
        self._process = process
        self._facts = psutil.Process(process.pid)
        self._ca = ca
        self.port = port
        self.tls = tls

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    @property
    def processor(self) -> float:
        """Seconds that the process has computed so far."""
        times = self._facts.cpu_times()
        return times.user + times.system

    @property
    def memory(self) -> int:
        """Bytes that the process has in memory."""
        return int(self._facts.memory_info().rss)

    def get(self, path: str) -> requests.Response:
        url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}{path}"
        return requests.get(url, timeout=BOUND, verify=str(self._ca) if self._ca else None)

    def held(self) -> int:
        """Return how many requests wait, and how many streams are open."""
        text = self.get("/metrics").text
        return sum(int(float(number)) for number in HELD.findall(text))

    def change(self) -> float:
        """Change the cluster, and return when that began."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


@contextmanager
def running(
    interpreter: str | Path,
    script: Path,
    *,
    words: tuple[str, ...],
    tls: tuple[ssl.SSLContext, Path, Path, Path] | None = None,
) -> Iterator[Server]:
    """Run a server on any free port. The script gets the descriptor of the socket, and these words."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    port = listener.getsockname()[1]
    arguments = [str(word) for word in (interpreter, script, listener.fileno(), *words)]
    context, ca = None, None
    if tls is not None:
        context, ca, certificate, key = tls
        arguments += [str(certificate), str(key)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[listener.fileno()], text=True
    ) as process:
        listener.close()
        try:
            server = Server(process, port, context, ca)
            wait_for(server)
            yield server
        finally:
            process.kill()


def wait_for(server: Server) -> None:
    """Wait until the server answers, and the relay has a view."""
    until = time.monotonic() + BOUND
    while server.runs and time.monotonic() < until:
        with suppress(requests.ConnectionError):
            if server.get("/readyz").status_code != 503:
                return
        time.sleep(0.05)
    raise RuntimeError("the server does not answer")
