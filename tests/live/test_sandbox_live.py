"""The sandbox of real Kafka, as a process."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil
import pytest

import featuregate as fg
from featuregate.testing.local_kafka.processes import ReservedPorts

pytestmark = pytest.mark.live

BOUND = 240.0


@pytest.mark.skipif(sys.platform != "linux", reason="a reserved port can be used by another process")
def test_the_sandbox_runs_real_kafka_until_ctrl_c_and_leaves_nothing() -> None:
    """At the port that the user chose, with the levels that the user chose."""
    reserved = ReservedPorts([0])
    port = str(reserved.numbers[0])
    command = [sys.executable, "-m", "featuregate", "sandbox", "4.2.0", "--port", port, "--features", "group.version=0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert any("Ctrl-C ends it" in line for line in process.stdout)
        brokers = psutil.Process(process.pid).children(recursive=True)
        assert fg.discover(f"localhost:{port}").level("group.version") == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(BOUND) == 0
        assert psutil.wait_procs(brokers, BOUND)[1] == []
    finally:
        process.kill()
        process.communicate()
        reserved.close()
