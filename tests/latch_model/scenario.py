"""Which world is explored, what its members leave out, and what may never happen."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from featuregate_confluent.latch.marks import Mark, read
from latch_model.world import IDLE, MIXED_ASKS_NEW, NEVER, NEW, PARTITIONS, Slot, Txn, World

Move = tuple[str, World]


class Violation(Exception):
    """A safety property does not hold after this move."""


@dataclass(frozen=True)
class Scenario:
    """Which world is explored, and what its members leave out."""

    ours: int = 3
    foreign: int = 0
    inputs: int = 1
    brokers: int = NEW
    resets: bool = False
    """Whether offsets expire and are reset; only then is there a mirror."""
    lag: bool = False
    """Whether markers may be written long after the commit was decided."""
    eager: bool = False
    """Whether a rebalance takes every partition away first."""
    tidy: bool = False
    """Whether steps are joined between which nothing matters, and zombies lose what makes no difference.

    For new brokers and all rules. A member takes ids and reads in one step: whatever else settles in between may as
    well settle before. It produces and sends in one step: a member that is cut off in between is refused, as if it
    had crashed. The small worlds are searched in full, to find that this hides nothing.
    """
    without: frozenset[str] = frozenset()
    """Rules (R1 to R12) and assumptions (A1, A2) that do not hold."""

    def has(self, rule: str) -> bool:
        return rule not in self.without

    def start(self) -> World:
        count = self.ours + self.foreign
        return World(
            brokers=self.brokers,
            log=((0, ""),) * len(PARTITIONS),
            outputs=((NEVER,) * self.inputs,) * len(PARTITIONS),
            ids=(Txn(),) * (len(PARTITIONS) + count),
            slots=(Slot(),) * count,
            before=(False,) * count if self.foreign else (),
        )

    def is_foreign(self, slot: int) -> bool:
        return slot >= self.ours

    def name(self, slot: int) -> str:
        return f"foreign{slot - self.ours}" if self.is_foreign(slot) else f"m{slot}"


def checks(world: World) -> bool:
    """Say whether the group's coordinator checks generations, and knows stable reads."""
    return world.brokers in (MIXED_ASKS_NEW, NEW)


def id_name(index: int, scenario: Scenario) -> str:
    return f"p{index}" if index < len(PARTITIONS) else scenario.name(index - len(PARTITIONS))


def ended(owner: int) -> dict[str, Any]:
    return {"owner": owner, "phase": IDLE, "inputs": (), "text": ""}


@cache
def mark_of(text: str) -> Mark:
    return read(text)
