"""Logs of a real broker, and a JVM for Spark that ends with the tests."""

import gc
import shutil
import signal
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fleet_clients import ask, copy_one_record
from pyspark import SparkContext
from streams.sessions import own_jvm

from featuregate.testing import LocalKafka
from featuregate_fleet.runs.session import local_session

UNCLOSED = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
"""PySpark leaves the sockets to the garbage collector by which a driver collects rows."""

REQUEST_LOG = {"kafka.request.logger": "DEBUG"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/live/fleet/" in item.path.as_posix():
            item.add_marker(UNCLOSED)


_shared_jvm = ExitStack()
"""Ends the JVM that the tests of this folder share, where one of them has started it."""


@pytest.fixture
def jvm() -> None:
    """Run in the session of this folder: Spark compiles for each session anew, for a quarter of its processor time."""
    if SparkContext._gateway is None:
        session, interrupted = ExitStack(), signal.getsignal(signal.SIGINT)
        _shared_jvm.enter_context(own_jvm(lambda: session.enter_context(local_session())))
        _shared_jvm.push(session)
        signal.signal(signal.SIGINT, interrupted)  # PySpark has taken it for the session


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """End the JVM with the folder: a test of another folder would get it with its settings, and end it."""
    yield
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        _shared_jvm.close()
        gc.collect()


def pytest_sessionfinish() -> None:
    _shared_jvm.close()


@pytest.fixture(scope="session")
def broker_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the log of a broker of 3.9.2 that served a modern client, and an ancient one until it refused it."""
    kept = tmp_path_factory.mktemp("broker") / "server.log"
    with LocalKafka("3.9.2", log_levels=REQUEST_LOG) as kafka:
        copy_one_record(kafka)
        node = kafka.node(1)
        list_offsets_0 = struct.pack(">ii", -1, 0)  # of a consumer, for no topics
        served, refused = ask(node.host, node.port, (2, 0, list_offsets_0), (3, 99, struct.pack(">i", 0)))
        assert served
        assert not refused
        kafka.stop(1)
        shutil.copy(node.log, kept)
    return kept
