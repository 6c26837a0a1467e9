"""Random upgrades, as a strategy of hypothesis: rolls, updates of levels, and faults, in any order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from featuregate.testing.simulator.cluster import ClusterSpec, apply
from featuregate.testing.simulator.events import (
    CatchUp,
    ClusterEvent,
    Heal,
    HoldRegistrations,
    Join,
    Kill,
    Lag,
    Leave,
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
from featuregate.testing.simulator.kraft.cluster import KRaft
from featuregate.testing.simulator.script import Script
from featuregate.testing.simulator.zookeeper.cluster import ZooKeeper

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError(
        "featuregate.testing.upgrades needs hypothesis: pip install '.[testing]' in a checkout"
    ) from error


_WEIGHTS: Final = {
    Roll: 8,
    UpdateFeatures: 7,
    Tick: 4,
    Lag: 3,
    CatchUp: 3,
    Start: 3,
    Resume: 3,
    Heal: 3,
    Stop: 2,
    Kill: 2,
    Pause: 2,
    Partition: 2,
    Join: 1,
    Leave: 1,
    Rebuild: 1,
    Restore: 1,
    HoldRegistrations: 1,
    ReleaseRegistrations: 2,
}
_WITH_ZOOKEEPER: Final = (HoldRegistrations, ReleaseRegistrations)
_JOINING: Final = 3
"""As many brokers may join a cluster."""
_TICKS: Final = (1, 2, 20, 50)


def upgrades(
    spec: ClusterSpec | None = None,
    *,
    builds: Sequence[str] | None = None,
    levels: Mapping[str, Sequence[int]] | None = None,
    max_events: int = 30,
) -> st.SearchStrategy[Script]:
    """Return a strategy of hypothesis that draws scripts: what may happen to a cluster that is upgraded.

    Parameters
    ----------
    spec
        The cluster at the start; by default ``KRaft("3.9")``.
    builds
        The builds that nodes are rolled to; by default builds that suit the cluster.
    levels
        Feature to the levels that the operator requests; by default levels that suit the cluster.
    max_events
        The number of events of the longest script.

    Raises
    ------
    ImportError
        hypothesis is missing, which the extra ``testing`` has.
    """
    start = KRaft("3.9") if spec is None else spec
    return _scripts(start, st.lists(cluster_events(start, builds=builds, levels=levels), max_size=max_events))


@st.composite
def _scripts(draw: st.DrawFn, spec: ClusterSpec, events: st.SearchStrategy[list[ClusterEvent]]) -> Script:
    """Hypothesis prints what a composite strategy returns, here as code, and of others how they made it."""
    return Script(spec, _possible(spec, draw(events)))


def cluster_events(
    spec: ClusterSpec, *, builds: Sequence[str] | None = None, levels: Mapping[str, Sequence[int]] | None = None
) -> st.SearchStrategy[ClusterEvent]:
    """Return a strategy that draws one event. It may name a broker that has not joined or has left."""
    nodes = spec.create().nodes
    levels = spec.default_levels if levels is None else levels
    joining = range(spec.brokers + 1, spec.brokers + 1 + _JOINING)
    brokers = st.sampled_from([*(node_id for node_id, node in nodes.items() if node.is_broker), *joining])
    node_ids = st.sampled_from([*nodes, *joining])
    releases = st.sampled_from(builds or spec.default_builds)
    drawn: dict[type[ClusterEvent], st.SearchStrategy[ClusterEvent]] = {
        **{kind: st.builds(kind) for kind in (Heal, Rebuild, Restore, *_WITH_ZOOKEEPER)},
        **{kind: st.builds(kind, node_ids) for kind in (Start, Stop, Kill, Pause, Resume)},
        **{kind: st.builds(kind, brokers) for kind in (Lag, CatchUp, Leave)},
        Roll: st.builds(Roll, node_ids, releases),
        Join: st.builds(Join, st.sampled_from(joining), releases),
        UpdateFeatures: _updates(levels),
        Tick: st.builds(Tick, st.sampled_from(_TICKS)),
        Partition: st.builds(Partition, st.sets(st.sampled_from(sorted(nodes)), min_size=1).map(sorted).map(tuple)),
    }
    impossible = (*(() if isinstance(spec, ZooKeeper) else _WITH_ZOOKEEPER), *(() if levels else (UpdateFeatures,)))
    kinds = [kind for kind in _WEIGHTS if kind not in impossible]
    weighted = [kind for kind in kinds for _ in range(_WEIGHTS[kind])]
    return st.sampled_from(weighted).flatmap(drawn.__getitem__)


def _updates(levels: Mapping[str, Sequence[int]]) -> st.SearchStrategy[UpdateFeatures]:
    wanted = [{feature: level} for feature, each in levels.items() for level in each]
    return st.builds(UpdateFeatures, st.sampled_from(wanted), st.sampled_from((1, 2, 3)))


def _possible(spec: ClusterSpec, events: Iterable[ClusterEvent]) -> tuple[ClusterEvent, ...]:
    """Leave out the events that cannot happen, so that hypothesis may leave out any event when it shrinks a script."""
    cluster, happened = spec.create(), list[ClusterEvent]()
    for event in events:
        if isinstance(event, Leave) and sum(node.is_broker for node in cluster.nodes.values()) == 1:
            continue  # a cluster without brokers is none
        try:
            cluster = apply(cluster, event).cluster
        except ScriptError:
            continue
        happened.append(event)
    return tuple(happened)
