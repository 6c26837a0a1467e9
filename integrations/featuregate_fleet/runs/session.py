"""A Spark session that can read and write Delta tables and read topics of Kafka: on this machine, or as submitted.

Where its JVM ends before the work does, one line says why: it has no memory left, or it was killed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from tempfile import mkdtemp
from typing import Any, Final

from featuregate.jars.progress import shown_on_a_terminal
from featuregate.jars.spark import class_path
from featuregate.jars.spark_lines import OLDEST, release_numbers
from featuregate.version import how_to_install
from featuregate_fleet.errors import TablesBroken, WrongSpark

try:
    import pyspark
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    from featuregate_fleet.tables.evidence_table import EXTENSION
    from featuregate_fleet.tables.failures import MORE_MEMORY
    from featuregate_spark.session_kind import is_classic
    from featuregate_spark.stop_signals import handle_in_jvm
except ImportError as error:
    raise WrongSpark(f"the fleet pipeline needs PySpark: {how_to_install('fleet')}") from error


_SESSION_SETTINGS: Final = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Spark reads a file below 128 MB in one task: one core would add up 30 million rows of usage, which may be 20 MB.
    "spark.databricks.delta.optimize.maxFileSize": str(16 * 2**20),
    "spark.sql.files.maxRecordsPerFile": "4000000",
    "spark.databricks.delta.snapshotPartitions": "2",  # of the log's files; 50 by default, for tables of other sizes
    # Files of a batch are listed in as many tasks: one for each, as by default, takes longer than to read it.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",  # lines of 10 kB and more have to fit into a worker
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # smaller and quicker to read than INT96, the default
    "spark.sql.session.timeZone": "UTC",
    # A first, small map for sums hashes strings byte by byte: ten columns say who a client is.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
}
"""What the streams and the tables need of their session, also where the user has another session."""

_NEEDED: Final = {
    **_SESSION_SETTINGS,
    "spark.sql.extensions": EXTENSION,
    # Python's workers take the memory of a block of lines from the last one: otherwise glibc gives it back each time.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(64 * 2**20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(128 * 2**20),
    # Generated classes: of 100, the default, each batch would compile all again.
    "spark.sql.codegen.cache.maxEntries": "2000",
}
"""The same with what only a new JVM can be given."""

_QUICK_PROCESSES: Final = (
    {"spark.driver.defaultJavaOptions": "-Djdk.lang.Process.launchMechanism=VFORK"} if sys.platform == "linux" else {}
)
"""PySpark has no native library of Hadoop, so Hadoop starts ``chmod`` or ``readlink`` for each file that Spark or Delta
Lake writes: 120 processes in a batch. Started by vfork, each takes 2 ms in place of 6. Default options stand
before the user's own ``spark.driver.extraJavaOptions``."""

