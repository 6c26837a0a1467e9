"""What is said where the JVM of a session ends before the work does."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JError, Py4JNetworkError

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.runs import session_end
from featuregate_fleet.runs.session_end import said_in_one_line


class Ended:
    """A session whose JVM has ended, as PySpark shows it."""

    @property
    def version(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


class Running:
    """A session whose JVM answers."""

    version = "4.0.0"


def ended(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", f"import os, signal; {code}"])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("os._exit(52)", "Spark has no memory left: give it more than it has by SPARK_DRIVER_MEMORY=4g"),
        ("os._exit(134)", "the JVM of Spark has ended with 134"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the JVM of Spark was killed, by the kernel if"),
    ],
)
@pytest.mark.parametrize(
    "error", [Py4JError("o7"), Py4JNetworkError("empty"), ConnectionRefusedError(111, "refused")], ids=repr
)
def test_the_end_of_a_jvm_is_said_once(code: str, said: str, error: Exception):
    """By its exit code: Spark has codes of its own."""
    session: Any = Ended()
    with ended(code) as java, pytest.raises(TablesBroken, match=said) as found, said_in_one_line(session, java):
        raise error
    assert str(found.value).endswith("; the table has whole batches, and the next run continues")


def test_a_jvm_of_spark_submit_has_no_exit_code(monkeypatch: pytest.MonkeyPatch):
    """And one that answers no more, and has not ended, does not hold the command."""
    monkeypatch.setattr(session_end, "_SECONDS", 0.01)
    session: Any = Ended()
    stopped = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        os.kill(stopped.pid, signal.SIGSTOP)
        for java in (None, stopped):
            with pytest.raises(TablesBroken, match="answers no more"), said_in_one_line(session, java):
                raise ConnectionRefusedError
    finally:
        stopped.kill()
        stopped.wait()


def test_an_error_of_something_else_is_not_that_of_the_jvm():
    """Such as a disk that is full, or a broker that refuses a connection."""
    session: Any = Running()
    for error in (OSError(28, "no space"), ConnectionRefusedError(111, "by a broker")):
        with pytest.raises(OSError, match=r"no space|by a broker") as found, said_in_one_line(session, None):
            raise error
        assert found.value is error
