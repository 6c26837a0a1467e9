"""A group whose members look at it at the same time: a schedule says which of them does its next step."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator

from builders import broker, view

from featuregate.testing import StaticFeatures
from featuregate_confluent import GroupGate, GroupLatch, GroupLatchState

BOUND = 30.0
TXN = "TxnOffsetCommit>=3"


class Killed(BaseException):
    """Ends the thread of a member that was killed in the middle of a look."""


class MemoryGroupStore:
    def __init__(self) -> None:
        self.states: dict[GroupLatch, GroupLatchState] = {}

    def load_group(self, key: GroupLatch) -> GroupLatchState:
        return self.states.get(key, GroupLatchState())

    def save_group(self, key: GroupLatch, state: GroupLatchState, *, gone: Collection[str] = ()) -> None:
        there = self.load_group(key)
        kept = GroupLatchState(
            {name: stage for name, stage in there.stages.items() if name not in gone}, there.opened_at
        )
        self.states[key] = kept.join(state)


class Process:
    """One process of the app. Each call to the outside waits until the schedule lets the process go on."""

    def __init__(self, world: World, gate_class: type[GroupGate]) -> None:
        self.world = world
        self.name: str | None = None
        self.killed = self.listed = False
        self.stopped_old = 0
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._looking: threading.Thread | None = None
        self.features = StaticFeatures(view(broker(txn=2)))
        self.gate = gate_class(
            self.features,
            self.features.gate("eos", TXN),
            group="billing",
            store=self,
            members=self.members,
            stop_old=self.stop_old,
        )

    def step(self) -> None:
        if self._looking is None:
            self._looking = threading.Thread(target=self._look)
            self._looking.start()
        else:
            self._go.release()
        assert self._paused.acquire(timeout=BOUND)
        if not self._under_way:
            self._looking.join(BOUND)
            self._looking = None

    def finish(self) -> None:
        self.step()
        while self._looking is not None:
            self.step()

    def kill(self) -> None:
        self.killed = True
        while self._looking is not None:
            self.step()

    def _look(self) -> None:
        self._under_way = True
        try:
            self.gate.look()
        except Killed:
            pass
        finally:
            self._under_way = False
            self._paused.release()

    def _pause(self) -> None:
        self._paused.release()
        assert self._go.acquire(timeout=BOUND)
        if self.killed:
            raise Killed

    def stop_old(self) -> None:
        self._pause()
        self.stopped_old += 1

    def members(self) -> Collection[str]:
        self._pause()
        listed = self.world.listed()
        self._pause()
        return listed

    def load_group(self, key: GroupLatch) -> GroupLatchState:
        self._pause()
        state = self.world.store.load_group(key)
        self._pause()
        return state

    def save_group(self, key: GroupLatch, state: GroupLatchState, *, gone: Collection[str] = ()) -> None:
        self._pause()
        self.world.store.save_group(key, state, gone=gone)
        self._pause()


class World:
    """A group, and processes that join, leave, are killed and look, one step of one process after the other."""

    def __init__(self, gate_class: type[GroupGate] = GroupGate) -> None:
        self.gate_class = gate_class
        self.store = MemoryGroupStore()
        self.processes: list[Process] = []
        self.strangers: set[str] = set()
        self._names = 0
        self._opened: set[int] = set()

    def listed(self) -> frozenset[str]:
        return frozenset({process.name for process in self.live() if process.name} | self.strangers)

    def live(self) -> list[Process]:
        return [process for process in self.processes if process.listed and not process.killed]

    def start(self) -> None:
        self.processes.append(Process(self, self.gate_class))

    def join(self, number: int) -> None:
        """Give a process another name, as it gets before brokers list it (KIP-394)."""
        if process := self._process(number):
            self._names += 1
            process.name, process.listed = f"m{self._names}", False
            process.gate.joined(process.name)

    def list(self, number: int) -> None:
        if (process := self._process(number)) and process.name is not None and not process.listed:
            process.listed = True
            self.check()

    def leave(self, number: int) -> None:
        if process := self._process(number):
            process.name, process.listed = None, False

    def kill(self, number: int) -> None:
        if process := self._process(number):
            process.kill()

    def ready(self, number: int) -> None:
        if process := self._process(number):
            process.features.show(view(broker(txn=3)))

    def looks(self, number: int, steps: int) -> None:
        if process := self._process(number):
            for _ in range(steps):
                process.step()
                self.check()

    def check(self) -> None:
        """Check that no two members are on two sides, and that nothing that has opened has closed."""
        sides = {process.gate.side for process in self.live()}
        assert not {"old", "new"} <= sides, "two members are on two sides"
        for number, process in enumerate(self.processes):
            assert process.gate.open is (process.gate.side == "new")
            assert process.gate.open or number not in self._opened, "a gate has closed"
            if process.gate.open:
                self._opened.add(number)
                assert self.store.states, "a gate is open, and the group is not"

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.gate.close()
            process.features.close()

    def _process(self, number: int) -> Process | None:
        alive = [process for process in self.processes if not process.killed]
        return alive[number % len(alive)] if alive else None

    def __iter__(self) -> Iterator[Process]:
        return iter(self.processes)
