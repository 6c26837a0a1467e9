"""Scripts made up by chance, and a failing one made small.

Shrinking is by hand and not by hypothesis, because the explorer is for users' tests too, and those should need
nothing but featuregate; a script is a flat tuple of plain values, so that leaving events out is all there is to do.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from featuregate.testing.simulator.cluster import apply
from featuregate.testing.simulator.events import (
    AppRestarts,
    CatchUp,
    ClockJumps,
    ClusterEvent,
    Event,
    Garble,
    Heal,
    HoldRegistrations,
    Join,
    Kill,
    Lag,
    Leave,
    Look,
    Partition,
    Pause,
    Rebuild,
    ReleaseRegistrations,
    Restore,
    Resume,
    Roll,
    ScriptError,
    Start,
    Stop,
    Tick,
    UpdateFeatures,
)
from featuregate.testing.simulator.scripts.script import Script, check
from featuregate.testing.simulator.zookeeper.cluster import ZooKeeper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from featuregate.testing.simulator.cluster import Beginning, Cluster

__all__ = ["Check", "ScriptFailed", "Vocabulary", "as_code", "explore", "make_up", "shrink"]

Check = Callable[[Script], object]
"""What a script must survive: raises where it does not."""

_WEIGHTS: Final[Mapping[type[Event], int]] = {
    Look: 12,
    Roll: 8,
    UpdateFeatures: 7,
    Tick: 4,
    Lag: 3,
    CatchUp: 3,
    Start: 3,
    Stop: 2,
    Kill: 2,
    Pause: 2,
    Resume: 3,
    Partition: 2,
    Heal: 3,
    Garble: 2,
    AppRestarts: 1,
    ClockJumps: 1,
    Join: 1,
    Leave: 1,
    Rebuild: 1,
    Restore: 1,
    HoldRegistrations: 1,
    ReleaseRegistrations: 2,
}
_WITH_ZOOKEEPER: Final = (HoldRegistrations, ReleaseRegistrations)
_BROKERS_AT_MOST: Final = 6
_TICKS: Final = (1, 2, 20, 50)
_CUTS: Final = (0, 3, 11, 200)
_JUMP: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What made-up scripts may use."""

    binaries: Sequence[str]
    """What nodes are rolled to."""
    levels: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Feature to the levels that the operator asks for."""


class ScriptFailed(AssertionError):
    """A made-up script failed, and this is the smallest part of it that does.

    Attributes
    ----------
    script : Script
        That part.
    seed : int
        With which it was found.
    """

    def __init__(self, script: Script, seed: int, code: str) -> None:
        super().__init__(script, seed, code)
        self.script = script
        self.seed = seed
        self._code = code

    def __str__(self) -> str:
        return f"found with seed {self.seed}, and made small:\n\n{self._code}"


def explore(
    start: Beginning,
    *,
    seed: int,
    scripts: int = 100,
    length: int = 30,
    vocabulary: Vocabulary | None = None,
    survives: Check = check,
) -> None:
    """Make scripts up, and see whether each is survived.

    Parameters
    ----------
    start
        How each begins.
    seed
        The same seed makes up the same scripts.
    scripts, length
        How many scripts, of how many events each.
    vocabulary
        What they use; by default releases and levels that go with the start.
    survives
        Raises for a script that is not survived: :func:`check`, or a function of your own.

    Raises
    ------
    ScriptFailed
        One was not. The error holds it, shrunk, and prints it as code; what was raised is its cause.
    """
    words = vocabulary or Vocabulary(binaries=start.usual_binaries, levels=start.usual_levels)
    chance = random.Random(seed)  # noqa: S311 - made to be repeated, not to be secret
    for _ in range(scripts):
        script = make_up(start, words, chance, length)
        if _failure(script, survives) is not None:
            small = shrink(script, survives)
            raise ScriptFailed(small, seed, as_code(small, survives)) from _failure(small, survives)


def make_up(start: Beginning, vocabulary: Vocabulary, chance: random.Random, length: int) -> Script:
    """Make up one script, all of whose events can happen."""
    cluster, events = start.begin(), list[Event]()
    kinds = [kind for kind in _WEIGHTS if isinstance(start, ZooKeeper) or kind not in _WITH_ZOOKEEPER]
    weights = [_WEIGHTS[kind] for kind in kinds]
    while len(events) < length:
        (kind,) = chance.choices(kinds, weights)
        event = _draw(kind, cluster, vocabulary, chance)
        if event is None:
            continue
        if isinstance(event, ClusterEvent):
            cluster = apply(cluster, event).cluster
        events.append(event)
    return Script(start, tuple(events))


def shrink(script: Script, survives: Check = check) -> Script:
    """Leave out events for as long as the script fails: first halves, then quarters, at last one by one.

    The result fails too, and no single event of it can be left out (Zeller's delta debugging).
    """
    events, size = script.events, max(1, len(script.events) // 2)
    while True:
        fewer = _thinned(replace(script, events=events), size, survives)
        if size == 1 and fewer == events:
            return replace(script, events=events)
        events, size = fewer, max(1, size // 2)


def _thinned(script: Script, size: int, survives: Check) -> tuple[Event, ...]:
    """Leave out each run of so many events without which it still fails."""
    events, at = script.events, 0
    while at < len(events):
        fewer = events[:at] + events[at + size :]
        if _failure(replace(script, events=fewer), survives) is not None:
            events = fewer
        else:
            at += size
    return events


def as_code(script: Script, survives: Check = check) -> str:
    """Print a script as Python that runs it again."""
    names = {"Script", type(script.start).__name__, *(type(event).__name__ for event in script.events)}
    names |= {"Binary"} if "Binary(" in repr(script.start) else set()
    home, name = survives.__module__, survives.__qualname__
    if survives is check:
        names, lines = names | {"check"}, []
    else:
        lines = [f"from {home} import {name}"]
    lines = [f"from featuregate.testing.simulator import {', '.join(sorted(names))}", *lines]
    return "\n".join([*lines, "", f"script = {script!r}", f"{name}(script)", ""])


def _failure(script: Script, survives: Check) -> Exception | None:
    """Return what a script fails with. One that cannot happen, for what was left out of it, has not failed."""
    try:
        survives(script)
    except ScriptError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever a user's check raises
        return error
    return None


def _draw(kind: type[Event], cluster: Cluster, words: Vocabulary, chance: random.Random) -> Event | None:  # noqa: C901, PLR0911 - one line an event
    nodes = sorted(cluster.nodes)
    brokers = [node_id for node_id in nodes if cluster.nodes[node_id].is_broker]
    node_id, broker = chance.choice(nodes), chance.choice(brokers)
    if kind in (Stop, Kill, Start, Pause, Resume):
        return kind(node_id)
    if kind in (Lag, CatchUp):
        return kind(broker)
    if kind is Roll:
        return Roll(node_id, chance.choice(words.binaries))
    if kind is UpdateFeatures:
        return _draw_update(words, chance)
    if kind is Tick:
        return Tick(chance.choice(_TICKS))
    if kind is Partition:
        return Partition(tuple(sorted(chance.sample(nodes, chance.randint(1, len(nodes))))))
    if kind is Garble:
        return Garble(broker, chance.choice(_CUTS))
    if kind is ClockJumps:
        return ClockJumps(float(round(chance.uniform(-_JUMP, _JUMP))))
    if kind is Join:
        free = min(set(range(1, len(brokers) + 2)) - set(nodes))
        return Join(free, chance.choice(words.binaries)) if len(brokers) < _BROKERS_AT_MOST else None
    if kind is Leave:
        return None if cluster.nodes[broker].is_controller or len(brokers) == 1 else Leave(broker)
    return kind()


def _draw_update(words: Vocabulary, chance: random.Random) -> UpdateFeatures | None:
    if not words.levels:
        return None
    feature = chance.choice(sorted(words.levels))
    level, kind = chance.choice(list(words.levels[feature])), chance.choice((1, 1, 2, 2, 3))
    return UpdateFeatures({feature: level}, kind)
