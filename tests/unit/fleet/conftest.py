"""The logs of real brokers."""

from pathlib import Path

import pytest

LOGS = Path(__file__).parents[2] / "data" / "request_logs"
"""What one node of each release wrote while clients asked it, some of them with versions that it refuses."""


@pytest.fixture(params=["0.10.0.1", "0.11.0.3", "2.4.1", "2.7.2", "3.9.2", "4.2.0"])
def real_lines(request: pytest.FixtureRequest) -> list[str]:
    return (LOGS / f"{request.param}.log").read_text().splitlines()
