"""A Spark session for the tests of one module."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from streams.sessions import local_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

UNCLOSED = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
"""PySpark leaves the sockets to the garbage collector by which a driver collects rows."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow PySpark to leave sockets behind, in the tests of this folder."""
    for item in items:
        if "/live/spark/" in item.path.as_posix():
            item.add_marker(UNCLOSED)


@pytest.fixture(autouse=True)
def nothing_left_to_others() -> Iterator[None]:
    """Collect what PySpark has left behind before the next test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Start a Spark with two cores, which ends with the module."""
    with local_spark() as session:
        yield session
