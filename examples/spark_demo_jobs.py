"""The two jobs of ``make demo-spark``: Spark drivers that can be killed in the middle of a batch, and started again."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pyspark
from confluent_kafka import Consumer, KafkaException, TopicPartition
from demo_apps import log

from featuregate.jars.spark import spark_connector
from featuregate.testing.local_kafka.java import find_java
from featuregate.testing.local_kafka.processes import ChildProcess, ProcessGroup

JOB = Path(__file__).parent / "spark_job" / "orders.py"
LOOK_SECONDS = 0.005
"""Seconds between two looks at a batch. From its first row on the broker to Spark's note of its end it takes 0.1 s."""
REQUEST_SECONDS = 10.0
_UNCOMMITTED = {"isolation.level": "read_uncommitted", "enable.auto.commit": False}
_FORMAT = re.compile(r"^batch \d+: (\w+ format)$", re.MULTILINE)


def command_of(options: list[str]) -> list[str]:
    """Return how a job is submitted to a Spark with two cores on this machine."""
    home = Path(pyspark.__file__).parent
    environment = {
        "JAVA_HOME": str(find_java().resolve().parent.parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    settings = {
        "spark.driver.extraClassPath": f"{spark_connector(pyspark.__version__)}/*",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # a quick start counts here
        "spark.log.level": "WARN",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    given = [f"{name}={value}" for name, value in environment.items()]
    told = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    return ["env", *given, str(home / "bin" / "spark-submit"), "--master", "local[2]", *told, str(JOB), *options]


class Job:
    """A job that copies a topic. Its checkpoint outlives its driver."""

    def __init__(self, name: str, bootstrap: str, folder: Path, *, sink: str) -> None:
        self.name, self.sink = name, sink
        self.input, self.output = f"{sink}-in", f"{sink}-out"
        self._checkpoint, self._folder = folder / f"{sink}-checkpoint", folder
        self._options = ["--bootstrap", bootstrap, "--input", self.input, "--output", self.output, "--sink", sink]
        self._options += ["--query", f"{sink}-orders", "--checkpoint", str(self._checkpoint)]
        self._bootstrap = bootstrap
        self._driver: ChildProcess | None = None
        self._family: ProcessGroup | None = None
        self._runs = 0
        self._batch, self._written = -1, 0

    # ------------------------------------------------------------ the driver

    def start(self) -> None:
        """Start the driver, in a process group with its JVM."""
        self._runs += 1
        self._family = ProcessGroup("demo-spark")
        log_file = self._folder / f"{self.sink}-{self._runs}.log"
        self._driver = self._family.start(command_of(self._options), log=log_file)

    def close(self) -> None:
        """End the driver."""
        if self._family is not None:
            self._signal(signal.SIGKILL)
            self._family.close()
            self._family = None

    def check(self) -> None:
        """Raise an error if the driver has ended by itself."""
        if self._driver is not None and self._driver.state == "exited":
            raise RuntimeError(f"the driver {self.name} ended by itself, with exit code {self._driver.exit_code}")

    def last_lines(self, count: int) -> str:
        """Return the end of the log of the driver."""
        return self._driver.last_lines(count) if self._driver else ""

    def format(self) -> str | None:
        """Return the format of the last batch that this driver has begun; None before its first one."""
        if self._driver is None or not self._driver.log.exists():
            return None
        found = _FORMAT.findall(self._driver.log.read_text(errors="replace"))
        return found[-1] if found else None

    def kill_amid_batch(self, seconds: float) -> None:
        """Kill the driver with SIGKILL when rows of a batch are out, and Spark has not noted that the batch is done."""
        until = time.monotonic() + seconds
        with _Ends(self._bootstrap, self.output) as ends:
            while not self._is_amid_batch(ends):
                self.check()
                if time.monotonic() > until:
                    raise TimeoutError(f"within {seconds:.0f} s no batch of {self.name} was seen half done")
                time.sleep(LOOK_SECONDS)
        self._signal(signal.SIGKILL)
        assert self._family is not None
        self._family.close()
        self._family = self._driver = None

    def _is_amid_batch(self, ends: _Ends) -> bool:
        """Return whether a batch is half done. If it is, the driver is stopped, so that the batch stays as it is."""
        written, begun = ends.total(), self.begun()
        if begun != self._batch:
            self._batch, self._written = begun, written
        if written <= self._written or self.done() >= begun:
            return False
        self._signal(signal.SIGSTOP)
        if self.done() < begun:
            return True
        self._signal(signal.SIGCONT)
        return False

    def _signal(self, number: int) -> None:
        """Send a signal to the JVM, to Python, and to what watches over them."""
        if self._driver is not None:
            os.killpg(os.getpgid(self._driver.pid), number)

    # ------------------------------------------------------------ its checkpoint, and its output

    def begun(self) -> int:
        """Return the last batch that Spark has planned; -1 before the first."""
        return max(self._batches("offsets"), default=-1)

    def done(self) -> int:
        """Return the last batch that Spark has noted as done; -1 before the first."""
        return max(self._batches("commits"), default=-1)

    def _batches(self, kind: str) -> Iterator[int]:
        folder = self._checkpoint / kind
        return (int(file.name) for file in folder.glob("*") if file.name.isdecimal())

    def offsets(self) -> dict[int, int]:
        """Return where the last batch that is done ends, in each partition of the input."""
        if (done := self.done()) < 0:
            return {}
        last = (self._checkpoint / "offsets" / str(done)).read_text().splitlines()[-1]
        return {int(partition): end for partition, end in json.loads(last)[self.input].items()}


class _Ends:
    """How far a topic has grown, with records of open transactions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo-watch"} | _UNCOMMITTED, logger=log)
        self._last = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def total(self) -> int:
        """Return the sum of the ends of all partitions; the last one while a leader moves."""
        try:
            partitions = self._consumer.list_topics(self._topic, REQUEST_SECONDS).topics[self._topic].partitions
            found = [
                self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), REQUEST_SECONDS, cached=False)
                for number in partitions
            ]
        except KafkaException:
            return self._last
        self._last = sum(end for _, end in found)
        return self._last
