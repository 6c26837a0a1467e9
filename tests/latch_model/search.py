"""The search: every state that can be reached, breadth first, and the shortest way to a violation."""

from collections import deque
from dataclasses import dataclass

from latch_model.moves import moves
from latch_model.scenario import Scenario, Violation
from latch_model.world import World, canonical


@dataclass(frozen=True)
class Found:
    """What a search has found."""

    states: int
    transitions: int
    trace: tuple[str, ...]
    """The shortest way to a violation, which is its last sentence; empty: there is none."""

    def __str__(self) -> str:
        steps = "\n".join(f"  {number:2}. {step}" for number, step in enumerate(self.trace, 1))
        return f"{self.states} states, {self.transitions} transitions\n{steps or '  no violation'}"


def search(scenario: Scenario) -> Found:
    """Explore every state of the scenario, up to the first violation."""
    start = canonical(scenario.start(), scenario.ours)
    parents: dict[World, World | None] = {start: None}
    waiting = deque([start])
    transitions = 0
    while waiting:
        world = waiting.popleft()
        try:
            for _, after in moves(world, scenario):
                transitions += 1
                twin = canonical(after, scenario.ours)
                if twin not in parents:
                    parents[twin] = world
                    waiting.append(twin)
        except Violation:
            return Found(len(parents), transitions, _trace(world, parents, scenario))
    return Found(len(parents), transitions, ())


def _trace(last: World, parents: dict[World, World | None], scenario: Scenario) -> tuple[str, ...]:
    """Walk the same way once more under names that stay, so that people can read it."""
    way = [last]
    while (parent := parents[way[-1]]) is not None:
        way.append(parent)
    world, steps = scenario.start(), []
    for twin in way[-2::-1]:
        name, world = next(move for move in _until(world, scenario) if canonical(move[1], scenario.ours) == twin)
        steps.append(name)
    try:
        deque(moves(world, scenario), maxlen=0)
    except Violation as violation:
        steps.append(str(violation))
    return tuple(steps)


def _until(world: World, scenario: Scenario) -> list[tuple[str, World]]:
    found = []
    try:
        for move in moves(world, scenario):
            found.append(move)  # noqa: PERF402  # what came before the violation counts
    except Violation:
        pass
    return found
