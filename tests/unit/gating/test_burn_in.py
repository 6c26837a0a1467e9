"""Burn-in: a gate with ``open_after`` opens only after its requirement has held for that time."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from builders import broker, deaf, update, view
from hypothesis import given
from hypothesis import strategies as st
from memory_latches import MemoryLatchStore

from featuregate.errors import ConfigError, LatchStoreError
from featuregate.gating.burn_in import why_waiting
from featuregate.gating.gates import Gate
from featuregate.gating.latch_store import FileLatchStore, LatchStore
from featuregate.gating.latches import BurnIn, LatchState
from featuregate.gating.store import Store
from featuregate.requirements import Api
from featuregate.testing import StaticFeatures, release_view
from featuregate.view.cluster_view import View

TXN = Api("TxnOffsetCommit") >= 3
HOLDS, FAILS, UNKNOWN = view(broker(txn=3)), view(broker(txn=2)), view(broker(txn=3), deaf(2))
WAIT = 100.0
LONGEST_GAP = 30.0


class Process:
    def __init__(self, latch_store: LatchStore | None = None, *, wall: float = 1_700_000_000.0) -> None:
        self.now, self.wall = 0.0, wall
        self.latch_store = latch_store
        self.restart()

    def restart(self) -> None:
        self.store = Store(
            latch_store=self.latch_store, wall=lambda: self.wall, clock=lambda: self.now, longest_gap=LONGEST_GAP
        )
        self.gate = self.add("eos")

    def add(self, name: str, open_after: float = WAIT) -> Gate:
        return self.store.add_gate(
            name, lambda: Gate(name, TXN, policy="sticky", owner=StaticFeatures(), open_after=open_after)
        )

    def poll(self, seconds: float, seen: View = HOLDS, times: int = 1) -> bool:
        for _ in range(times):
            self.now += seconds
            self.wall += seconds
            update(self.store, seen)
        return self.gate.open


def test_a_gate_opens_after_its_requirement_has_held_for_the_time() -> None:
    process = Process()
    assert not process.poll(0)
    assert not process.poll(20, times=4)
    assert process.gate.decision.verdict == "closed"
    assert process.gate.decision.summary == (
        "closed: burn-in: the requirement holds since 2023-11-14T22:13:20+00:00, counted 0:01:20 of 0:01:40; "
        "the gate opens at 2023-11-14T22:15:00+00:00 if it goes on holding"
    )
    assert process.poll(20)
    assert process.poll(1, FAILS)


OTHER = view(broker(txn=3), cluster_id="other")


@pytest.mark.parametrize(
    "polls",
    [
        [(20, HOLDS, 5, False), (1, FAILS, 1, False), (20, HOLDS, 5, False), (20, HOLDS, 1, True)],
        [(20, HOLDS, 5, False), (20, UNKNOWN, 10, False), (20, HOLDS, 1, False), (20, HOLDS, 1, True)],
        [
            (20, HOLDS, 5, False),
            (5, UNKNOWN, 1, False),
            (5, HOLDS, 1, False),
            (15, HOLDS, 1, False),
            (5, HOLDS, 1, True),
        ],
        [(20, HOLDS, 1, False), (86_400, HOLDS, 1, False), (20, HOLDS, 4, False), (20, HOLDS, 1, True)],
        [(20, HOLDS, 5, False), (20, OTHER, 5, False), (20, OTHER, 1, True)],
    ],
    ids=[
        "it ends",
        "a broker restarts",
        "for a moment",
        "the process is stopped for a day",
        "another cluster has a time of its own",
    ],
)
def test_what_begins_the_time_again_and_what_counts_for_nothing(polls: list[tuple[float, View, int, bool]]) -> None:
    process = Process(MemoryLatchStore())
    assert [process.poll(seconds, seen, times) for seconds, seen, times, _ in polls] == [each[-1] for each in polls]


@pytest.mark.parametrize("jump", [10**9, -(10**9)])
def test_a_wall_clock_that_jumps_moves_nothing(jump: float) -> None:
    process = Process()
    process.poll(20, times=2)
    process.wall += jump
    assert not process.poll(20, times=3)
    assert process.poll(20)


def test_a_restart_continues_the_time(tmp_path: Path) -> None:
    """The latch store has it; the time in which no process ran does not count."""
    first = Process(FileLatchStore(tmp_path))
    first.poll(20, times=4)
    second = Process(FileLatchStore(tmp_path), wall=first.wall + 10**6)
    assert not second.poll(0)
    assert "holds since 2023-11-14T22:13:40+00:00, counted 0:01:00 of" in str(second.gate.decision)
    assert not second.poll(20)
    assert second.poll(20)
    third = Process(FileLatchStore(tmp_path))
    assert third.poll(0, FAILS)


def test_a_level_that_went_back_while_no_process_ran_starts_the_time_again(tmp_path: Path) -> None:
    """The first poll after the restart shows it."""
    Process(FileLatchStore(tmp_path)).poll(20, times=5)
    second = Process(FileLatchStore(tmp_path))
    second.poll(0, FAILS)
    third = Process(FileLatchStore(tmp_path))
    assert not third.poll(20, times=5)
    assert third.poll(20)


def test_processes_that_share_a_latch_store_do_not_add_up_their_times() -> None:
    """Two that poll in turn wait as long as one."""
    latch_store = MemoryLatchStore()
    processes = [Process(latch_store), Process(latch_store)]
    for _ in range(5):
        for process in processes:
            assert not process.poll(20)
    assert processes[0].poll(20)
    assert processes[1].poll(0)


def test_the_latch_store_is_not_written_at_each_poll() -> None:
    """A hundred times for each burn-in is enough: a restart loses a hundredth at the most."""
    latch_store = MemoryLatchStore()
    process = Process(latch_store)
    process.poll(0.05, times=100)
    assert 1 < latch_store.saves < 10


def test_a_gate_does_not_open_while_its_burn_in_is_not_durable() -> None:
    """It opens with the first write that succeeds."""
    latch_store = MemoryLatchStore()
    process = Process(latch_store)
    process.poll(0)
    latch_store.full = LatchStoreError("/latches", "full")
    assert not process.poll(20, times=10)
    latch_store.full = None
    assert process.poll(20)


def test_a_gate_that_is_made_between_polls_counts_no_time_for_others() -> None:
    """Only polls show that the requirement holds."""
    process = Process()
    process.poll(20, times=5)
    process.now += 25
    process.add("other")
    assert not process.gate.open
    assert not process.add("late").open
    assert process.add("at once", open_after=0.0).open


def test_a_gate_that_is_made_between_polls_does_not_split_the_time_between_them() -> None:
    """A time between two polls that is too long to count would become two short ones."""
    process = Process()
    process.poll(20, times=5)
    process.now += LONGEST_GAP / 2
    process.add("other")
    assert not process.poll(LONGEST_GAP - 1)


def test_a_gate_whose_burn_in_another_process_has_ended_opens_when_it_is_made() -> None:
    """The latch store says so, and the view at hand proves the requirement."""
    latch_store = MemoryLatchStore()
    counted = BurnIn(gate="late", requirement=str(TXN), attempt=1, seconds=WAIT, since=0.0)
    latch_store.save(LatchState(cluster_id="c", burn_ins={counted.key: counted}))
    process = Process(latch_store)
    process.poll(0)
    assert process.add("late").open


def test_a_count_begins_ends_and_begins_again() -> None:
    """Each attempt has a number, the time since which it holds, and the seconds of polls that saw it hold."""
    process = Process()

    def counted() -> list[tuple[int, float, float | None]]:
        return [(one.attempt, one.seconds, one.since) for one in process.store.latch_state.burn_ins.values()]

    began = process.wall
    process.poll(0, FAILS)
    assert counted() == []
    process.poll(0)
    assert counted() == [(1, 0.0, began)]
    process.poll(20)
    process.poll(0, UNKNOWN)
    assert counted() == [(1, 20.0, began)]
    process.poll(10, FAILS, times=2)
    assert counted() == [(2, 0.0, None)]
    process.poll(5, UNKNOWN)
    process.poll(5)
    process.poll(LONGEST_GAP)
    assert counted() == [(2, LONGEST_GAP, began + 50)]


def test_a_burn_in_that_is_over_waits_for_nothing() -> None:
    assert why_waiting(None, 0.0, 0.0) is None
    assert (why_waiting(None, 60.0, 0.0) or "").startswith("the requirement holds, counted 0:00:00 of 0:01:00;")


@pytest.mark.parametrize(
    "open_after", [timedelta(0), timedelta(seconds=-1), 60, timedelta(days=36_525, seconds=1), timedelta.max]
)
def test_invariant_18_a_burn_in_is_a_time_that_clocks_can_reach(open_after: Any) -> None:
    """In one line that says what to give; no gate is left behind, which would spoil each poll."""
    features = StaticFeatures(release_view("4.2"))
    with pytest.raises(ConfigError, match="open_after: must be a timedelta above 0 and at most 100 years"):
        features.gate("eos", TXN, open_after=open_after)
    assert features.pin() == {}
    assert not features.gate("long", TXN, open_after=timedelta(days=36_525)).open


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["holds"] * 6 + ["fails", "unknown", "restart", "jump", "sleep"]),
            st.sampled_from([0.0, 5.0, 20.0, 29.0]),
        ),
        max_size=80,
    )
)
def test_no_gate_opens_before_its_burn_in(script: list[tuple[int, str, float]]) -> None:
    """When a gate latches, none of three processes with one latch store has seen its requirement end for that time."""
    latch_store = MemoryLatchStore()
    processes = [Process(latch_store) for _ in range(3)]
    now, ended_at, latched = 0.0, 0.0, False
    for at, what, seconds in script:
        passed = seconds + (1000.0 if what == "sleep" else 0.0)
        now += passed
        for each in processes:
            each.now += passed
        process = processes[at]
        if what == "restart":
            process.restart()
        elif what == "jump":
            process.wall += 10**6
        elif what != "sleep":
            process.poll(0, {"holds": HOLDS, "fails": FAILS, "unknown": UNKNOWN}[what])
        if process.gate.open and not latched:
            assert what == "holds"
            assert now - ended_at >= WAIT
            latched = True
        ended_at = now if what == "fails" else ended_at
