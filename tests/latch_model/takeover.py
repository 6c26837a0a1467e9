"""How a member takes partitions over, and goes up: by the package's own ``protocol`` and ``metadata``.

Foreign members are written by hand: an id for each partition, no metadata, no tag, no stable read.
"""

from collections.abc import Iterator
from functools import cache

from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.protocol import (
    Member,
    Observation,
    Partition,
    decide,
    ids_to_take,
    latch,
    partitions_to_read,
)
from featuregate_confluent.models import Model, tagged
from latch_model.scenario import Move, Scenario, Violation, checks, ended, id_name, mark_of
from latch_model.world import (
    DECIDED,
    ENDING,
    IDLE,
    NEW,
    NOTHING,
    OLD,
    PARTITIONS,
    RUNNING,
    TAKEN,
    Slot,
    Txn,
    World,
    pending,
    v2_id,
    with_id,
    with_slot,
)


@cache
def _member(*, foreign: bool) -> Member:
    client_id = "app" if foreign else tagged("app", Model.BRIDGE)
    return Member(member_id=client_id, client_id=client_id, instance_id=None, host="/127.0.0.1")


@cache
def _choose(gate_open: bool, latched: int, running: int, members: tuple[Member, ...], age: int) -> tuple[Model, str]:  # noqa: FBT001  # cached by value
    seen = Observation(
        gate_open=gate_open,
        gate_why="",
        latch=Model(latched) if latched else None,
        members=members,
        generation_of_members=2 - age,
        generation=2,
    )
    choice = decide(None, seen, Model(running) if running else None)
    return choice.model, choice.why


def looks_again(world: World, index: int, scenario: Scenario) -> Iterator[Move]:
    slot = world.slots[index]
    busy = any(txn.owner == index and txn.phase != IDLE for txn in world.ids)
    if slot.model == Model.V2 or scenario.is_foreign(index) or busy or not slot.owns:
        return
    for said, after in decides(world, index, scenario):
        if after.slots[index].model == Model.V2:
            yield said, after


def decides(world: World, index: int, scenario: Scenario) -> Iterator[Move]:
    """Peek at all marks, and decide. The view of the cluster may be stale, and so may be that of the members."""
    slot = world.slots[index]
    marks = marks_of(world, PARTITIONS)
    peeked = marks if scenario.has("R3") else marks_of(world, slot.owns)
    seen = latch(peeked.values(), Model(world.mirror) if world.mirror else None)
    for model, why in sorted(_choices(world, index, int(seen or NOTHING), scenario)):
        if world.latched and model is not Model.V2:
            raise Violation(f"S3: {scenario.name(index)} takes over in {model.label}, after a v2 commit was durable")
        fresh = _to_read(slot, model, slot.fresh, scenario)
        take = tuple(number for _, number in ids_to_take(model, marks_of(world, slot.fresh)))
        if slot.model == Model.V2 and model.per_partition:
            take = slot.owns  # those of kept partitions were given back
        if model is Model.V2 and not scenario.has("R6"):
            take = ()
        at = slot.at if scenario.has("R8") else _positions(world, fresh, slot)
        name = f"{scenario.name(index)} decides on {model.label}: {why}"
        yield name, with_slot(world, index, step=DECIDED, model=int(model), fresh=fresh, take=take, at=at)


def _named(numbers: tuple[int, ...]) -> tuple[Partition, ...]:
    return tuple(("in", number) for number in numbers)


def marks_of(world: World, numbers: tuple[int, ...]) -> dict[Partition, Mark]:
    return {("in", number): mark_of(world.log[number][1]) for number in numbers}


def _to_read(slot: Slot, model: Model, new: tuple[int, ...], scenario: Scenario) -> tuple[int, ...]:
    before = Model(slot.model) if slot.model and scenario.has("R12") else None
    return tuple(number for _, number in partitions_to_read(before, model, _named(slot.owns), _named(new)))


