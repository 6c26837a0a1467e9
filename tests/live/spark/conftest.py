"""The Spark session that tests share: one JVM for all modules that have no ``spark`` of their own."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from streams.sessions import local_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNCLOSED = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
"""PySpark leaves the sockets to the garbage collector by which a driver collects rows."""

_shared = ExitStack()
"""Ends the shared JVM, where a test has started it."""
_session: list[SparkSession] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow PySpark to leave sockets behind, in the tests of this folder."""
    for item in items:
        if "/live/spark/" in item.path.as_posix():
            item.add_marker(UNCLOSED)


def _shares(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    return "spark" in fixtures and not hasattr(getattr(item, "module", None), "spark")


@pytest.fixture(autouse=True)
def nothing_left_to_others() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """Return a session with two cores: settings and views are the module's own, and the JVM is that of all."""
    if not _session:
        _session.append(_shared.enter_context(local_spark()))
        _shared.callback(_session.clear)
    return _session[0].newSession()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """End the JVM after the last test that shares it: another one would get it with its settings."""
    yield
    if nextitem is None or not _shares(nextitem):
        _shared.close()


def pytest_sessionfinish() -> None:
    _shared.close()
