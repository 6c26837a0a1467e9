"""Real brokers that tests share: one of each release, see :mod:`shared_brokers`."""

from collections.abc import Callable

import pytest

from featuregate.testing import LocalKafka


@pytest.fixture(scope="module")
def kafka(request: pytest.FixtureRequest, shared_kafka: Callable[[str], LocalKafka]) -> LocalKafka:
    """Return the shared broker of 4.2.0, or of the release that ``indirect`` parametrization names."""
    return shared_kafka(getattr(request, "param", "4.2.0"))
