"""Features of gates that no cluster may ever have, because their names are misspelt. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from featuregate.catalog import close_to, features
from featuregate.requirements import features_in

if TYPE_CHECKING:
    from featuregate.gating.gates import Gate
    from featuregate.view.cluster_view import View


def listed_features(view: View | None) -> frozenset[str]:
    """Return the features of a cluster, which may be newer than the catalog."""
    if view is None:
        return frozenset()
    return frozenset(view.finalized).union(*(broker.supported for broker in view.answering))


@lru_cache(maxsize=128)
def _resembling(name: str) -> tuple[str, ...]:
    """Return the features of the catalog that a name may mean: `health` asks for the same names again and again."""
    return close_to(name, features())


def misspelt(gate: Gate) -> Iterator[tuple[str, str]]:
    """Yield each feature that the catalog lacks and that resembles a known one, which may keep the gate closed."""
    for name in features_in(gate.requirement):
        if name not in features() and (close := _resembling(name)):
            yield name, f"gate {gate.name}: no feature is known as {name}; did you mean {' or '.join(close)}?"
