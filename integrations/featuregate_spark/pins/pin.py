"""The pin of a micro-batch: the decisions of its gates, and what the query has latched so far. Pure.

Pins are also the latch: each carries what earlier pins had latched. After a restart the newest pin is all that has to
be found, and no second file can disagree with it (P5).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from featuregate.errors import ConfigError
from featuregate.gating.latch_documents import latch_document, latch_state_from
from featuregate.gating.latch_store import PIN_VERSION
from featuregate.gating.latches import LatchedGate, LatchState, advance, decide
from featuregate.json_values import JsonValue, check_schema, parse_json
from featuregate.view.answers import FrozenMap
from featuregate_spark.errors import PinCorrupt
from featuregate_spark.snapshot import Snapshot, snapshot_from
from featuregate_spark.snapshot import document_of as snapshot_document

if TYPE_CHECKING:
    from featuregate import Decision, Gate, View

ABOUT: Final = (
    "The decisions of featuregate for one micro-batch, and what the query has latched. A replay of the batch reads "
    "them: delete this file only with the whole checkpoint."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPin:
    """The pin of a batch, written once before its first side effect."""

    batch_id: int
    snapshot: Snapshot
    """The snapshot that the batch's function gets."""
    latch_states: Mapping[str, LatchState] = FrozenMap()
    """The latches of the query, by cluster id."""

    def to_json(self) -> str:
        """Return the pin as JSON of schema version 1."""
        document = {
            "about": ABOUT,
            "schema_version": PIN_VERSION,
            "batch_id": self.batch_id,
            "snapshot": snapshot_document(self.snapshot),
            "latch_states": [latch_document(each) for each in self.latch_states.values()],
        }
        return json.dumps(document, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> BatchPin:
        """Read what :meth:`to_json` wrote. Raises PinCorrupt (the text is not such JSON, or has a newer schema)."""
        try:
            return _pin_from(parse_json(text, "pin"))
        except ValueError as error:
            raise PinCorrupt(str(error)) from error


def _pin_from(document: JsonValue) -> BatchPin:
    check_schema(document, newest=PIN_VERSION)
    return BatchPin(
        batch_id=document.field("batch_id").integer(),
        snapshot=snapshot_from(document.field("snapshot")),
        latch_states=_by_cluster(latch_state_from(each) for each in document.field("latch_states").items()),
    )


def next_pin(before: BatchPin | None, batch_id: int, view: View | None, gates: Iterable[Gate], at: float) -> BatchPin:
    """Decide the gates of a batch by the current view and the latches of the query, which the newest pin holds.

    Gates stay as they were while no broker has answered since the session started. Raises ConfigError where the cluster
    reports no id, so that a latch would hold for any cluster.
    """
    gates = list(gates)
    states = before.latch_states if before else FrozenMap()
    if view is None:
        return BatchPin(batch_id=batch_id, snapshot=_unseen(before, gates), latch_states=states)
    if view.cluster_id is None:
        raise ConfigError(
            "cluster_id",
            "is missing: the brokers report no cluster id, to which the latches in the pins of foreach_batch() belong; "
            "name the cluster by FeatureSession(..., cluster_id=...)",
        )
    known = states.get(view.cluster_id, LatchState(cluster_id=view.cluster_id))
    moved = advance(known, view, _opening(known, view, gates, at))
    decisions = {gate.name: _decide(moved, view, gate) for gate in gates}
    states = FrozenMap({**states, view.cluster_id: moved})
    return BatchPin(batch_id=batch_id, snapshot=Snapshot.of(view, decisions), latch_states=states)


def _opening(known: LatchState, view: View, gates: Iterable[Gate], at: float) -> list[LatchedGate]:
    return [
        LatchedGate(gate=gate.name, requirement=gate.key.requirement, opened_at=at, epoch=view.epoch)
        for gate in gates
        if gate.policy == "sticky"
        and gate.decision.open
        and gate.decision.cluster_id == view.cluster_id
        and gate.key not in known.gates
    ]


def _decide(known: LatchState, view: View, gate: Gate) -> Decision:
    """Use the gate's decision, which knows the age of the view; if it is not open, the latch of the query."""
    now = gate.decision
    if gate.policy == "live":
        return now
    latched = known.gates.get(gate.key)
    if now.cluster_id == view.cluster_id and (now.open or latched is None):
        return now
    decision = decide(known, view, name=gate.name, requirement=gate.requirement, policy=gate.policy)
    if latched is None or decision.held is not None or now.cluster_id != view.cluster_id:
        return decision
    # The view alone proves the requirement, and is too old to open the gate.
    return replace(now, held=f"held open: latched at epoch {latched.epoch}, and not proved now")


def _unseen(before: BatchPin | None, gates: Iterable[Gate]) -> Snapshot:
    """Keep the earlier decisions while no broker has answered; a gate without one stays closed."""
    snapshot = before.snapshot if before is not None else Snapshot()
    decisions = {gate.name: _as_before(snapshot, gate) for gate in gates}
    return replace(snapshot, gates=Snapshot.of(None, decisions).gates)


def _as_before(snapshot: Snapshot, gate: Gate) -> Decision:
    """Use the earlier pin of a sticky gate; else the gate's own decision, which its latch store may hold open."""
    pin = snapshot.gates.get(gate.name)
    same = pin is not None and pin.decision.requirement == str(gate.requirement) and gate.policy == "sticky"
    return pin.decision if pin is not None and same and pin.open else gate.decision


def _by_cluster(states: Iterable[LatchState]) -> FrozenMap[str, LatchState]:
    return FrozenMap({each.cluster_id: each for each in states if each.cluster_id is not None})
