"""Logs of a real broker, and a JVM for Spark that ends with the tests."""

from __future__ import annotations

import gc
import shutil
import struct
from typing import TYPE_CHECKING

import pytest
from fleet_clients import ask, copy_one_record
from streams.sessions import own_jvm

from featuregate.testing import LocalKafka
from featuregate_fleet.stream.session import local_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

UNCLOSED = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
"""PySpark leaves the sockets to the garbage collector by which a driver collects rows."""

REQUEST_LOG = {"kafka.request.logger": "DEBUG"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow PySpark to leave sockets behind, in the tests of this folder."""
    for item in items:
        if "/live/fleet/" in item.path.as_posix():
            item.add_marker(UNCLOSED)


@pytest.fixture(scope="module")
def jvm() -> Iterator[None]:
    """Start a JVM for all sessions of this module, and end it with the module."""

    def begin() -> SparkSession:
        with local_session() as spark:
            return spark  # stopped: each command starts its own, in the same JVM

    with own_jvm(begin):
        yield
    gc.collect()


@pytest.fixture(scope="session")
def broker_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log of a broker of 3.9.2 that served a modern client and an ancient one, and refused a third."""
    kept = tmp_path_factory.mktemp("broker") / "server.log"
    with LocalKafka("3.9.2", log_levels=REQUEST_LOG) as kafka:
        copy_one_record(kafka)
        node = kafka.node(1)
        list_offsets_0 = struct.pack(">ii", -1, 0)  # of a consumer, for no topics
        assert ask(node.host, node.port, 2, 0, list_offsets_0)
        assert not ask(node.host, node.port, 3, 99, struct.pack(">i", 0))
        kafka.stop(1)
        shutil.copy(node.log, kept)
    return kept
