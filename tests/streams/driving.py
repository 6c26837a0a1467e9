"""A job that is started, harmed, and started again."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil
from eos.pipes import BOUND

from featuregate.testing.local_kafka.processes import ProcessGroup
from streams.job import Orders, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from eos.pipes import Pipe

    from featuregate.testing.local_kafka.processes import ChildProcess

__all__ = ["Driving"]

JOB = Path(__file__).with_name("job.py")
TESTS = JOB.parent.parent


class Driving:
    """The job, its orders and its processes, which end with it.

    ``starters`` are processes other than the driver that start executors.
    """

    def __init__(self, pipe: Pipe, starters: Iterable[int] = (), **options: object) -> None:
        self._starters = tuple(starters)
        self._processes = ProcessGroup("spark-job")
        self.orders = Orders(str(self._processes.folder / "orders"))
        self.orders.folder.mkdir()
        terms = Terms(
            bootstrap=pipe.bootstrap,
            source=pipe.source,
            sink=pipe.sink,
            partitions=pipe.partitions,
            query=pipe.group,
            checkpoint=str(self._processes.folder / "checkpoint"),
            orders=str(self.orders.folder),
        )
        self.terms = replace(terms, **options)  # type: ignore[arg-type]
        self.log = self._processes.folder / "job.log"
        self.lives = 0
        self._child: ChildProcess | None = None
        self._known: dict[int, psutil.Process] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, _kind: object, failure: BaseException | None, _trace: object) -> None:
        if failure is not None:
            failure.add_note(f"the job, in its life {self.lives}, said last:\n{self.last_lines(60)}")
        self.kill()
        for process in self._known.values():  # executors that have not noticed yet
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(list(self._known.values()), BOUND)
        self._processes.close()

    def start(self, **options: object) -> None:
        """Start the driver."""
        self.terms = replace(self.terms, **options)  # type: ignore[arg-type]
        self.lives += 1
        command = ["env", f"PYTHONPATH={TESTS}", sys.executable, str(JOB), self.terms.to_json()]
        self._child = self._processes.start(command, log=self.log)

    @property
    def alive(self) -> bool:
        """Whether the driver runs."""
        return self._child is not None and self._child.exit_code is None

    def see(self) -> None:
        """Restart the driver if it has ended, as a supervisor does: a failed batch ends its query."""
        if not self.alive:
            self.start()

    def kill(self) -> None:
        """Kill the driver, Python and JVM; its executors notice that by themselves."""
        assert self._child is not None
        self.processes()
        for process in self._known.values():
            with suppress(psutil.NoSuchProcess):
                if "SparkSubmit" in " ".join(process.cmdline()):
                    process.kill()
        self._child.kill()

    def processes(self) -> list[psutil.Process]:
        """Return all processes below the driver, and below other processes that start executors."""
        found: list[psutil.Process] = []
        assert self._child is not None
        for pid in (*([self._child.pid] if self.alive else []), *self._starters):
            with suppress(psutil.NoSuchProcess):
                found += psutil.Process(pid).children(recursive=True)
        self._known = {pid: one for pid, one in self._known.items() if one.is_running()}
        self._known |= {process.pid: process for process in found}
        return found

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs of executors, on a cluster of processes."""
        return [one for one in self.processes() if _runs(one, "CoarseGrainedExecutorBackend")]

    def workers(self) -> list[psutil.Process]:
        """Return the Python processes in which tasks run, which daemons have forked."""
        daemons = {one.pid for one in self.processes() if _runs(one, "pyspark.daemon")}
        return [one for one in self.processes() if _parent(one) in daemons]

    def busy_worker(self, timeout: float = BOUND) -> psutil.Process:
        """Wait until a worker has connections to Kafka, and so writes; return it."""
        return _eventually(self._one_that_writes, "a worker writes", timeout)

    def _one_that_writes(self) -> psutil.Process | None:
        ports = {int(address.rpartition(":")[2]) for address in self.terms.bootstrap.split(",")}
        for worker in self.workers():
            with suppress(psutil.Error):
                if any(each.raddr and each.raddr.port in ports for each in worker.net_connections("tcp")):
                    return worker
        return None

    def last_lines(self, count: int) -> str:
        """Return the last lines of its output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:]) if self.log.exists() else ""


def _runs(process: psutil.Process, what: str) -> bool:
    try:
        return what in " ".join(process.cmdline())
    except psutil.Error:
        return False


def _parent(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.Error:
        return None


def _eventually(ask: Callable[[], psutil.Process | None], what: str, timeout: float) -> psutil.Process:
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        found = ask()
        if found is not None:
            return found
        time.sleep(0.01)
    raise AssertionError(f"within {timeout:g} s it did not come true that {what}")
