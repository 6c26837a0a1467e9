"""Scripts: a new cluster, and the events that happen to it. Running a script is deterministic. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from featuregate.testing.simulator.cluster import Cluster, ClusterSpec, apply
from featuregate.testing.simulator.values import CodeValue

if TYPE_CHECKING:
    from featuregate.testing.simulator.events import ClusterEvent
    from featuregate.wire.update_features import UpdateFeaturesResponse


@dataclass(frozen=True, slots=True, repr=False)
class Script(CodeValue):
    """A cluster and events. A value: it compares, pickles and prints as code."""

    spec: ClusterSpec
    events: tuple[ClusterEvent, ...] = field(default=())

    def __repr__(self) -> str:
        lines = "".join(f"        {event!r},\n" for event in self.events)
        return f"Script(\n    {self.spec!r},\n    (\n{lines}    ),\n)" if lines else f"Script({self.spec!r})"


class ScriptStep(NamedTuple):
    """One event, and the cluster after it."""

    event: ClusterEvent
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
    cluster, steps = script.spec.create(), list[ScriptStep]()
    for event in script.events:
        cluster, response = apply(cluster, event)
        steps.append(ScriptStep(event, cluster, response))
    return tuple(steps)
