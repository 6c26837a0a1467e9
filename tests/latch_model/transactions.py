"""Transactions: what producers, coordinators and brokers make of them."""

from collections.abc import Iterator

from featuregate_confluent.latch.marks import Mark, write
from featuregate_confluent.models import Model
from latch_model.scenario import Move, Scenario, Violation, checks, ended, id_name, mark_of
from latch_model.world import (
    ENDING,
    IDLE,
    NEVER,
    ONCE,
    OPEN,
    PARTITIONS,
    SENT,
    Slot,
    World,
    put,
    v2_id,
    with_id,
    with_slot,
)


def transacts(world: World, index: int, number: int, scenario: Scenario) -> Iterator[Move]:
    txn, name = world.ids[number], scenario.name(index)
    if txn.owner != index:
        if not scenario.has("R10") and txn.phase != ENDING and not scenario.is_foreign(index):
            said = f"{name} is fenced, and takes id {id_name(number, scenario)} again"
            yield said, with_id(world, number, **ended(index))
    elif txn.phase == IDLE:
        yield from _begins(world, index, number, scenario)
    elif txn.phase in (OPEN, SENT):
        yield f"{name} aborts", with_id(world, number, **ended(index))
        if txn.phase == OPEN:
            yield from sends(world, index, scenario, number)
        else:
            yield f"{name} commits {_say(txn.inputs)}", _committed(world, index, number, scenario)


def ids_of(slot: Slot, index: int) -> tuple[int, ...]:
    return (v2_id(index),) if slot.model == Model.V2 else slot.owns


def _begins(world: World, index: int, number: int, scenario: Scenario) -> Iterator[Move]:
    slot = world.slots[index]
    partitions = slot.owns if slot.model == Model.V2 else (number,)
    inputs = tuple((partition, slot.at[partition]) for partition in partitions if slot.at[partition] < scenario.inputs)
    if inputs:
        name = f"{scenario.name(index)} produces under id {id_name(number, scenario)} for {_say(inputs)}"
        yield name, with_id(world, number, phase=OPEN, inputs=inputs)


def sends(world: World, index: int, scenario: Scenario, number: int) -> Iterator[Move]:
    slot, name = world.slots[index], scenario.name(index)
    if scenario.is_foreign(index):
        yield f"{name} sends offsets, without metadata", with_id(world, number, phase=SENT)
        return
    carried = scenario.has("R7") or slot.running != Model.V2
    text = write(Mark(Model(slot.model))) if carried else ""
    if slot.live or not checks(world):
        yield f"{name} sends offsets; {text!r}", with_id(world, number, phase=SENT, text=text)
        return
    # Refused: the process gives up, which is a move of its own.
    if not scenario.has("R2"):
        yield f"{name} sends offsets in generation -1; {text!r}", with_id(world, number, phase=SENT, text=text)


def _committed(world: World, index: int, number: int, scenario: Scenario) -> World:
    slot, txn = world.slots[index], world.ids[number]
    outputs, at = list(world.outputs), slot.at
    for partition, offset in txn.inputs:
        if outputs[partition][offset] == ONCE:
            raise Violation(
                f"S1: {scenario.name(index)} commits, and the output of p{partition}@{offset} is there twice"
            )
        outputs[partition] = put(outputs[partition], offset, ONCE)
        at = put(at, partition, offset + 1)
    after = with_slot(
        world, index, running=max(slot.running, slot.model if slot.model != Model.LEGACY else 0), at=at
    )._replace(outputs=tuple(outputs))
    after = with_id(after, number, phase=ENDING)
    return after if scenario.lag else settled(after, number, scenario)


def markers(world: World, scenario: Scenario) -> Iterator[Move]:
    for index, txn in enumerate(world.ids):
        if txn.phase == ENDING:
            yield f"markers of id {id_name(index, scenario)} are written", settled(world, index, scenario)


def settled(world: World, index: int, scenario: Scenario) -> World:
    txn = world.ids[index]
    log = list(world.log)
    for partition, offset in txn.inputs:
        if NEVER in world.outputs[partition][: offset + 1]:
            raise Violation(f"S2: the group is past an input of p{partition} whose output was never committed")
        log[partition] = (offset + 1, "" if mark_of(txn.text).model is Model.LEGACY else txn.text)
    is_v2 = index >= len(PARTITIONS)
    return with_id(world, index, **ended(txn.owner))._replace(
        log=tuple(log),
        latched=world.latched or is_v2,
        mirror=int(Model.V2) if is_v2 and scenario.resets and scenario.has("R11") else world.mirror,
    )


def _say(inputs: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"p{partition}@{offset}" for partition, offset in inputs)
