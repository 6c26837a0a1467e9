"""pytest fixtures for apps that use featuregate. pytest loads this by itself wherever featuregate is installed.

So every test run in such an environment imports this file, and it imports nothing that costs: what a fixture needs is
imported when that fixture is used.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate.testing.fakes.cluster import FakeCluster
    from featuregate.testing.local_kafka.cluster import LocalKafka
    from featuregate.testing.simulator.cluster import ClusterSpec
    from featuregate.testing.simulator.simulated_cluster import SimulatedCluster

__all__ = [
    "MakeFakeCluster",
    "MakeLocalKafka",
    "MakeSimulatedCluster",
    "fake_cluster",
    "fake_kafka",
    "local_kafka",
    "simulated_kafka",
]


class MakeFakeCluster(Protocol):
    """What the fixture ``fake_cluster`` is: call it as :class:`FakeCluster`, as often as the test wants clusters."""

    def __call__(self, brokers: int = 3, **options: Any) -> FakeCluster:
        """Start a cluster, which is closed when the test ends."""
        ...


class MakeSimulatedCluster(Protocol):
    """What the fixture ``simulated_kafka`` is: call it as :class:`SimulatedCluster`."""

    def __call__(self, start: ClusterSpec, **options: Any) -> SimulatedCluster:
        """Serve a simulated cluster, which is closed when the test ends."""
        ...


class MakeLocalKafka(Protocol):
    """What the fixture ``local_kafka`` is: call it as :class:`LocalKafka`."""

    def __call__(self, version: str, **options: Any) -> LocalKafka:
        """Start real Kafka, which is closed when the test ends."""
        ...


def pytest_configure(config: pytest.Config) -> None:
    """Name our marker to ``--strict-markers``."""
    config.addinivalue_line(
        "markers", "fake_kafka(brokers=3, release='4.2', ...): what the fixture fake_kafka gives to FakeCluster"
    )


@pytest.fixture
def fake_cluster() -> Iterator[MakeFakeCluster]:
    """Start any number of fake clusters: ``fake_cluster(brokers=5, release="3.9")``."""
    from featuregate.testing.fakes.cluster import FakeCluster  # noqa: PLC0415 - see the top

    with ExitStack() as stack:

        def make(brokers: int = 3, **options: Any) -> FakeCluster:
            return stack.enter_context(FakeCluster(brokers, **options))

        yield make


@pytest.fixture
def fake_kafka(fake_cluster: MakeFakeCluster, request: pytest.FixtureRequest) -> FakeCluster:
    """Start one fake cluster, of three brokers unless ``@pytest.mark.fake_kafka(...)`` says otherwise."""
    marker = request.node.get_closest_marker("fake_kafka")
    return fake_cluster(*marker.args, **marker.kwargs) if marker else fake_cluster()


@pytest.fixture
def simulated_kafka() -> Iterator[MakeSimulatedCluster]:
    """Serve simulated clusters: ``simulated_kafka(simulator.KRaft("3.9"))``."""
    from featuregate.testing.simulator.simulated_cluster import SimulatedCluster  # noqa: PLC0415 - see the top

    with ExitStack() as stack:

        def make(start: ClusterSpec, **options: Any) -> SimulatedCluster:
            return stack.enter_context(SimulatedCluster(start, **options))

        yield make


@pytest.fixture
def local_kafka() -> Iterator[MakeLocalKafka]:
    """Start real Kafka on this machine: ``local_kafka("4.2.0", nodes=3)``."""
    from featuregate.testing.local_kafka.cluster import LocalKafka  # noqa: PLC0415 - see the top

    with ExitStack() as stack:

        def make(version: str, **options: Any) -> LocalKafka:
            return stack.enter_context(LocalKafka(version, **options))

        yield make