def _choices(world: World, index: int, latched: int, scenario: Scenario) -> set[tuple[Model, str]]:
    slot = world.slots[index]
    capable = world.brokers == NEW if scenario.has("R4") else world.brokers != OLD
    running = slot.running if scenario.has("R5 by committed") else max(slot.running, slot.model)
    present = tuple(one.live and scenario.is_foreign(number) for number, one in enumerate(world.slots))
    views = {(any(present), 0 if slot.live else 1)}
    if world.before:
        views.add((any(world.before), 1 if scenario.has("R5 in this generation") else 0))
    found = set()
    for foreign, age in views:
        members = (_member(foreign=False), *((_member(foreign=True),) if foreign and scenario.has("R5") else ()))
        found |= {_choose(gate, latched, running, members, age) for gate in {False, capable}}
    return {(model, min(why for other, why in found if other is model)) for model, _ in found}


def _positions(world: World, fresh: tuple[int, ...], slot: Slot) -> tuple[int, ...]:
    return tuple(world.log[partition][0] if partition in fresh else slot.at[partition] for partition in PARTITIONS)


def takes(world: World, index: int, scenario: Scenario) -> Iterator[Move]:
    """Take ids: what is open under them is aborted, what is ending ends first."""
    slot = world.slots[index]
    if scenario.is_foreign(index) and scenario.has("A2") and not slot.live:
        return
    wanted = list(slot.take)
    if slot.model == Model.V2 and world.ids[v2_id(index)].owner != index:
        wanted.append(v2_id(index))
    if any(world.ids[pinned].phase == ENDING for pinned in wanted):
        return
    after = with_slot(world, index, step=TAKEN, take=())
    for pinned in wanted:
        after = with_id(after, pinned, **ended(index))
    said = " ".join(id_name(pinned, scenario) for pinned in wanted) or "(none)"
    yield f"{scenario.name(index)} takes the ids {said}", _gives_back(after, index)


def renews(world: World, index: int, number: int, scenario: Scenario) -> Iterator[Move]:
    """Take an id again after a lost connection, between transactions; a partition's offset is read again (R8).

    The process may be a zombie by now, and another member may have the id.
    """
    txn = world.ids[number]
    if scenario.is_foreign(index) or txn.phase == ENDING or (txn.owner == index and txn.phase != IDLE):
        return
    fresh = (number,) if number in PARTITIONS and scenario.has("R8 after a loss") else ()
    after = with_slot(with_id(world, number, **ended(index)), index, step=TAKEN, fresh=fresh)
    yield f"{scenario.name(index)} has lost a connection, and takes id {id_name(number, scenario)} again", after


def _gives_back(world: World, index: int) -> World:
    if world.slots[index].model != Model.V2:
        return world
    given = tuple(
        Txn() if txn.owner == index and txn.phase != ENDING and number in PARTITIONS else txn
        for number, txn in enumerate(world.ids)
    )
    return world._replace(ids=given)


def reads(world: World, index: int, scenario: Scenario) -> Iterator[Move]:
    """Read the offsets of what is taken over, and decide again where their marks say more than the peek did."""
    slot, name = world.slots[index], scenario.name(index)
    if scenario.is_foreign(index):
        at = _positions(world, slot.fresh, slot)
        yield f"{name} starts at {at}", with_slot(world, index, step=RUNNING, fresh=(), at=at)
        return
    if scenario.has("R1") and checks(world) and pending(world, slot.fresh):
        return
    at = _positions(world, slot.fresh, slot) if scenario.has("R8") else slot.at
    if slot.model != Model.V2 and latch(marks_of(world, slot.fresh).values()) is Model.V2:
        fresh = _to_read(slot, Model.V2, (), scenario)
        changes = {"step": DECIDED, "model": int(Model.V2), "fresh": fresh, "at": at}
        yield f"{name} reads a mark of v2, and goes there", with_slot(world, index, **changes)
    else:
        yield f"{name} starts at {at}", with_slot(world, index, step=RUNNING, fresh=(), at=at)
