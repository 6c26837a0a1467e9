"""What starts and ends together: a worker, and the reports of the gates."""

import os
import threading
from types import SimpleNamespace

import pytest

from featuregate.errors import ClosedError
from featuregate.polling.worker import Lifecycle

CLOSED = r"^this discoverer has been closed; make a new one$"


class Part:
    """A worker, or reports: it notes what it was told, and in which thread."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.closed_by: threading.Thread | None = None
        self.lives = True
        self.still = False

    def alive(self) -> bool:
        return self.lives

    def hangs(self) -> bool:
        return self.still

    def start(self) -> None:
        self.told.append("start")

    def stop(self) -> None:
        self.told.append("stop")

    async def stopped(self) -> None:
        self.told.append("stopped")

    def close(self) -> None:
        self.told.append("close")
        self.closed_by = threading.current_thread()

    def forked(self) -> None:
        self.told.append("forked")


class Life:
    """A lifecycle of parts."""

    def __init__(self, *, reports: bool = True) -> None:
        self.reports = Part() if reports else None
        self.workers: list[Part] = []
        self.poller = SimpleNamespace(state=SimpleNamespace(closed=False))
        self.cycle = Lifecycle(self.poller, self.reports)

    def begin(self, poller: object) -> Part:
        assert poller is self.poller
        self.workers.append(Part())
        return self.workers[-1]

    def told(self) -> tuple[list[str], list[list[str]]]:
        """Return what the reports and each worker were told."""
        return (self.reports.told if self.reports else []), [each.told for each in self.workers]


@pytest.mark.parametrize("reports", [True, False])
def test_it_starts_once_and_again_where_a_worker_has_ended(*, reports: bool) -> None:
    """As where the loop of an app has ended."""
    life = Life(reports=reports)
    assert (life.cycle.worker, life.cycle.polling) == (None, False)
    for _ in range(2):
        life.cycle.start(life.begin)
    assert (life.cycle.worker, life.cycle.polling) == (life.workers[0], True)
    life.workers[0].lives = False
    assert not life.cycle.polling
    life.cycle.start(life.begin)
    assert life.told() == (["start", "start"] * reports, [[], []])


@pytest.mark.parametrize("reports", [True, False])
def test_what_has_ended_stays_so(*, reports: bool) -> None:
    life = Life(reports=reports)
    life.cycle.start(life.begin)
    for _ in range(2):
        life.cycle.close()
    assert (life.poller.state.closed, life.cycle.worker, life.cycle.polling) == (True, None, False)
    with pytest.raises(ClosedError, match=CLOSED):
        life.cycle.start(life.begin)
    assert life.told() == (["start", "close", "close", "close"] * reports, [["stop"]])


def test_an_end_in_the_middle_of_a_start_ends_what_has_begun() -> None:
    """The handler of a signal may close it."""
    life = Life()

    def begin(poller: object) -> Part:
        life.cycle.close()
        return life.begin(poller)

    with pytest.raises(ClosedError, match=CLOSED):
        life.cycle.start(begin)
    assert life.told() == (["close", "start", "close"], [["stop"]])


@pytest.mark.parametrize("reports", [True, False])
async def test_the_end_in_a_loop_waits_for_the_task_and_not_in_the_loop_for_the_reports(*, reports: bool) -> None:
    """A sender may block. Without a worker there is nothing to wait for."""
    life = Life(reports=reports)
    await life.cycle.aclose()
    life = Life(reports=reports)
    closed_by = []
    if life.reports is not None:
        life.reports.close = lambda: closed_by.append(threading.current_thread())  # type: ignore[method-assign]
    life.cycle.start(life.begin)
    await life.cycle.aclose()
    assert life.told()[1] == [["stop", "stopped"]]
    assert life.poller.state.closed
    assert len(closed_by) == 2 * reports
    assert not closed_by or closed_by[0] is not threading.current_thread()


async def test_reports_that_fail_at_the_end_leave_no_worker() -> None:
    life = Life()
    life.cycle.start(life.begin)
    errors = [OSError("lost")]

    def close() -> None:
        if errors:
            raise errors.pop()

    life.reports.close = close  # type: ignore[method-assign,union-attr]
    with pytest.raises(OSError, match="lost"):
        await life.cycle.aclose()
    assert life.told()[1] == [["stop"]]
    assert life.cycle.worker is None


@pytest.mark.parametrize("reports", [True, False])
def test_a_forked_child_has_no_worker_and_a_lock_of_its_own(*, reports: bool) -> None:
    """The one of its parent may have been held by another thread."""
    life = Life(reports=reports)
    life.cycle.start(life.begin)
    other = threading.Thread(target=life.cycle._lock.acquire)
    other.start()
    other.join()
    life.cycle.forked()
    assert life.cycle.worker is None
    life.cycle.start(life.begin)
    assert life.told() == (["start", "forked", "start"] * reports, [[], []])


def test_a_worker_that_hangs_is_not_said_to_poll_and_not_doubled(caplog: pytest.LogCaptureFixture) -> None:
    """The log has it once, with the process: a forked child is one of many."""
    life = Life()
    life.cycle.start(life.begin)
    life.workers[0].still = True
    assert [life.cycle.polling, life.cycle.polling] == [False, False]
    life.cycle.start(life.begin)
    assert len(life.workers) == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"nothing polls in process {os.getpid()}: its thread hangs; restart the process"
    ]
    life.workers[0].still = False
    assert life.cycle.polling
