"""Signals that ask a job to stop, at the Python driver or at the JVM that runs it.

Under ``spark-submit`` the JVM is the process that a supervisor sees, and the Python driver is its child. At SIGTERM the
JVM stops Spark in its shutdown hooks, below the running query, and exits with 143 whatever the driver does. So the
handler of the JVM is replaced by one that calls the driver.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self

from featuregate.logs import get_logger
from featuregate_spark.session_kind import is_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = get_logger("featuregate.spark")

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Records SIGTERM and SIGINT, so that a job can stop its queries and exit by itself.

    Make it in the main thread, before the SparkSession, and attach the session as soon as it exists. Within the block
    these signals do not end the process.

    .. code-block:: python

        with StopSignals() as stop:
            spark = SparkSession.builder.getOrCreate()
            stop.attach(spark)
            ...
            while not stop.received and not query.awaitTermination(0.2):
                pass
            query.stop()
    """

    def __init__(self) -> None:
        self.received: int | None = None
        """The number of the first signal that either process has received; None before."""
        self._undo: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        self._listen_in_python()
        return self

    def __exit__(self, *_: object) -> None:
        while self._undo:
            self._undo.pop()()

    def attach(self, spark: SparkSession) -> None:
        """Also record signals to the JVM of this session. On Spark Connect there is none in reach.

        PySpark handles SIGINT from the start of a SparkContext; this takes it back.
        """
        self._listen_in_python()
        if is_classic(spark):
            self._undo.append(handle_in_jvm(spark, self._receive))

    def _listen_in_python(self) -> None:
        for number in _SIGNALS:
            before = signal.signal(number, lambda received, _frame: self._receive(received))
            self._undo.append(lambda number=number, before=before: signal.signal(number, before))  # type: ignore[misc]

    def _receive(self, received: int) -> None:
        self.received = self.received or received


def handle_in_jvm(spark: SparkSession, handle: Callable[[int], None]) -> Callable[[], None]:
    """Call ``handle`` with the number of each SIGTERM and SIGINT that the JVM gets, in place of what it does at them.

    The JVM calls it in a thread of its own. Returns what gives the JVM its own handlers back.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - not needed on Spark Connect
    from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415 - see above

    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - PySpark has no public access to the JVM
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    java = gateway.jvm.sun.misc
    names = [java.Signal(number.name.removeprefix("SIG")) for number in _SIGNALS]
    handler = _JavaHandler(handle)
    before = [java.Signal.handle(name, handler) for name in names]

    def undo() -> None:
        for name, own in zip(names, before, strict=True):
            try:
                java.Signal.handle(name, own)
            except (Py4JError, OSError) as error:
                logger.debug("the JVM has ended, and its handler of %s with it: %r", name, error)

    return undo


class _JavaHandler:
    """The JVM calls it at a signal, in a thread of its own."""

    def __init__(self, receive: Callable[[int], None]) -> None:
        self._receive = receive

    def handle(self, received: Any) -> None:
        """Record the signal."""
        self._receive(received.getNumber())

    class Java:
        """Names the interface that this implements, for Py4J."""

        implements: Final = ["sun.misc.SignalHandler"]
