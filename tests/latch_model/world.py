"""The world in which the latch protocol is checked: what a cluster, a group and its members can be.

Everything is a tuple, so that a state can be a key. Generations have no numbers: all that a broker asks is whether a
member belongs to the present one (``Slot.live``). So the states are finite without any bound on crashes, rebalances
or time.
"""

from functools import cache
from typing import Any, NamedTuple

PARTITIONS = (0, 1)
UNREAD = -1
NO_OWNER = -1
NOTHING = 0  # beside the numbers of Model

# Brokers: two, rolled one by one. The group's coordinator is on either, and moves while they differ.
OLD, MIXED_ASKS_OLD, MIXED_ASKS_NEW, NEW = range(4)

# A member: not there, assigned but nothing done, decided on a model, ids taken, offsets read and consuming.
OUT, ASSIGNED, DECIDED, TAKEN, RUNNING = range(5)

# A transactional id: nothing open, outputs produced, offsets sent, commit decided but markers not written everywhere.
IDLE, OPEN, SENT, ENDING = range(4)

# An input: its output was never committed, is committed once, or was before somebody reset the group to do it again.
NEVER, ONCE, AGAIN = range(3)


class Txn(NamedTuple):
    """A transactional id, and the transaction under it."""

    owner: int = NO_OWNER
    """The slot whose process initialised it last; NO_OWNER: that process is gone, or a time-out fenced it."""
    phase: int = IDLE
    inputs: tuple[tuple[int, int], ...] = ()
    """Partition and offset of what its outputs were made from."""
    text: str = ""
    """The metadata that its offsets carry."""


class Slot(NamedTuple):
    """A process of the app, or the place of one."""

    step: int = OUT
    live: bool = False
    """Whether the coordinator counts it in the present generation; who is not, and runs, is a zombie."""
    owns: tuple[int, ...] = ()
    """The partitions that it believes to own."""
    fresh: tuple[int, ...] = ()
    """Those of them that it has not taken over yet."""
    take: tuple[int, ...] = ()
    """The partitions whose legacy ids it is about to take."""
    model: int = NOTHING
    running: int = NOTHING
    """The model of its last committed transaction."""
    at: tuple[int, ...] = (UNREAD,) * len(PARTITIONS)
    """The next offset that it will consume, partition by partition."""


class World(NamedTuple):
    """One state. Its ids are the legacy id of each partition, then the v2 id of each slot."""

    brokers: int
    log: tuple[tuple[int, str], ...]
    """Committed offset and metadata, partition by partition."""
    outputs: tuple[tuple[int, ...], ...]
    ids: tuple[Txn, ...]
    slots: tuple[Slot, ...]
    before: tuple[bool, ...] = ()
    """Which foreign members were live in the generation before."""
    mirror: int = NOTHING
    latched: bool = False
    """Whether a v2 commit was ever durable. No member sees this."""


def v2_id(slot: int) -> int:
    return len(PARTITIONS) + slot


def put(row: tuple[Any, ...], index: int, value: object) -> tuple[Any, ...]:
    return (*row[:index], value, *row[index + 1 :])


def with_slot(world: World, index: int, **changes: Any) -> World:
    return world._replace(slots=put(world.slots, index, world.slots[index]._replace(**changes)))


def with_id(world: World, index: int, **changes: Any) -> World:
    return world._replace(ids=put(world.ids, index, world.ids[index]._replace(**changes)))


def pending(world: World, partitions: tuple[int, ...]) -> bool:
    """Say whether a transaction holds offsets of these partitions that are not settled."""
    return any(txn.phase >= SENT and partition in partitions for txn in world.ids for partition, _ in txn.inputs)


def gone(world: World, slot: int) -> World:
    """End the process of a slot, and abort what it has not decided to commit.

    In truth that is aborted later, by a time-out or by the next process that takes the id; until then it only makes
    others wait. Whatever can happen after a late abort can so happen after one at once.
    """
    ids = tuple(_left(txn) if txn.owner == slot else txn for txn in world.ids)
    return world._replace(ids=ids, slots=put(world.slots, slot, Slot()))


def _left(txn: Txn) -> Txn:
    return txn._replace(owner=NO_OWNER) if txn.phase == ENDING else Txn()


def canonical(world: World, ours: int) -> World:
    """Return the one world that stands for all that differ in names: of our slots, of foreign ones, of partitions."""
    return min(_named(world, ours), _named(_mirrored(world), ours))


def _named(world: World, ours: int) -> World:
    brokers, log, outputs, ids, slots, before, mirror, latched = world
    count = len(slots)
    first, second = ids[0].owner, ids[1].owner
    keys = [
        (
            slot >= ours,
            slots[slot],
            _own(ids[2 + slot], slot),
            first == slot,
            second == slot,
            before[slot : slot + 1],
            slot,
        )
        for slot in range(count)
    ]
    if all(keys[slot] <= keys[slot + 1] for slot in range(count - 1)):
        return world
    keys.sort()
    order = tuple(key[-1] for key in keys)
    return World(
        brokers,
        log,
        outputs,
        (_given(ids[0], order), _given(ids[1], order), *(_given(ids[2 + slot], order) for slot in order)),
        tuple(slots[slot] for slot in order),
        tuple(before[slot] for slot in order) if before else (),
        mirror,
        latched,
    )


@cache
def _own(txn: Txn, slot: int) -> Txn:
    return txn._replace(owner=int(txn.owner == slot))


@cache
def _given(txn: Txn, order: tuple[int, ...]) -> Txn:
    return txn if txn.owner == NO_OWNER else txn._replace(owner=order.index(txn.owner))


def _mirrored(world: World) -> World:
    brokers, log, outputs, ids, slots, before, mirror, latched = world
    first, second, *rest = map(_mirrored_txn, ids)
    slots = tuple(map(_mirrored_slot, slots))
    return World(brokers, log[::-1], outputs[::-1], (second, first, *rest), slots, before, mirror, latched)


@cache
def _mirrored_txn(txn: Txn) -> Txn:
    return txn._replace(inputs=tuple(sorted((1 - partition, offset) for partition, offset in txn.inputs)))


@cache
def _mirrored_slot(slot: Slot) -> Slot:
    return slot._replace(owns=_flip(slot.owns), fresh=_flip(slot.fresh), take=_flip(slot.take), at=slot.at[::-1])


def _flip(partitions: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(1 - partition for partition in partitions))
