"""A job that is started, harmed, and started again."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

import psutil
from eos.ledger import Ledger
from eos.pipes import BOUND, Pipe
from waiting import eventually

from featuregate.testing.local_kafka.processes import ChildProcess, ProcessGroup
from streams.job import Orders, Terms

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
        eventually(lambda: all(map(_has_ended, self._known.values())), "all processes of the job have ended", BOUND)
        self._processes.close()

    def start(self, **options: object) -> None:
        self.terms = replace(self.terms, **options)  # type: ignore[arg-type]
        self.lives += 1
        command = ["env", f"PYTHONPATH={TESTS}", sys.executable, str(JOB), self.terms.to_json()]
        self._child = self._processes.start(command, log=self.log)

    @property
    def alive(self) -> bool:
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
        return [one for one in self.processes() if _runs(one, "CoarseGrainedExecutorBackend")]

    def workers(self) -> list[psutil.Process]:
        """Return the Python processes in which tasks run, which daemons have forked."""
        daemons = {one.pid for one in self.processes() if _runs(one, "pyspark.daemon")}
        return [one for one in self.processes() if _parent(one) in daemons]

    def busy_worker(self, ledger: Ledger, timeout: float = BOUND) -> psutil.Process:
        """Wait until a transaction is open; return a worker that writes, as all do at that moment.

        A worker keeps its connections to Kafka from batch to batch, so that these alone do not say that it writes.
        """

        def writer() -> psutil.Process | None:
            return self._one_with_connections() if ledger.transaction_is_open() else None

        return eventually(writer, "a worker writes", timeout)

    def _one_with_connections(self) -> psutil.Process | None:
        ports = {int(address.rpartition(":")[2]) for address in self.terms.bootstrap.split(",")}
        for worker in self.workers():
            with suppress(psutil.Error):
                if any(each.raddr and each.raddr.port in ports for each in worker.net_connections("tcp")):
                    return worker
        return None

    def last_lines(self, count: int) -> str:
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


def _has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended, also where its parent has not asked how: the JVM does not always ask."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
