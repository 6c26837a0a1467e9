"""Real brokers that tests share: one of each release in each process of a run."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from eos.pipes import SHORT_GROUPS

from featuregate.testing import LocalKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class SharedBrokers:
    """The brokers that run, by release."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._by_release: dict[str, LocalKafka] = {}

    def of(self, release: str) -> LocalKafka:
        """Return the broker of a release, which is started for the first test."""
        if release not in self._by_release:
            kafka = LocalKafka(release, properties=SHORT_GROUPS)
            self._by_release[release] = self._running.enter_context(kafka)
        return self._by_release[release]

    def close(self) -> None:
        """Stop them all; a later test starts its broker again."""
        self._by_release.clear()
        self._running.close()


_shared = SharedBrokers()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Stop the brokers after the last test of this folder: each takes 2 % of a core where nothing is asked of it."""
    yield
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        _shared.close()


def pytest_sessionfinish() -> None:
    """Stop the brokers where a run ends at its first failure."""
    _shared.close()


@pytest.fixture(scope="session")
def shared_kafka() -> Callable[[str], LocalKafka]:
    """Return the broker of a release, for tests that use topics and groups of their own and leave the broker as it is.

    A test that pauses or restarts brokers, changes levels or needs other properties starts its own cluster.
    """
    return _shared.of


@pytest.fixture(scope="module")
def kafka(request: pytest.FixtureRequest, shared_kafka: Callable[[str], LocalKafka]) -> LocalKafka:
    """Return the shared broker of 4.2.0, or of the release that ``indirect`` parametrization names."""
    return shared_kafka(getattr(request, "param", "4.2.0"))
