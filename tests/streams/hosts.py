"""A Spark cluster on several hosts: loopback addresses of this machine, which Spark takes for hosts."""

import re
import time
from pathlib import Path
from typing import Self

from eos.pipes import BOUND
from pyspark.find_spark_home import _find_spark_home

from featuregate.testing.local_kafka.processes import ChildProcess, ProcessGroup

TESTS = Path(__file__).parents[1]
LAUNCHER = Path(_find_spark_home(), "bin", "spark-class")
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"


class Hosts:
    """Spark's own master, and a worker with one core at each address, which end with it."""

    def __init__(self, *addresses: str) -> None:
        self._processes = ProcessGroup("spark-hosts")
        (self._processes.folder / "log4j2.properties").write_text(
            "rootLogger.level = info\nrootLogger.appenderRef.stderr.ref = stderr\n"
            "appender.stderr.type = Console\nappender.stderr.name = stderr\nappender.stderr.target = SYSTEM_ERR\n"
        )
        try:
            master = self._start("Master", addresses[0])
            self.master = self._told(master, MASTER)[1]
            self._workers = [self._start("Worker", address, "--cores", "1", self.master) for address in addresses]
            for worker in self._workers:
                self._told(worker, re.compile(REGISTERED))
        except BaseException:
            self._processes.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(worker.pid for worker in self._workers)

    def _start(self, kind: str, address: str, *more: str) -> ChildProcess:
        folder = self._processes.folder
        environment = {
            "SPARK_LOCAL_IP": address,
            "SPARK_WORKER_DIR": folder / f"work-{address}",
            "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
            "PYTHONPATH": TESTS,
        }
        name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        options = ["--host", address, "--port", "0", "--webui-port", "0", *more]
        command = ["env", *(f"{key}={value}" for key, value in environment.items()), LAUNCHER, name, *options]
        return self._processes.start(command, log=folder / f"{kind}-{address}.log")

    def _told(self, child: ChildProcess, what: re.Pattern[str]) -> re.Match[str]:
        end = time.monotonic() + BOUND
        while True:
            found = what.search(child.log.read_text(errors="replace"))
            if found:
                return found
            said = f"{child.last_lines(20)}\nwithin {BOUND:g} s it did not tell {what.pattern!r}"
            assert time.monotonic() < end, said
            assert child.exit_code is None, said
            time.sleep(0.1)
