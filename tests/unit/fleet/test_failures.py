"""Stack traces of Spark in one line."""

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from featuregate_fleet.errors import TablesBroken
from featuregate_fleet.tables.failures import cause_of, one_line_failures, read_steadily

IN_BATCH = """[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by the Python Proxy. \
Return Message: Traceback (most recent call last):
  File "utils.py", line 120, in call
    raise e
py4j.protocol.Py4JJavaError: An error occurred while calling o143.save.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/t/api_usage.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(QueryExecutionErrors.scala:772)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (IN_BATCH, "No space left on device"),
        (
            "[STREAM_FAILED] Query [id = 1] terminated: No space left on device",
            "[STREAM_FAILED] Query [id = 1] terminated: No space left on device",
        ),
        ("An error occurred while calling o1.isEmpty.\n: org.apache.spark.KafkaIllegalStateException: no\n", "no"),
        ("Traceback (most recent call last):\nOSError: [Errno 28] No space left", "[Errno 28] No space left"),
    ],
)
def test_the_innermost_error_is_the_cause(text: str, cause: str):
    """It is what an operator can do something about."""
    assert cause_of(RuntimeError(text)) == cause


@pytest.mark.parametrize(
    ("cause", "jar"),
    [
        ("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "hadoop-aws of its Hadoop"),
        ("Class org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem not found", "hadoop-azure of its Hadoop"),
        ('No FileSystem for scheme "gs"', "the GCS connector of Google"),
    ],
)
def test_a_storage_without_its_jar_names_the_jar(cause: str, jar: str):
    """Hadoop names a class, which nobody can install."""
    text = f"An error occurred\n: java.lang.RuntimeException: x\nCaused by: java.io.IOException: {cause}\n\tat"
    found = cause_of(RuntimeError(text))
    assert found.startswith(f"{cause}: Spark lacks the jar of this storage, {jar}")
    assert "--jars" in found


@pytest.mark.parametrize("what", ["Java heap space", "GC overhead limit exceeded"])
def test_a_heap_that_is_too_small_says_how_it_becomes_larger(what: str):
    """Spark has 1 GB unless it is given more."""
    found = cause_of(RuntimeError(f"An error occurred\n: java.lang.OutOfMemoryError: {what}\n\tat java.base/x"))
    assert found.startswith("Spark has no memory left: give it more than it has by SPARK_DRIVER_MEMORY=4g")


class Broken(Py4JJavaError):
    """An error of the JVM, without a JVM."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


@pytest.mark.parametrize("kind", [PySparkException, Broken])
def test_an_error_of_the_jvm_is_one_line(kind: type[Exception]):
    """Each command that reads or writes tables says so, and shows no stack trace."""
    with pytest.raises(TablesBroken) as caught, one_line_failures("the run failed"):
        raise kind(IN_BATCH)
    assert str(caught.value) == "the run failed: No space left on device"
    assert caught.value.__suppress_context__, "a notebook would print some hundred lines of Java"


def test_what_a_tidying_deletes_is_read_again():
    """A reader has the newest files then; another failure is not tried again."""
    failures = [
        PySparkException("[FAILED_READ_FILE.FILE_NOT_EXIST] part-0.parquet"),
        Broken("part-1.parquet does not exist"),
    ]

    def read() -> int:
        if failures:
            raise failures.pop()
        return 7

    assert read_steadily(read) == 7
    failures.extend([PySparkException("another one"), PySparkException("No space left on device")])
    with pytest.raises(PySparkException, match="No space left"):
        read_steadily(read)
    with pytest.raises(PySparkException, match="FILE_NOT_EXIST"):
        read_steadily(gone_for_ever)


def gone_for_ever() -> None:
    raise PySparkException("[FAILED_READ_FILE.FILE_NOT_EXIST] part-0.parquet")
