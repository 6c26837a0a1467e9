"""pytest fixtures for apps that use featuregate. pytest loads this plugin wherever featuregate is installed.

Every test run in such an environment imports this file, so it imports nothing expensive: :mod:`featuregate.testing`
imports its names when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeAlias

import pytest

from featuregate import testing

if TYPE_CHECKING:
    from featuregate.testing.fakes.cluster import FakeCluster
    from featuregate.testing.local_kafka.cluster import LocalKafka


MakeFakeCluster: TypeAlias = "Callable[..., FakeCluster]"
"""The fixture ``fake_cluster``: call it as :class:`FakeCluster`, once for each cluster."""
MakeLocalKafka: TypeAlias = "Callable[..., LocalKafka]"
"""The fixture ``local_kafka``: call it as :class:`LocalKafka`."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, for ``--strict-markers``."""
    config.addinivalue_line(
        "markers", "fake_kafka(brokers=3, release='4.2', ...): arguments of FakeCluster for the fixture fake_kafka"
    )


@pytest.fixture
def fake_cluster() -> Iterator[MakeFakeCluster]:
    """Start any number of fake clusters: ``fake_cluster(brokers=5, release="3.9")``."""
    with ExitStack() as stack:
        yield lambda *brokers, **options: stack.enter_context(testing.FakeCluster(*brokers, **options))


@pytest.fixture
def fake_kafka(fake_cluster: MakeFakeCluster, request: pytest.FixtureRequest) -> FakeCluster:
    """Start one fake cluster, of three brokers unless ``@pytest.mark.fake_kafka(...)`` says otherwise."""
    marker = request.node.get_closest_marker("fake_kafka")
    return fake_cluster(*marker.args, **marker.kwargs) if marker else fake_cluster()


@pytest.fixture
def local_kafka() -> Iterator[MakeLocalKafka]:
    """Start real Kafka on this machine: ``local_kafka("4.2.0", nodes=3)``."""
    with ExitStack() as stack:
        yield lambda version, **options: stack.enter_context(testing.LocalKafka(version, **options))
