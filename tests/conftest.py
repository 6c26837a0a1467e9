"""What every test stands on: hypothesis profiles, and the seed of the run, printed so that it can be run again."""

from __future__ import annotations

import os
import random
import signal

import pytest
from hypothesis import HealthCheck, settings

# No deadline in either: this suite measures nothing, and shares its machine with brokers.
settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), max_examples=200, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed here rather than inside hypothesis, so that the header can say it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As under nohup or in a script's background: every child would inherit it, and Ctrl-C could not be tested.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to run these very examples again."""
    return f"run the same examples again with --hypothesis-seed={config.option.hypothesis_seed}"
