"""Fake brokers in a process of their own, so that what they take does not count: `python fakes.py HOW_MANY`.

It prints where they are, and ends with its standard input.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

BOOTSTRAP = 3
"""Addresses in the client's configuration."""


def raise_file_limit() -> None:
    """A thousand listeners and their connections are more files than many shells allow."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard) if hard > 0 else 8192, hard))


@contextmanager
def running(brokers: int) -> Iterator[str]:
    """Run so many fake brokers, and give the first of their addresses."""
    command = [sys.executable, __file__, str(brokers)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        addresses = process.stdout.readline().strip()
        if not addresses:
            raise RuntimeError(f"{brokers} fake brokers did not start")
        try:
            yield ",".join(addresses.split(",")[:BOOTSTRAP])
        finally:
            process.stdin.close()


def main() -> None:
    from featuregate.testing import FakeCluster  # noqa: PLC0415 - the process that measures does not want it

    raise_file_limit()
    with FakeCluster(int(sys.argv[1])) as cluster:
        print(cluster.bootstrap, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
