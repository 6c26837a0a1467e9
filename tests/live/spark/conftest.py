"""A Spark for the tests of one module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from streams.sessions import local_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Give a Spark with two cores, which ends with the module."""
    with local_spark() as session:
        yield session
