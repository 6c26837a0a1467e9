"""Random upgrades of a fake cluster, as a strategy of hypothesis: rolls, updates of levels, and faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from featuregate.admin.updates import downgrade, upgrade
from featuregate.catalog import KRAFT_VERSION, METADATA_VERSION
from featuregate.testing.fakes.cluster import FakeCluster
from featuregate.version import how_to_install

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError(f"featuregate.testing.upgrades needs hypothesis: {how_to_install('testing')}") from error

_RELEASES: Final = ("3.9", "4.2", "4.3")
_LEVELS: Final[Mapping[str, Sequence[int]]] = MappingProxyType(
    {
        METADATA_VERSION: (17, 20, 21, 25, 29, 30),
        "group.version": (0, 1, 2),
        "transaction.version": (0, 2),
        KRAFT_VERSION: (0, 1),
        "nonsense.version": (0, 1),
    }
)
_WEIGHTS: Final = {
    "roll": 8,
    "update": 7,
    "advance_epoch": 4,
    "stop": 4,
    "start": 3,
    "pause": 2,
    "resume": 3,
    "lag": 3,
    "catch_up": 3,
    "add_broker": 1,
    "remove_broker": 1,
    "rebuild": 1,
}
_OF_A_NODE: Final = frozenset({"start", "pause", "resume", "lag", "catch_up"})
_JOINING: Final = 3
"""Brokers that may join a cluster."""


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """One call of a method of a fake cluster, or of the handle of a node: ``UpgradeStep("roll", (1, "4.2"))``."""

    method: str
    arguments: tuple[Any, ...] = ()
    """Those of the method; of a method of a node, the node id alone."""

    def __call__(self, cluster: FakeCluster) -> Any:
        """Call the method."""
        if self.method in _OF_A_NODE:
            return getattr(cluster.broker(*self.arguments), self.method)()
        return getattr(cluster, self.method)(*self.arguments)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The steps of one upgrade, and the cluster that they begin with. A value: it compares, pickles and prints as code.

    Iterate over it for each step and the cluster after it.
    """

    cluster: Mapping[str, Any]
    """The arguments of the :class:`FakeCluster`."""
    steps: tuple[UpgradeStep, ...] = ()

    def __iter__(self) -> Iterator[tuple[UpgradeStep, FakeCluster]]:
        """Apply the steps to a new cluster, without sockets."""
        cluster = FakeCluster(**self.cluster)
        for step in self.steps:
            step(cluster)
            yield step, cluster


def upgrades(
    *,
    releases: Sequence[str] | None = None,
    levels: Mapping[str, Sequence[int]] | None = None,
    max_steps: int = 30,
    **cluster: Any,
) -> st.SearchStrategy[Upgrade]:
    """Return a strategy of hypothesis that draws what may happen to a cluster that is upgraded.

    Raises `ImportError`: hypothesis is missing, which the extra ``testing`` has.

    Parameters
    ----------
    releases
        The releases that nodes are rolled to.
    levels
        Feature to the levels that the operator requests.
    max_steps
        The number of steps of the longest upgrade.
    cluster
        Arguments of the :class:`FakeCluster`; by default three brokers and three controllers of 3.9.
    """
    given = {"brokers": 3, "controllers": 3, "release": "3.9", "cluster_id": "upgraded-fake-cluster0", **cluster}
    return _upgrades(given, st.lists(steps(given, releases=releases, levels=levels), max_size=max_steps))


@st.composite
def _upgrades(draw: st.DrawFn, cluster: Mapping[str, Any], steps: st.SearchStrategy[list[UpgradeStep]]) -> Upgrade:
    """Hypothesis prints what a composite strategy returns, here as code, and of others how they made it."""
    return Upgrade(cluster, _possible(cluster, draw(steps)))


def steps(
    cluster: Mapping[str, Any],
    *,
    releases: Sequence[str] | None = None,
    levels: Mapping[str, Sequence[int]] | None = None,
) -> st.SearchStrategy[UpgradeStep]:
    """Return a strategy that draws one step. It may name a broker that has not joined or has left."""
    made = FakeCluster(**cluster)
    joining = range(len(made.brokers) + 1, len(made.brokers) + 1 + _JOINING)
    brokers = st.sampled_from([*(node.node_id for node in made.brokers), *joining])
    nodes = st.sampled_from([*(node.node_id for node in (*made.brokers, *made.controllers)), *joining])
    release = st.sampled_from(releases or tuple(dict.fromkeys((cluster["release"], *_RELEASES))))
    wanted = [
        change({feature: level})
        for feature, each in (_LEVELS if levels is None else levels).items()
        for level in each
        for change in ((downgrade,) if level == 0 else (upgrade, downgrade))
    ]
    arguments: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
        "roll": st.tuples(nodes, release),
        "update": st.tuples(st.sampled_from(wanted)) if wanted else st.nothing(),
        "advance_epoch": st.tuples(st.sampled_from((1, 2, 20, 50))),
        "rebuild": st.sampled_from([(), (cluster["cluster_id"],)]),
        "add_broker": st.tuples(st.sampled_from(joining)),
        **dict.fromkeys(("remove_broker", "lag", "catch_up"), st.tuples(brokers)),
        **dict.fromkeys(("stop", "start", "pause", "resume"), st.tuples(nodes)),
    }
    weighted = [method for method, weight in _WEIGHTS.items() if wanted or method != "update" for _ in range(weight)]
    return st.sampled_from(weighted).flatmap(lambda method: st.builds(UpgradeStep, st.just(method), arguments[method]))


def happened(cluster: FakeCluster, step: UpgradeStep) -> bool:
    """Apply a step; return whether it could happen: the cluster has the node, and at least one broker afterwards."""
    if step.method == "remove_broker" and len(cluster.brokers) == 1:
        return False
    try:
        step(cluster)
    except (KeyError, ValueError):
        return False
    return True


def _possible(cluster: Mapping[str, Any], steps: Iterable[UpgradeStep]) -> tuple[UpgradeStep, ...]:
    """Leave out the steps that cannot happen, so that hypothesis may leave out any step when it shrinks an upgrade."""
    made = FakeCluster(**cluster)
    return tuple(step for step in steps if happened(made, step))
