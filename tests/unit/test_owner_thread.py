"""One thread for an owner: it steps when it is due or woken, and neither outlives its owner nor keeps it alive."""

import gc
import threading
import weakref

import pytest
from waiting import eventually

from featuregate.owner_thread import OwnerThread

BOUND = 20.0
NAME = "featuregate-test-owner"


class Owner:
    """Counts its steps."""

    def __init__(self, delay: float | None = 3600.0) -> None:
        self.delay = delay
        self.steps = 0
        self.ended: list[str] = []
        self.thread = OwnerThread(self, Owner.step, name=NAME, at_end=Owner.finish)

    def step(self) -> float | None:
        self.steps += 1
        return self.delay

    def finish(self) -> None:
        self.ended.append(threading.current_thread().name)


def running() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == NAME]


@pytest.fixture(autouse=True)
def _no_thread_stays() -> object:
    yield
    eventually(lambda: not running(), "the thread ends", BOUND)


def test_a_wake_brings_the_next_step_and_the_end_the_last_work() -> None:
    """In one thread, however often it is started and ended."""
    owner = Owner()
    for _ in range(3):
        owner.thread.start()
    assert len(running()) == 1
    eventually(lambda: owner.steps == 1, "the first step", BOUND)
    owner.thread.wake()
    eventually(lambda: owner.steps == 2, "the second step", BOUND)
    for _ in range(2):
        owner.thread.end(BOUND)
    assert owner.ended == [NAME]
    assert owner.steps == 2


def test_invariant_8_no_thread_survives_its_owner_or_keeps_it_alive() -> None:
    """Nobody has to end it."""
    owner = Owner()
    owner.thread.start()
    gone = weakref.ref(owner)
    del owner
    eventually(lambda: gc.collect() >= 0 and gone() is None, "nothing holds the owner", BOUND)


def test_a_step_may_end_the_thread_and_a_start_begins_another() -> None:
    """There is no last work then."""
    owner = Owner(delay=None)
    for steps in (1, 2):
        owner.thread.start()
        eventually(lambda: not running(), "the thread ends", BOUND)
        assert owner.steps == steps
    assert owner.ended == []


def test_wakes_of_a_step_that_hangs_do_not_pile_up() -> None:
    """One is enough."""
    entered, release = threading.Event(), threading.Event()

    class Hanging(Owner):
        def step(self) -> float | None:
            entered.set()
            release.wait(BOUND)
            return super().step()

    owner = Hanging()
    owner.thread = OwnerThread(owner, Hanging.step, name=NAME)
    owner.thread.start()
    assert entered.wait(BOUND)
    for _ in range(100):
        owner.thread.wake()
    release.set()
    eventually(lambda: owner.steps == 2, "the step after the wakes", BOUND)
    owner.thread.end(BOUND)
    assert owner.steps == 2
