"""A cluster in this process, for the clients of the switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mock_kafka import MockKafka

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka() as kafka:
        yield kafka
