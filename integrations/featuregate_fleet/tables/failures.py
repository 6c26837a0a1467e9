"""Why Spark or the JVM failed, in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from featuregate_fleet.errors import TablesBroken

_CAUSE: Final = re.compile(r"^(?:Caused by: |: )?(?:[\w$]+\.)*\w+(?:Error|Exception): (\S.*)$", re.MULTILINE)
"""The stack traces of Java and Python name the innermost error last. Py4J begins that of Java with a colon."""

_CLASS_OF_STORAGE: Final = re.compile(
    r"Class org\.apache\.hadoop\.fs\.(\w+)\.\w+ not found|No FileSystem for scheme \"?(\w+)"
)
_JARS_OF_STORAGES: Final = {
    "s3a": "hadoop-aws of its Hadoop, with the AWS SDK",
    "azurebfs": "hadoop-azure of its Hadoop",
    "gs": "the GCS connector of Google",
}

_FILE_GONE: Final = re.compile(r"\.parquet does not exist|FILE_NOT_EXIST|FileNotFoundException")
T = TypeVar("T")

MORE_MEMORY: Final = (
    "give it more than it has by SPARK_DRIVER_MEMORY=4g in the environment, or by --driver-memory of spark-submit"
)


def cause_of(error: Exception) -> str:
    """Return the innermost error of a stack trace; the first line where there is none."""
    text = str(error)
    causes: list[str] = _CAUSE.findall(text)
    cause = causes[-1] if causes else text.partition("\n")[0]
    if "java.lang.OutOfMemoryError" in text:
        return f"Spark has no memory left: {MORE_MEMORY}"
    lacking = _CLASS_OF_STORAGE.search(cause)
    if lacking and (jar := _JARS_OF_STORAGES.get(lacking[1] or lacking[2])):
        ways = "put it into the folder of --jars, or start Spark with it"
        return f"{cause}: Spark lacks the jar of this storage, {jar}: {ways}"
    return cause


def read_steadily(read: Callable[[], T], tries: int = 5, also: Callable[[Exception], bool] = lambda _: False) -> T:
    """Call ``read``, again where a tidying has deleted a file of the table meanwhile, or ``also`` for other errors."""
    for tries_left in reversed(range(tries)):
        try:
            return read()
        except (Py4JJavaError, PySparkException) as error:
            if not (tries_left and (_FILE_GONE.search(str(error)) or also(error))):
                raise
    raise AssertionError("the last try returns or raises")


@contextmanager
def one_line_failures(problem: str) -> Iterator[None]:
    """Raise `TablesBroken`, with the problem and its cause, where Spark or the JVM fails, as on a full disk."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise TablesBroken(f"{problem}: {cause_of(error)}") from None  # else some hundred lines of Java follow
