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

CLEAN_EXIT = b"."
"""The byte that the owner writes after it has cleaned up."""


def main(owner: int, folder: str) -> None:
    """Wait for the end of the owner, and clean up unless the owner has done so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not _owner_cleaned_up(owner):
        _end_all(folder)


def _owner_cleaned_up(owner: int) -> bool:
    """Read the pipe to its end. Return whether the owner has written `CLEAN_EXIT`.

    The end comes late if a forked child of the owner holds the pipe too, so the id of the parent is checked as well.
    """
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], 0.5)
        if readable:
            return os.read(sys.stdin.fileno(), 1) == CLEAN_EXIT
        if os.getppid() != owner:
            return False


def _end_all(folder: str) -> None:
    """Kill the whole process group, this process included. A child outside the group then deletes the files."""
    group = os.getpgrp()
    if os.fork():
        signal.pause()  # the child kills this process
    os.setpgid(0, 0)
    os.killpg(group, signal.SIGKILL)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except OSError:  # no process is left; otherwise only zombies, which write no files
            break
        time.sleep(0.02)
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