SETTINGS: Final = {
    **_NEEDED,
    **_QUICK_PROCESSES,
    "spark.databricks.delta.stats.skipping": "false",  # another query before each one, for files that are a handful
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # eleven calls to the JVM for each column of a query
    "spark.log.level": "OFF",  # what fails is said in one line
    "spark.sql.adaptive.enabled": "false",  # plans again after each shuffle, which here has two partitions
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""The same for a Spark on this machine."""

_MOST_SHUFFLED: Final = 32
"""Partitions of a shuffle: there are 200 by default, for tables of other sizes."""
_CLASS_PATHS: Final = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
"""Has the memory of a container, in bytes."""
_LAST_WORDS: Final = 400
"""Characters of what a JVM says in the end."""
_ENDS: Final = {
    None: "the JVM of Spark answers no more",
    52: f"Spark has no memory left: {MORE_MEMORY}",  # in a task (SparkExitCode.OOM)
    -signal.SIGKILL: "the JVM of Spark was killed, by the kernel if this machine has no memory left",
}
"""What to say of a JVM, by its exit code."""
_SECONDS: Final = 5.0
"""Seconds between the last answer of a JVM and its end."""
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by ``spark-submit``: the JVM runs already, with the master, the jars and the settings of the command."""


def settings(
    environment: Mapping[str, str], jars: Path | None = None, *, topics: bool = True, s3: bool = False
) -> dict[str, str]:
    """Return what a session sets: under ``spark-submit`` no master and no jars, which are those of the command."""
    if SUBMITTED in environment:
        return dict(_NEEDED)
    own = {"spark.master": "local[*]", "spark.app.name": "featuregate fleet"} | _heap(environment)
    jars_of_spark = class_path(pyspark.__version__, jars, environment, topics=topics, s3=s3)
    on_s3 = _on_s3(environment) if s3 else {}
    return {**SETTINGS, **own, **on_s3, **dict.fromkeys(_CLASS_PATHS, jars_of_spark)}


def _heap(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the memory of the JVM: a quarter of this machine's, from 1 GB, which is Spark's default, to 3 GB."""
    if "SPARK_DRIVER_MEMORY" in environment:
        return {}
    return {"spark.driver.memory": f"{min(max(memory_here() // 4 // 2**20, 1024), 3072)}m"}


def memory_here() -> int:
    """Return the bytes of memory that this machine or container has."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    with suppress(OSError, ValueError):  # there is no limit, or no such file
        return min(physical, int(_LIMIT.read_text()))
    return physical


def _on_s3(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the endpoint that the AWS SDK of Python takes from the environment, and Hadoop does not."""
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    named = {"endpoint.region": region} if region else {}
    if endpoint:  # a server of S3's API, which has no host for each bucket
        named |= {"endpoint": endpoint, "path.style.access": "true"}
    return {f"spark.hadoop.fs.s3a.{name}": text for name, text in named.items()}


@contextmanager
def local_session(jars: Path | None = None, *, topics: bool = True, s3: bool = False) -> Iterator[SparkSession]:
    """Start a session on all cores of this machine, or the one of ``spark-submit``, and stop it at the end.

    ``jars`` is a folder with the jars of Delta Lake and of Spark's Kafka connector, which are downloaded without it. A
    session that reads no ``topics`` needs no connector, and one with no path on ``s3`` no jars for that.

    In a program that has a session already, such as a notebook, this is another session of the same JVM, with settings
    of its own. The JVM and the program's session go on afterwards. Raises WrongSpark (the installed PySpark is too
    old), TablesBroken (the JVM ended before the work did).
    """
    if release_numbers(pyspark.__version__) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise WrongSpark(f"the fleet pipeline needs PySpark {oldest} or newer, and finds {pyspark.__version__}")
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - an active session is that of one thread
        yield session_beside(SparkSession.builder.getOrCreate())
        return
    folder = mkdtemp(prefix="featuregate-fleet-")  # for what the JVM leaves where it was started
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # the JVM lives as long as this process
    with _signals_restored():
        spark = _started(folder, jars, topics=topics, s3=s3)
        java = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - nothing else knows
        _on_signals(_Handler(partial(_end, folder, java)))  # PySpark has set its own
        # The JVM of spark-submit is what a supervisor sees, and would stop Spark in the middle of a batch.
        give_back = handle_in_jvm(spark, partial(os.kill, os.getpid())) if SUBMITTED in os.environ else lambda: None
        try:
            with said_in_one_line(spark, java):
                yield spark
        finally:
            give_back()
            with suppress(Py4JError, OSError):  # of a JVM that has ended, which was said
                spark.stop()


def session_beside(spark: SparkSession) -> SparkSession:
    """Return another session of the same JVM, with settings of its own: those of the user's session stay as they are.

    Raises WrongSpark (the session is one of Spark Connect, which cannot run the pipeline).
    """
    if not is_classic(spark):
        raise WrongSpark(
            "the fleet pipeline runs in the driver of a classic Spark, and this is a session of Spark Connect: submit "
            "it as a job, or take a cluster with dedicated access"
        )
    another = spark.newSession()
    shuffles = str(min(spark.sparkContext.defaultParallelism, _MOST_SHUFFLED))
    for name, value in {**_SESSION_SETTINGS, "spark.sql.shuffle.partitions": shuffles}.items():
        another.conf.set(name, value)
    return another


def _started(folder: str, jars: Path | None, *, topics: bool, s3: bool) -> SparkSession:
    """Start a session, in a JVM of its own unless this process has one: that of ``spark-submit``, or an earlier one."""
    wanted = settings(os.environ, jars, topics=topics, s3=s3)
    if SUBMITTED not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with chdir(folder):
        if SUBMITTED not in os.environ and SparkContext._gateway is None:  # noqa: SLF001 - nothing else says so
            _start_jvm(wanted, Path(folder))
        return SparkSession.builder.config(map=dict[str, Any](wanted)).getOrCreate()


@contextmanager
def _signals_restored() -> Iterator[None]:
    """Give signals back: PySpark takes SIGINT when a session starts, and its handler fails once that has stopped."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():  # in another thread none is taken
            for number, handler in before.items():
                if handler is not None:  # else it is one of C, which SIGTERM keeps, and Python cannot set
                    signal.signal(number, handler)


@dataclass(frozen=True)
class _Handler:
    """What a session does at a signal, in place of PySpark and of Python."""

    act: Callable[[int], object]

    def __call__(self, number: int, _frame: object) -> None:
        self.act(number)


def _on_signals(handler: _Handler) -> None:
    """Handle Ctrl-C, and SIGTERM unless the program handles it.

    The handler of PySpark asks the JVM to cancel its jobs. Within another question to the JVM it fails, and with it
    what the JVM has asked of Python, in hundreds of lines. Python's own end at SIGTERM leaves the files of the JVM
    behind.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)
        before = signal.getsignal(signal.SIGTERM)
        if before is signal.SIG_DFL or isinstance(before, _Handler):
            signal.signal(signal.SIGTERM, handler)


def _end(folder: str, java: Popen[bytes] | None, number: int) -> None:
    """End this process and its JVM at once: tables are whole whenever that is."""
    if java is not None:  # else this process is that of spark-submit's JVM, which ends with it
        java.kill()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(128 + number)  # what a shell says of a process that a signal has ended


def _start_jvm(settings: Mapping[str, str], folder: Path) -> None:
    """Start the JVM, which lives as long as this process, and decides nothing at SIGTERM.

    A JVM of Spark warns of incubator modules, of native libraries, and of its log level before ``spark.log.level``
    counts, and Delta Lake prints how many files a vacuum has deleted. So its standard error, which its Python workers
    share, and its standard output are a file in ``folder``. Raises WrongSpark (the JVM does not start; the text has
    what that file says).
    """
    # Of this pipeline nothing was seen to differ with pandas 3: see the table of compatibility.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    conf = SparkConf().setAll(list(settings.items()))
    log = folder / "spark.log"
    with shown_on_a_terminal("starting Spark", lambda: "on this machine"), log.open("wb") as said:
        asked: list[int] = []
        _on_signals(_Handler(asked.append))  # a JVM that has begun to start would stay for ever
        try:
            gateway = launch_gateway(conf, {"stdout": said, "stderr": said})  # type: ignore[no-untyped-call]  # PySpark has no types for it
        except PySparkRuntimeError as error:
            for number in asked:  # which the JVM may have got, too
                _end(str(folder), None, number)
            raise WrongSpark(f"Spark does not start: {_said(log) or error}") from error
        _on_signals(_Handler(partial(_end, str(folder), gateway.proc)))
        for number in asked:
            _end(str(folder), gateway.proc, number)
        # A supervisor sends SIGTERM to all processes of a service: the JVM would stop Spark in the middle of a batch.
        signals = gateway.jvm.sun.misc
        signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)
        SparkContext(conf=conf, gateway=gateway)


def _said(log: Path) -> str:
    """Return what the launcher and the JVM have said, in one line: the cause stands first, and what follows from it."""
    lines = [line.strip() for line in log.read_text(errors="replace").split("\n")]
    return "; ".join(line for line in lines if line and not line.startswith("WARNING: "))[:_LAST_WORDS]


# ---------------------------------------------------------------- the end of a JVM


@contextmanager
def said_in_one_line(spark: SparkSession, java: Popen[bytes] | None) -> Iterator[None]:
    """Raise `TablesBroken` where a JVM has ended. ``java`` is its process, unless ``spark-submit`` has started it."""
    try:
        yield
    except (Py4JError, ConnectionRefusedError, ConnectionResetError) as error:
        code = _exit_code(java)
        if code is None and _answers(spark):
            raise
        why = _ENDS.get(code, f"the JVM of Spark has ended with {code}")
        raise TablesBroken(f"{why}; the table has whole batches, and the next run continues") from error


def _exit_code(java: Popen[bytes] | None) -> int | None:
    """Return what the JVM has ended with, if it ends now: one without memory still says that its task has failed."""
    try:
        return java.wait(_SECONDS) if java else None
    except TimeoutExpired:
        return None


def _answers(spark: SparkSession) -> bool:
    try:
        _ = spark.version
    except (Py4JError, OSError):
        return False
    return True
