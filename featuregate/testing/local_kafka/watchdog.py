"""The watchdog of a local cluster: when the process that owns the cluster ends, it kills the brokers and deletes files.

`featuregate.testing.local_kafka.processes` runs this file as a script, in the process group of the brokers. The owner
holds the other end of its standard input, so that the watchdog reads the end of the stream however the owner ends,
SIGKILL included.

The file imports nothing of featuregate, so that it starts in a few milliseconds.
"""

import contextlib
import os
import select
import shutil
import signal
import sys
import time

__all__ = ["GOODBYE", "main"]

GOODBYE = b"."
"""What the owner writes after it has cleaned up itself."""


def main(owner: int, folder: str) -> None:
    """Wait for the owner's end; clean up unless it said goodbye."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not _wait_for_goodbye(owner):
        _end_everything(folder)


def _wait_for_goodbye(owner: int) -> bool:
    """Read the pipe to its end.

    The end comes late where a forked child of the owner holds the pipe too; so the parent's id is looked at as well.
    """
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], 0.5)
        if readable:
            return os.read(sys.stdin.fileno(), 1) == GOODBYE
        if os.getppid() != owner:
            return False


def _end_everything(folder: str) -> None:
    """Kill the whole process group, this process too; a fork that has left the group removes the files after that."""
    group = os.getpgrp()
    if os.fork():
        signal.pause()  # the child kills us
    os.setpgid(0, 0)
    os.killpg(group, signal.SIGKILL)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except OSError:  # nobody is left; otherwise only zombies that nobody reaps, and they write no files
            break
        time.sleep(0.02)
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
