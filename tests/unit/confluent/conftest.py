"""A cluster in this process, for the clients of the switch."""

from collections.abc import Iterator

import pytest
from mock_kafka import MockKafka

from featuregate_librdkafka import offsets


@pytest.fixture(autouse=True)
def _nothing_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose no time between two reads: these clusters show offsets at once. A real one of 2.4.1 is tried, too."""
    monkeypatch.setattr(offsets, "LATE_SECONDS", 0.0)


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka() as kafka:
        yield kafka
