"""What is wrong with gates, in sentences for operators. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from featuregate.catalog import close_to, features
from featuregate.gating.decisions import HOLD
from featuregate.printable import some
from featuregate.requirements import features_in

if TYPE_CHECKING:
    from featuregate.gating.gates import Gate
    from featuregate.gating.holds import Holds
    from featuregate.view.cluster_view import View


def gate_troubles(gates: Collection[Gate], view: View | None, holds: Holds) -> Iterator[str]:
    """Yield what is wrong with gates: what an app relies on without the cluster, and what an operator expects in vain.

    A gate that only its latch holds open, though all brokers answer, is one: the app relies on what the cluster
    no longer has. A misspelt feature is none once a broker lists it: the cluster may be newer than the catalog.
    """
    if view is None and (names := [gate.name for gate in gates if gate.open]):
        cluster_ids = {gate.decision.cluster_id for gate in gates if gate.open}
        where = f"by the latches of cluster {' and '.join(map(str, cluster_ids))}"
        yield f"no broker has answered since the start: {some(names)} open {where}"
    for gate in gates:
        if gate.decision.held is not None and gate.decision.verdict == "closed":
            yield f"gate {gate.name} is {gate.decision.held}: the cluster no longer has what the app relies on"
    listed = () if view is None else {*view.finalized, *(name for each in view.answering for name in each.supported)}
    yield from (text for gate in gates for name, text in misspelt(gate) if name not in listed)
    for gate in gates:
        late = (reason for reason in gate.decision.reasons if reason.condition == HOLD and reason.verdict == "open")
        yield from (f"gate {gate.name}: a hold {reason.text}" for reason in late)
    yield from holds.misspelt([gate.name for gate in gates])


def misspelt(gate: Gate) -> Iterator[tuple[str, str]]:
    """Yield each feature that the catalog lacks and that resembles a known one, which may keep the gate closed."""
    for name in features_in(gate.requirement):
        if name not in features() and (close := _resembling(name)):
            yield name, f"gate {gate.name}: no feature is known as {name}; did you mean {' or '.join(close)}?"


@lru_cache(maxsize=128)
def _resembling(name: str) -> tuple[str, ...]:
    """Return the features of the catalog that a name may mean: `health` asks for the same names again and again."""
    return close_to(name, features())
