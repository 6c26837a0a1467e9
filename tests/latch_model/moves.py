"""What can happen next: each move as a sentence, and the world after it."""

from collections.abc import Callable, Iterator

from latch_model.rebalance import rebalances
from latch_model.scenario import Move, Scenario
from latch_model.takeover import decides, looks_again, reads, renews, takes
from latch_model.transactions import ids_of, markers, sends, transacts
from latch_model.world import (
    AGAIN,
    ASSIGNED,
    DECIDED,
    ENDING,
    IDLE,
    MIXED_ASKS_NEW,
    MIXED_ASKS_OLD,
    NEW,
    OLD,
    ONCE,
    OUT,
    PARTITIONS,
    RUNNING,
    SENT,
    TAKEN,
    Slot,
    World,
    gone,
    put,
)

ROLLS = {
    OLD: (MIXED_ASKS_OLD, MIXED_ASKS_NEW),
    MIXED_ASKS_OLD: (MIXED_ASKS_NEW, NEW),
    MIXED_ASKS_NEW: (MIXED_ASKS_OLD, NEW),
    NEW: (),
}


SAID = {
    OLD: "old",
    MIXED_ASKS_OLD: "mixed, an old one coordinates the group",
    MIXED_ASKS_NEW: "mixed, a new one coordinates the group",
    NEW: "all new",
}


def moves(world: World, scenario: Scenario) -> Iterator[Move]:
    for said, after in _all_moves(world, scenario):
        yield said, _tidied(after, scenario) if scenario.tidy else after


def _all_moves(world: World, scenario: Scenario) -> Iterator[Move]:
    yield from _brokers(world, scenario)
    yield from rebalances(world, scenario)
    if scenario.lag:
        yield from markers(world, scenario)
    for index, slot in enumerate(world.slots):
        at_once = scenario.tidy and scenario.has("R9") and not scenario.is_foreign(index)
        if slot.step != OUT:
            yield f"{scenario.name(index)} crashes or gives up", gone(world, index)
        if slot.step == ASSIGNED:
            yield from decides(world, index, scenario)
        elif slot.step == DECIDED:
            taken = takes(world, index, scenario)
            yield from _then(reads, taken, index, scenario) if at_once else taken
        elif slot.step == TAKEN:
            yield from reads(world, index, scenario)
        elif slot.step == RUNNING:
            yield from looks_again(world, index, scenario)
            for number in ids_of(slot, index):
                renewed = renews(world, index, number, scenario)
                yield from _then(reads, renewed, index, scenario) if at_once else renewed
                found = transacts(world, index, number, scenario)
                if at_once and world.ids[number].phase == IDLE and world.ids[number].owner == index:
                    found = _then(sends, found, index, scenario, number)
                yield from found


def _then(
    step: Callable[..., Iterator[Move]], found: Iterator[Move], index: int, scenario: Scenario, *more: int
) -> Iterator[Move]:
    for said, between in found:
        for also, after in step(between, index, scenario, *more):
            yield f"{said}; {also}", after


def _tidied(world: World, scenario: Scenario) -> World:
    """Forget of our zombies what can make no difference, where all brokers are new.

    Brokers refuse whatever they send (R2), so all that is left to them is to commit, or not, what they have sent. They
    may also take ids from others; but these others may as well crash at that moment.
    """
    for index, slot in enumerate(world.slots):
        if slot.step != OUT and not slot.live and not scenario.is_foreign(index):
            sent = [number for number, txn in enumerate(world.ids) if txn.owner == index and txn.phase == SENT]
            if sent:
                owns = tuple(number for number in sent if number in PARTITIONS)
                left = Slot(RUNNING, live=False, owns=owns, model=slot.model)
                world = world._replace(slots=put(world.slots, index, left))
            elif not any(txn.owner == index and txn.phase == ENDING for txn in world.ids):
                world = gone(world, index)
    return world


def _brokers(world: World, scenario: Scenario) -> Iterator[Move]:
    for after in ROLLS[world.brokers]:
        yield f"brokers are {SAID[after]}", world._replace(brokers=after)
    if scenario.resets and not any(slot.live for slot in world.slots):
        for chosen in ((0,), (1,), PARTITIONS):
            if any(world.log[partition] != (0, "") for partition in chosen):
                yield f"offsets of partitions {chosen} expire, or are reset", _reset(world, chosen)


def _reset(world: World, chosen: tuple[int, ...]) -> World:
    return world._replace(
        log=tuple((0, "") if partition in chosen else world.log[partition] for partition in PARTITIONS),
        outputs=tuple(
            tuple(AGAIN if done == ONCE else done for done in outputs) if partition in chosen else outputs
            for partition, outputs in enumerate(world.outputs)
        ),
    )
