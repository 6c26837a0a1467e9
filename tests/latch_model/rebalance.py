"""A new generation: its members, and what each owns. A process that runs and is no member is a zombie."""

from collections.abc import Iterator
from itertools import combinations, permutations

from featuregate_confluent.models import Model
from latch_model.scenario import Move, Scenario
from latch_model.world import ASSIGNED, DECIDED, NOTHING, OPEN, OUT, PARTITIONS, SENT, UNREAD, Slot, Txn, World, v2_id


def rebalances(world: World, scenario: Scenario) -> Iterator[Move]:
    able = [index for index in range(len(world.slots)) if _may_join(world, index, scenario)]
    for size in range(1, len(able) + 1):
        for joining in combinations(able, size):
            if not _worth_a_try(world, joining, able, scenario):
                continue
            for owners in (joining * 2,) if size == 1 else permutations(joining, 2):
                yield _assigned(world, joining, owners, scenario)


def _worth_a_try(world: World, joining: tuple[int, ...], able: list[int], scenario: Scenario) -> bool:
    """Say whether no other rebalance stands for this one.

    Empty places are alike, and are filled in order. In a tidy world, to lose a member of ours that has nothing open is
    to let it crash before.
    """
    ours = [index for index in able if not scenario.is_foreign(index)]
    empty = [index in joining for index in ours if world.slots[index] == Slot() and world.ids[v2_id(index)] == Txn()]
    missed = any(world.slots[index].live and index not in joining for index in ours)
    return empty == sorted(empty, reverse=True) and not (scenario.tidy and missed)


def _may_join(world: World, index: int, scenario: Scenario) -> bool:
    slot = world.slots[index]
    if slot.step == OUT:
        return not scenario.is_foreign(index) or not scenario.has("A1") or not _v2_was_sent(world)
    busy = any(txn.owner == index and txn.phase in (OPEN, SENT) for txn in world.ids)
    return slot.live and (not busy or (not scenario.has("R9") and not scenario.is_foreign(index)))


def _v2_was_sent(world: World) -> bool:
    return world.latched or any(txn.phase >= SENT for txn in world.ids[len(PARTITIONS) :])


def _assigned(world: World, joining: tuple[int, ...], owners: tuple[int, ...], scenario: Scenario) -> Move:
    slots = []
    for index, slot in enumerate(world.slots):
        if index not in joining:
            slots.append(slot._replace(live=False))  # a zombie, where it runs
            continue
        owns = tuple(partition for partition in PARTITIONS if owners[partition] == index)
        kept = () if scenario.eager else tuple(p for p in owns if slot.at[p] != UNREAD and p not in slot.fresh)
        at = tuple(slot.at[partition] if partition in kept else UNREAD for partition in PARTITIONS)
        fresh = tuple(partition for partition in owns if partition not in kept)
        if scenario.is_foreign(index):
            slots.append(Slot(DECIDED, live=True, owns=owns, fresh=fresh, take=fresh, model=Model.LEGACY, at=at))
        else:
            kind = kind_of(slot, kept, scenario)
            slots.append(Slot(ASSIGNED, live=True, owns=owns, fresh=fresh, model=kind, running=slot.running, at=at))
    said = ", ".join(f"p{partition} to {scenario.name(owners[partition])}" for partition in PARTITIONS)
    members = " ".join(scenario.name(index) for index in joining)
    before = tuple(slot.live and scenario.is_foreign(index) for index, slot in enumerate(world.slots))
    return f"a new generation of {members}: {said}", world._replace(
        slots=tuple(slots), before=before if scenario.foreign else ()
    )


def kind_of(slot: Slot, kept: tuple[int, ...], scenario: Scenario) -> int:
    """Return what a process has to remember of its model: all where a rule is broken, else its kind."""
    if not scenario.has("R5 by committed"):
        return slot.model
    return (Model.V2 if slot.model == Model.V2 else Model.LEGACY) if kept and slot.model else NOTHING
