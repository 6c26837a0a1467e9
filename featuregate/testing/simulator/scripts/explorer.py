"""The explorer: generate random scripts, find one that fails a check, and shrink it.

The explorer shrinks without hypothesis, because users' tests should need nothing but featuregate. A script is a flat
tuple of plain values, so that it is enough to leave events out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from featuregate.testing.simulator.cluster import apply
from featuregate.testing.simulator.events import (
    CatchUp,
    ClusterEvent,
    Event,
    Heal,
    HoldRegistrations,
    Join,
    JumpClock,
    Kill,
    Lag,
    Leave,
    Partition,
    Pause,
    Poll,
    Rebuild,
    ReleaseRegistrations,
    RestartApp,
    Restore,
    Resume,
    Roll,
    ScriptError,
    Start,
    Stop,
    Tick,
    TruncateAnswer,
    UpdateFeatures,
)
from featuregate.testing.simulator.scripts.script import Script, check_invariants
from featuregate.testing.simulator.zookeeper.spec import ZooKeeper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from featuregate.testing.simulator.cluster import Cluster, ClusterSpec

ScriptCheck = Callable[[Script], object]
"""A check of a script: raises if the script fails it."""

_WEIGHTS: Final[Mapping[type[Event], int]] = {
    Poll: 12,
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
    TruncateAnswer: 2,
    RestartApp: 1,
    JumpClock: 1,
    Join: 1,
    Leave: 1,
    Rebuild: 1,
    Restore: 1,
    HoldRegistrations: 1,
    ReleaseRegistrations: 2,
}
_WITH_ZOOKEEPER: Final = (HoldRegistrations, ReleaseRegistrations)
_MOST_BROKERS: Final = 6
_TICKS: Final = (1, 2, 20, 50)
_CUTS: Final = (0, 3, 11, 200)
_LONGEST_JUMP: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptChoices:
    """What random scripts choose from."""

    builds: Sequence[str]
    """The builds that nodes are rolled to."""
    levels: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Feature to the levels that the operator requests."""


class ScriptFailed(AssertionError):
    """A random script failed a check, and was shrunk.

    Attributes
    ----------
    script : Script
        The shrunk script, which fails too.
    seed : int
        The seed that led to it.
    """

    def __init__(self, script: Script, seed: int, code: str) -> None:
        super().__init__(script, seed, code)
        self.script = script
        self.seed = seed
        self._code = code

    def __str__(self) -> str:
        return f"found with seed {self.seed}, and shrunk:\n\n{self._code}"


def explore(
    spec: ClusterSpec,
    *,
    seed: int,
    scripts: int = 100,
    length: int = 30,
    choices: ScriptChoices | None = None,
    check: ScriptCheck = check_invariants,
) -> None:
    """Generate random scripts, and check each.

    Parameters
    ----------
    spec
        The cluster at the start of each script.
    seed
        The same seed gives the same scripts.
    scripts, length
        The number of scripts, and of events in each.
    choices
        What the scripts choose from; by default builds and levels that suit the cluster.
    check
        Raises if a script fails: :func:`check_invariants`, or a function of your own.

    Raises
    ------
    ScriptFailed
        A script failed. The error holds the shrunk script and prints it as code; its cause is what the check raised.
    """
    choices = choices or ScriptChoices(builds=spec.default_builds, levels=spec.default_levels)
    chance = random.Random(seed)  # noqa: S311 - scripts must be repeatable, not secret
    for _ in range(scripts):
        script = random_script(spec, choices, chance, length)
        if _failure(script, check) is not None:
            shrunk = shrink(script, check)
            raise ScriptFailed(shrunk, seed, as_code(shrunk, check)) from _failure(shrunk, check)


