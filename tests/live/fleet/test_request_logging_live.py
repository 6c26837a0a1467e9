"""``featuregate fleet logging`` on a real broker."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fleet_lines import read_line
from waiting import eventually

from featuregate.admin.loggers import LogLevels
from featuregate.testing import LocalKafka
from featuregate_fleet.evidence.lines.request import LoggedRequest

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def requests_in(log: Path) -> int:
    with log.open(errors="replace") as lines:
        return sum(isinstance(read_line(line.rstrip("\n")), LoggedRequest) for line in lines)


@pytest.mark.parametrize("kafka", [pytest.param("3.9.2", marks=pytest.mark.proof("fleet")), "4.2.0"], indirect=True)
def test_a_broker_logs_requests_until_it_is_told_to_stop(kafka: LocalKafka, tmp_path: Path) -> None:
    """By SIGTERM long before the time is over: then the level is what it was."""
    levels = LogLevels(kafka.bootstrap)
    (before,) = levels.read()
    assert before.failure is None
    log = kafka.node(1).log
    requests = requests_in(log)

    server = ["--bootstrap-server", kafka.bootstrap]
    command = [sys.executable, "-m", "featuregate", "fleet", "logging", "on", "--for", "1h", *server]
    out = tmp_path / "out"
    with out.open("w") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT) as logging:
        try:
            eventually(lambda: "It ends in" in out.read_text() or logging.poll() is not None, "the log is on", 240)
            (during,) = levels.read()
            assert during.level == "DEBUG"
            eventually(lambda: requests_in(log) > requests, "a request is logged", 240)
        finally:
            logging.send_signal(signal.SIGTERM)
        assert logging.wait(240) == 0
    assert out.read_text().splitlines()[-1] == f"broker 1: {before.level}"
    assert list(levels.read()) == [before]
