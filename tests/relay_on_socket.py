"""A relay on a socket, in a thread of this process or in a process of its own."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from waiting import line_with

import featuregate as fg
from featuregate_relay.access.authentication import Access
from featuregate_relay.access.certificates import Certificates
from featuregate_relay.app import PolledCluster, make_app
from featuregate_relay.server import RelayServer, bind

BOUND = 30.0


@contextmanager
def serving(
    discoverers: Mapping[str, fg.Discoverer],
    *gates: fg.Gate,
    access: Access | None = None,
    origins: Sequence[str] = (),
    tls: Certificates | None = None,
) -> Iterator[str]:
    listener = bind("127.0.0.1", 0)
    clusters = {name: PolledCluster(features, gates) for name, features in discoverers.items()}
    app = make_app(clusters, access=access, origins=origins)
    server = RelayServer(app, tls)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="relay")
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(BOUND)
        listener.close()


class Served(NamedTuple):
    said: str
    """The line that says what is served, and where."""
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        return self.said.partition(" at ")[2].partition("/v1/")[0]  # the log may share its line


@contextmanager
def served(
    *options: str,
    program: Sequence[str] = ("-m", "featuregate", "serve"),
    before: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator[Served]:
    """Run the command, with words before Python's own and more in its environment, until the block ends."""
    command = [*before, sys.executable, *program, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}) as process:
        try:
            assert process.stderr is not None
            yield Served(line_with(process.stderr, "serving "), process)
        finally:
            process.kill()
