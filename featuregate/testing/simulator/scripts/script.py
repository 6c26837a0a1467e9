"""Scripts: a new cluster, and the events that happen to it. Running a script is deterministic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from featuregate.testing.simulator.cluster import EventResult, apply
from featuregate.testing.simulator.events import (
    TICK_SECONDS,
    ClusterEvent,
    Event,
    JumpClock,
    Poll,
    RestartApp,
    ScriptError,
    Tick,
    TruncateAnswer,
)
from featuregate.testing.simulator.scripts.invariants import InvariantChecker
from featuregate.testing.simulator.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from featuregate.testing.simulator.cluster import Cluster, ClusterSpec
    from featuregate.testing.simulator.requirements import AppRequirements
    from featuregate.wire.update_features import UpdateFeaturesResponse


@dataclass(frozen=True, slots=True, repr=False)
class Script(Value):
    """A cluster and events. A value: it compares, pickles and prints as code."""

    spec: ClusterSpec
    events: tuple[Event, ...] = field(default=())

    def __repr__(self) -> str:
        lines = "".join(f"        {event!r},\n" for event in self.events)
        return f"Script(\n    {self.spec!r},\n    (\n{lines}    ),\n)" if lines else f"Script({self.spec!r})"


class ScriptStep(NamedTuple):
    """One event, and the cluster after it."""

    event: Event
    cluster: Cluster
    response: UpdateFeaturesResponse | None
    """The answer to UpdateFeatures; ``None`` where no node answered, and for all other events."""


def run(script: Script) -> tuple[ScriptStep, ...]:
    """Apply all events of a script. The same script always gives the same steps.

    Raises
    ------
    ScriptError
        An event cannot happen, for example because it names a node or a build that does not exist.
    """
    return tuple(_steps(script))


def _steps(script: Script) -> Iterator[ScriptStep]:
    cluster = script.spec.create()
    for event in script.events:
        result = apply(cluster, event) if isinstance(event, ClusterEvent) else EventResult(cluster)
        cluster = result.cluster
        yield ScriptStep(event, cluster, result.response)


def check_invariants(script: Script, *, requirements: AppRequirements | None = None) -> None:
    """Run a script beside an app, and check that featuregate keeps its invariants.

    The app polls where the script has a :class:`~featuregate.testing.simulator.Poll`, and once at the end.

    Parameters
    ----------
    script
        The events of the cluster and of the app.
    requirements
        What the gates of the app require; by default what suits the cluster.

    Raises
    ------
    InvariantBroken
        An invariant does not hold.
    ScriptError
        An event of the script cannot happen.
    """
    check_with(InvariantChecker(requirements or script.spec.app_requirements), script)


def check_with(checker: InvariantChecker, script: Script) -> None:
    """Run a script beside the app of a checker. Raises as :func:`check_invariants`."""
    cut: dict[int, int] = {}
    cluster = script.spec.create()
    for event, cluster, _ in _steps(script):
        match event:
            case Poll():
                checker.poll(cluster, cut)
                cut = {}
            case TruncateAnswer(node_id, after_bytes):
                if node_id not in cluster.nodes:
                    raise ScriptError(f"there is no node {node_id}")
                cut[node_id] = after_bytes
            case RestartApp():
                checker.restart()
            case JumpClock(seconds):
                checker.app.now += seconds
            case Tick(ticks):
                checker.pass_time(ticks * TICK_SECONDS)
            case _:
                checker.check_gates()
    checker.poll(cluster, cut)
