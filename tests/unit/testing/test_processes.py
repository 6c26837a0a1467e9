"""A child process is paused when none of its threads runs any more."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import eventually

from featuregate.testing.local_kafka.processes import ChildProcess, ProcessGroup

MANY_THREADS = """
import threading
for _ in range(200):
    threading.Thread(target=threading.Event().wait).start()
print("ready", flush=True)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the threads of a process from /proc")


@pytest.fixture
def child(tmp_path: Path) -> Iterator[ChildProcess]:
    """Start a process of 201 threads."""
    processes = ProcessGroup("threads")
    try:
        started = processes.start([sys.executable, "-c", MANY_THREADS], log=tmp_path / "log")
        eventually(lambda: started.last_lines(1) == "ready", "the threads run")
        yield started
    finally:
        processes.close()


def states_of_threads(pid: int) -> str:
    """Return one letter for each thread, as in proc(5)."""
    stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return "".join(sorted(stat.rpartition(") ")[2][0] for stat in stats))


def test_every_thread_of_a_paused_process_has_stopped(child):
    """The signal itself stops them one after another, while others may still answer a request."""
    for _ in range(5):
        child.pause()
        assert states_of_threads(child.pid) == "T" * 201
        child.resume()


def test_a_process_is_paused_twice_and_one_that_has_ended_is_not_waited_for(child):
    child.pause()
    child.pause()
    assert child.state == "paused"
    child.kill()
    child.pause()
    assert child.state == "stopped"