def random_script(spec: ClusterSpec, choices: ScriptChoices, chance: random.Random, length: int) -> Script:
    """Generate one script. All of its events can happen."""
    cluster, events = spec.create(), list[Event]()
    kinds = [kind for kind in _WEIGHTS if isinstance(spec, ZooKeeper) or kind not in _WITH_ZOOKEEPER]
    weights = [_WEIGHTS[kind] for kind in kinds]
    while len(events) < length:
        (kind,) = chance.choices(kinds, weights)
        event = _draw(kind, cluster, choices, chance)
        if event is None:
            continue
        if isinstance(event, ClusterEvent):
            cluster = apply(cluster, event).cluster
        events.append(event)
    return Script(spec, tuple(events))


def shrink(script: Script, check: ScriptCheck = check_invariants) -> Script:
    """Leave out events while the script still fails: first halves, then quarters, at last single events.

    The result fails too, and passes without any one of its events (Zeller's delta debugging).
    """
    events, size = script.events, max(1, len(script.events) // 2)
    while True:
        fewer = _thinned(replace(script, events=events), size, check)
        if size == 1 and fewer == events:
            return replace(script, events=events)
        events, size = fewer, max(1, size // 2)


def _thinned(script: Script, size: int, check: ScriptCheck) -> tuple[Event, ...]:
    """Leave out each run of ``size`` events without which the script still fails."""
    events, at = script.events, 0
    while at < len(events):
        fewer = events[:at] + events[at + size :]
        if _failure(replace(script, events=fewer), check) is not None:
            events = fewer
        else:
            at += size
    return events


def as_code(script: Script, check: ScriptCheck = check_invariants) -> str:
    """Return a Python program that runs a script again."""
    names = {"Script", type(script.spec).__name__, *(type(event).__name__ for event in script.events)}
    names |= {"Build"} if "Build(" in repr(script.spec) else set()
    module, name = check.__module__, check.__qualname__
    if check is check_invariants:
        names, lines = names | {"check_invariants"}, []
    else:
        lines = [f"from {module} import {name}"]
    lines = [f"from featuregate.testing.simulator import {', '.join(sorted(names))}", *lines]
    return "\n".join([*lines, "", f"script = {script!r}", f"{name}(script)", ""])


def _failure(script: Script, check: ScriptCheck) -> Exception | None:
    """Return the error of a failing script. A script that cannot happen without what was left out has not failed."""
    try:
        check(script)
    except ScriptError:
        return None
    except Exception as error:  # noqa: BLE001 - a user's check may raise any error
        return error
    return None


def _draw(kind: type[Event], cluster: Cluster, choices: ScriptChoices, chance: random.Random) -> Event | None:  # noqa: C901, PLR0911 - one line an event
    nodes = sorted(cluster.nodes)
    brokers = [node_id for node_id in nodes if cluster.nodes[node_id].is_broker]
    node_id, broker = chance.choice(nodes), chance.choice(brokers)
    if kind in (Stop, Kill, Start, Pause, Resume):
        return kind(node_id)
    if kind in (Lag, CatchUp):
        return kind(broker)
    if kind is Roll:
        return Roll(node_id, chance.choice(choices.builds))
    if kind is UpdateFeatures:
        return _draw_update(choices, chance)
    if kind is Tick:
        return Tick(chance.choice(_TICKS))
    if kind is Partition:
        return Partition(tuple(sorted(chance.sample(nodes, chance.randint(1, len(nodes))))))
    if kind is TruncateAnswer:
        return TruncateAnswer(broker, chance.choice(_CUTS))
    if kind is JumpClock:
        return JumpClock(float(round(chance.uniform(-_LONGEST_JUMP, _LONGEST_JUMP))))
    if kind is Join:
        free = min(set(range(1, len(brokers) + 2)) - set(nodes))
        return Join(free, chance.choice(choices.builds)) if len(brokers) < _MOST_BROKERS else None
    if kind is Leave:
        return None if cluster.nodes[broker].is_controller or len(brokers) == 1 else Leave(broker)
    return kind()


def _draw_update(choices: ScriptChoices, chance: random.Random) -> UpdateFeatures | None:
    if not choices.levels:
        return None
    feature = chance.choice(sorted(choices.levels))
    level, kind = chance.choice(list(choices.levels[feature])), chance.choice((1, 1, 2, 2, 3))
    return UpdateFeatures({feature: level}, kind)
