"""Stack traces of Spark in one line."""

from __future__ import annotations

import pytest

from featuregate_fleet.tables.failures import cause_of

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
        ("Traceback (most recent call last):\nOSError: [Errno 28] No space left", "[Errno 28] No space left"),
    ],
)
def test_the_innermost_error_is_the_cause(text: str, cause: str):
    """It is what an operator can do something about."""
    assert cause_of(RuntimeError(text)) == cause
