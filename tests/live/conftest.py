"""Real brokers that tests share: one of each release in each process of a run."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from eos.pipes import SHORT_GROUPS

from featuregate.testing import LocalKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def shared_kafka() -> Iterator[Callable[[str], LocalKafka]]:
    """Return the broker of a release, for tests that use topics and groups of their own and leave the broker as it is.

    A test that pauses or restarts brokers, changes levels or needs other properties starts its own cluster.
    """
    with ExitStack() as running:
        started: dict[str, LocalKafka] = {}

        def of(release: str) -> LocalKafka:
            if release not in started:
                started[release] = running.enter_context(LocalKafka(release, properties=SHORT_GROUPS))
            return started[release]

        yield of


@pytest.fixture(scope="module")
def kafka(request: pytest.FixtureRequest, shared_kafka: Callable[[str], LocalKafka]) -> LocalKafka:
    """Return the shared broker of 4.2.0, or of the release that ``indirect`` parametrization names."""
    return shared_kafka(getattr(request, "param", "4.2.0"))
