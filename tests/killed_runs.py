"""Runs in processes of their own, of which the driver, the JVM or a worker is killed at a moment."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
from waiting import eventually

WORKED_SECONDS = 2.0


class Moment(NamedTuple):
    place: str
    """Before its commit, when it reads; within the commit; or after it."""
    victim: str
    files: int
    """How many files more there are of those that it writes there."""

    def written(self, table: Path) -> int:
        return sum(1 for _ in table.glob("kind=*/*.parquet" if self.place == "within" else "_delta_log/*.json"))

    def has_come(self, process: int, table: Path, wanted: int) -> bool:
        """Return whether it has: Python's workers have begun to read, or what is wanted is written."""
        return has_workers(process) if self.place == "before" else self.written(table) >= wanted


MOMENTS = [
    Moment(place, victim, files)
    for place, files in (("before", 0), ("within", 1), ("within", 3), ("after", 1))
    for victim in ("driver", "JVM", "worker", "all")
]


def descendants(process: int) -> Iterator[int]:
    for task in Path(f"/proc/{process}/task").glob("*"):
        with suppress(OSError):  # it has ended
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from descendants(int(child))


def name_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def has_workers(process: int) -> bool:
    return any([*descendants(java)] for java in descendants(process) if name_of(java) == "java")


def reads_lines(process: int) -> bool:
    """Return whether a Python worker of Spark below a process has read lines for a while: its start takes less."""
    with suppress(psutil.NoSuchProcess):
        return any(map(_reads, psutil.Process(process).children(recursive=True)))
    return False


def _reads(worker: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # of many others, some have ended, and are not yet waited for
        return "pyspark.daemon" in worker.cmdline() and worker.cpu_times().user > WORKED_SECONDS
    return False


def kill(run: subprocess.Popen[bytes], victim: str) -> None:
    below = [*descendants(run.pid)]
    java = [process for process in below if name_of(process) == "java"]
    chosen = {
        "driver": [run.pid],
        "JVM": java,
        "worker": [process for process in below if process not in java],
        "all": [run.pid, *below],
    }[victim]
    for process in chosen:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def killed(command: list[str], table: Path, moment: Moment, goes_on: Callable[[], object], own: Path) -> bool:
    """Start a run, kill it or a part of it, and return whether it has failed. ``goes_on`` is called meanwhile.

    ``own`` becomes its folder of temporary files.
    """
    own.mkdir()
    wanted = moment.written(table) + moment.files
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = os.environ | {"TMPDIR": str(own)}  # which a killed process leaves behind

    with subprocess.Popen(command, **quiet, env=environment, start_new_session=True) as run:
        try:
            eventually(
                lambda: (goes_on(), moment.has_come(run.pid, table, wanted) or run.poll() is not None)[1],
                f"{moment}",
                480,
            )
            was_there = run.poll() is None
            kill(run, moment.victim)
            return run.wait(480) != 0 and was_there
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
