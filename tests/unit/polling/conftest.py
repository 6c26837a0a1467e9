"""What the tests of polling share."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest


@pytest.fixture
def poll_threads() -> Callable[[], list[threading.Thread]]:
    """Return how to list the threads that poll: those of a test before may still end."""
    before = threading.enumerate()
    return lambda: [each for each in threading.enumerate() if each.name == "featuregate-poll" and each not in before]
