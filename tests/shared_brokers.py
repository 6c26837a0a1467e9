"""Brokers that all processes of a run share: one of each release, which the process that distributes the tests owns.

A test in another process has a proxy (`multiprocessing.managers`): its attributes and methods are those of
`LocalKafka`, and run in the owner.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from multiprocessing.managers import BaseManager, BaseProxy
from secrets import token_bytes
from subprocess import CompletedProcess
from typing import Any

import pytest

from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.nodes import NodeInfo

QUICK = {
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.session.timeout.ms": 3000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
}
"""A stalled member may be out of its group, and an expired transaction ends, within a second."""


Door = tuple[str, bytes]
"""The address and the key with which another process reaches the brokers."""


class Brokers:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = ExitStack()
        self._by_release: dict[str, LocalKafka] = {}

    def of(self, release: str) -> LocalKafka:
        """Return the broker of a release, such as ``4.2.0``."""
        with self._lock:
            if release not in self._by_release:
                self._by_release[release] = self._running.enter_context(LocalKafka(release, properties=QUICK))
            return self._by_release[release]

    def close(self) -> None:
        with self._lock:
            self._running.close()
            self._by_release.clear()


class KafkaProxy(BaseProxy):
    """A `LocalKafka` in the process that owns it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._callmethod("__getattribute__", (name,))

    def client_config(self, extra: Mapping[str, object] | None = None) -> dict[str, object]:
        """As in `LocalKafka`. What a test adds may be a function, which stays here."""
        return {**self._callmethod("client_config"), **(extra or {})}

    def node(self, node_id: int) -> NodeInfo:
        """As in `LocalKafka`."""
        return self._callmethod("node", (node_id,))

    def run_tool(self, main_class: str, *arguments: str, **options: Any) -> CompletedProcess[str]:
        """As in `LocalKafka`."""
        return self._callmethod("run_tool", (main_class, *arguments), options)

    def kafka_features(self, *arguments: str, **options: Any) -> CompletedProcess[str]:
        """As in `LocalKafka`."""
        return self._callmethod("kafka_features", arguments, options)


EXPOSED = ("__getattribute__", "client_config", "node", "run_tool", "kafka_features")


class _Manager(BaseManager):
    """The door to the brokers of another process."""


_TYPES = {"of": "kafka"}
_Manager.register("brokers", exposed=("of",), method_to_typeid=_TYPES)
_Manager.register("kafka", proxytype=KafkaProxy, exposed=EXPOSED, create_method=False)


def _open_door(owned: Brokers) -> Door:

    class Serving(BaseManager):
        pass

    Serving.register("brokers", lambda: owned, exposed=("of",), method_to_typeid=_TYPES)
    Serving.register("kafka", proxytype=KafkaProxy, exposed=EXPOSED, create_method=False)
    key = token_bytes(16)
    server = Serving(authkey=key).get_server()
    threading.Thread(target=server.serve_forever, name="shared brokers", daemon=True).start()
    return server.address, key


OWNED = pytest.StashKey[Brokers]()
DOOR = pytest.StashKey[Door]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[OWNED] = Brokers()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    stash = node.config.stash
    if DOOR not in stash:
        stash[DOOR] = _open_door(stash[OWNED])
    node.workerinput["brokers"] = stash[DOOR]


@pytest.fixture(scope="session")
def shared_kafka(pytestconfig: pytest.Config) -> Callable[[str], LocalKafka]:
    """Return the broker of a release, for tests that use names of their own and leave the broker as it is.

    A test that pauses or restarts brokers, changes levels or needs other properties starts its own cluster.
    """
    if owned := pytestconfig.stash.get(OWNED, None):
        return owned.of
    manager = _Manager(*pytestconfig.workerinput["brokers"])  # type: ignore[attr-defined]
    manager.connect()
    return manager.brokers().of  # type: ignore[attr-defined, no-any-return]


def pytest_unconfigure(config: pytest.Config) -> None:
    if owned := config.stash.get(OWNED, None):
        owned.close()
