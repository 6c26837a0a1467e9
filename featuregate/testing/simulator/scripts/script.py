"""Scripts: a cluster as it begins, and what happens then. Running one is deterministic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from featuregate.testing.simulator.cluster import Happened, apply
from featuregate.testing.simulator.events import (
    TICK_SECONDS,
    AppRestarts,
    ClockJumps,
    ClusterEvent,
    Event,
    Garble,
    Look,
    ScriptError,
    Tick,
)
from featuregate.testing.simulator.scripts.invariants import Witness
from featuregate.testing.simulator.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate.testing.simulator.cluster import Beginning, Cluster
    from featuregate.testing.simulator.requirements import Wants
    from featuregate.wire.update_features import UpdateFeaturesResponse

__all__ = ["Script", "Step", "check", "run", "steps", "witnessed"]


@dataclass(frozen=True, slots=True, repr=False)
class Script(Value):
    """What happens, from the beginning. A value: it compares, pickles and prints as code."""

    start: Beginning
    events: tuple[Event, ...] = field(default=())

    def __repr__(self) -> str:
        lines = "".join(f"        {event!r},\n" for event in self.events)
        return f"Script(\n    {self.start!r},\n    (\n{lines}    ),\n)" if lines else f"Script({self.start!r})"


class Step(NamedTuple):
    """One event, and the cluster after it."""

    event: Event
    cluster: Cluster
    response: UpdateFeaturesResponse | None
    """What an operator was told; ``None`` where nobody answered."""


def run(script: Script) -> tuple[Step, ...]:
    """Let everything in a script happen; the same script always gives the same.

    Raises
    ------
    ScriptError
        An event cannot happen: it names a node or a binary that there is not.
    """
    return tuple(steps(script))


def steps(script: Script) -> Iterator[Step]:
    """Let a script happen step by step; what happens to the app leaves the cluster as it is."""
    cluster = script.start.begin()
    for event in script.events:
        happened = apply(cluster, event) if isinstance(event, ClusterEvent) else Happened(cluster)
        cluster = happened.cluster
        yield Step(event, cluster, happened.response)


def check(script: Script, *, wants: Wants | None = None) -> None:
    """Let an app look at the cluster all the while, and hold featuregate to its invariants.

    It looks where the script says :class:`~featuregate.testing.simulator.Look`, and once at the end.

    Parameters
    ----------
    script
        What happens to the cluster and to the app.
    wants
        What the gates of the app require; by default what gates of that generation do.

    Raises
    ------
    InvariantBroken
        One does not hold.
    ScriptError
        The script cannot happen.
    """
    witnessed(script, Witness(wants or script.start.wants))


def witnessed(script: Script, witness: Witness) -> None:
    """Let a script happen before a witness; raises as :func:`check` does."""
    cut: dict[int, int] = {}
    cluster = script.start.begin()
    for event, cluster, _ in steps(script):
        match event:
            case Look():
                witness.look(cluster, cut)
                cut = {}
            case Garble(node_id, after):
                if node_id not in cluster.nodes:
                    raise ScriptError(f"there is no node {node_id}")
                cut[node_id] = after
            case AppRestarts():
                witness.restart()
            case ClockJumps(seconds):
                witness.app.now += seconds
            case Tick(ticks):
                witness.pass_time(ticks * TICK_SECONDS)
            case _:
                witness.check_checks()
    witness.look(cluster, cut)
