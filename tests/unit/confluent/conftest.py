"""A cluster in this process, for the clients of the switch."""

from collections.abc import Iterator

import pytest
from mock_kafka import MockKafka


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka() as kafka:
        yield kafka
