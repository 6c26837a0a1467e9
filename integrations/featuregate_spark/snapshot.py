"""A snapshot: the decisions of the gates of a session at one moment, as a value. Pure.

It is small, frozen and picklable. Decisions travel to executors only as snapshots: in the closure of a function, as a
broadcast, or as the pin of a micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from featuregate import Decision, GateClosed, Pin, View
from featuregate.catalog import api_key
from featuregate.gating.decisions import Reason
from featuregate.json_values import JsonValue, check_schema, parse_json
from featuregate.view.answers import ApiRange, FrozenMap
from featuregate_spark.errors import PinCorrupt

if TYPE_CHECKING:
    from featuregate.gating.conditions import GateVerdict

P = ParamSpec("P")
R = TypeVar("R")

SCHEMA_VERSION: Final = 1
REASONS: Final = 3
"""The number of reasons that a decision keeps, the most important first: a large cluster gives one for each broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The decisions of named gates at one moment, and the finalized levels of the cluster."""

    gates: Mapping[str, Pin] = FrozenMap()
    """Each gate's decision, by the gate's name."""
    cluster_id: str | None = None
    epoch: int = -1
    """The epoch of the finalized levels; -1 if no broker has reported any."""
    finalized: Mapping[str, int] = FrozenMap()
    """Feature to finalized level."""
    api_ranges: Mapping[int, ApiRange] = FrozenMap()
    """API key to the versions that every broker which answered serves."""
    incomplete: bool = True
    """Whether a known broker did not answer, or no broker was asked yet."""
    seen_at: float = 0.0
    """Seconds since the Unix epoch; 0 if no broker has answered yet."""

    @classmethod
    def of(cls, view: View | None, decisions: Mapping[str, Decision]) -> Snapshot:
        """Make a snapshot of a view and the decisions of its gates."""
        brief = {name: replace(each, reasons=each.sorted_reasons[:REASONS]) for name, each in decisions.items()}
        gates = FrozenMap({name: Pin(gate=name, decision=decision) for name, decision in brief.items()})
        if view is None:
            return cls(gates=gates)
        return cls(
            gates=gates,
            cluster_id=view.cluster_id,
            epoch=view.epoch,
            finalized=view.finalized,
            api_ranges=view.api_ranges,
            incomplete=view.incomplete,
            seen_at=view.seen_at,
        )

    def __str__(self) -> str:
        whole = "not all brokers answered" if self.incomplete else "all brokers answered"
        head = f"cluster {self.cluster_id or 'unknown'}, epoch {self.epoch}, {whole}"
        return "\n".join([head, *(str(self.gates[name]) for name in sorted(self.gates))])

    def _repr_html_(self) -> str:
        """Show in a notebook what `print` shows."""
        return f"<pre>{escape(str(self))}</pre>"

    def __getitem__(self, gate: str) -> Pin:
        """Return the pin of a gate: ``snapshot["eos"].open``."""
        try:
            return self.gates[gate]
        except KeyError:
            known = ", ".join(sorted(self.gates)) or "none"
            raise KeyError(f"there is no gate {gate!r}; this snapshot has: {known}") from None

    @property
    def opened(self) -> dict[str, bool]:
        """Each gate, and whether it is open."""
        return {name: pin.open for name, pin in self.gates.items()}

    @property
    def held(self) -> tuple[str, ...]:
        """The gates that only a latch holds open."""
        return tuple(name for name, pin in self.gates.items() if pin.decision.held is not None)

    def level(self, feature: str) -> int | None:
        """Return the finalized level of a feature: 0 if it is absent, None if that is unknown."""
        return None if self.epoch < 0 else self.finalized.get(feature, 0)

    def api(self, api: str | int) -> ApiRange | None:
        """Return the versions of an API that every broker which answered serves; None: one of them lacks it.

        Raises `UnknownApi`: no API has this name.
        """
        return self.api_ranges.get(api_key(api))

    def guard(self, gate: str, *, fallback: Callable[P, R] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Return a decorator that chooses between a function and its fallback when it is applied.

        For udfs, and for the functions of ``mapInPandas`` and ``mapInArrow``: the chosen function travels to the
        executors, so that all tasks of a job agree, and a row costs no more than without the guard.

        Parameters
        ----------
        gate
            The name of the gate.
        fallback
            Used where the gate is closed. Without one the decorator raises.

        Raises
        ------
        GateClosed
            The gate is closed, and there is no fallback.
        KeyError
            There is no such gate.
        """
        pin = self[gate]

        def choose(function: Callable[P, R]) -> Callable[P, R]:
            if pin.open:
                return function
            if fallback is None:
                raise GateClosed(gate, pin.decision)
            return fallback

        return choose

    def to_json(self) -> str:
        """Return the snapshot as one line of JSON, by schema version 1."""
        return json.dumps(document_of(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Snapshot:
        """Read what :meth:`to_json` wrote. Raises PinCorrupt: the text is not such JSON, or has a newer schema."""
        try:
            return snapshot_from(parse_json(text, "snapshot"))
        except ValueError as error:
            raise PinCorrupt(f"the text is not a snapshot: {error}") from error


def document_of(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as JSON-able values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster_id": snapshot.cluster_id,
        "epoch": snapshot.epoch,
        "finalized": dict(snapshot.finalized),
        "api_ranges": {str(key): [versions.min, versions.max] for key, versions in snapshot.api_ranges.items()},
        "incomplete": snapshot.incomplete,
        "seen_at": snapshot.seen_at,
        "gates": [_gate_document(pin) for pin in snapshot.gates.values()],
    }


def snapshot_from(document: JsonValue) -> Snapshot:
    """Build a snapshot from parsed JSON; raises `ValueError` for any other document."""
    check_schema(document, newest=SCHEMA_VERSION)
    api_ranges = document.field("api_ranges").fields()
    return Snapshot(
        cluster_id=document.field("cluster_id").optional(JsonValue.text),
        epoch=document.field("epoch").integer(),
        finalized=FrozenMap(document.field("finalized").integers()),
        api_ranges=FrozenMap({int(key): ApiRange(*ends.pair()) for key, ends in api_ranges.items()}),
        incomplete=document.field("incomplete").of_type(bool, "true or false"),
        seen_at=document.field("seen_at").seconds(),
        gates=_gates_from(document.field("gates").items()),
    )


def _gate_document(pin: Pin) -> dict[str, Any]:
    return {"gate": pin.gate, "open": pin.open, **asdict(pin.decision)}  # open: for people; verdict and held count


def _gates_from(rows: Iterable[JsonValue]) -> FrozenMap[str, Pin]:
    pins = [Pin(gate=row.field("gate").text(), decision=_decision_from(row)) for row in rows]
    return FrozenMap({pin.gate: pin for pin in pins})


def _reason_from(row: JsonValue) -> Reason:
    parts = row.items()
    if len(parts) != len(Reason._fields):
        raise row.wrong("the five parts of a reason")
    condition, node_id, address, verdict, text = parts
    return Reason(
        condition.text(),
        node_id.optional(JsonValue.integer),
        address.optional(JsonValue.text),
        _verdict_from(verdict),
        text.text(),
    )


def _verdict_from(value: JsonValue) -> GateVerdict:
    verdict: GateVerdict = value.one_of("open", "closed", "unknown")
    return verdict


def _decision_from(row: JsonValue) -> Decision:
    return Decision(
        verdict=_verdict_from(row.field("verdict")),
        requirement=row.field("requirement").text(),
        reasons=tuple(map(_reason_from, row.field("reasons").items())),
        cluster_id=row.field("cluster_id").optional(JsonValue.text),
        epoch=row.field("epoch").integer(),
        policy=row.field("policy").text(),
        held=row.field("held").optional(JsonValue.text),
    )
