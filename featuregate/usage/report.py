"""A usage report: the gates of one app in one cluster, as a value and as JSON. Pure.

The schema is documented in docs/reference/views.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from featuregate.errors import UsageReportError
from featuregate.gating.decisions import BURN_IN, HOLD
from featuregate.gating.latches import LATEST, LatchKey, LatchState, Policy
from featuregate.json_values import JsonError, JsonValue, check_schema, parse_json
from featuregate.printable import as_unicode
from featuregate.requirements import features_in

if TYPE_CHECKING:
    from featuregate.gating.gates import Gate
    from featuregate.view.cluster_view import View

GateState = Literal["open", "closed", "unknown", "held"]
"""``held``: open, but only because of the latch; the view does not prove the requirement any more."""

WaitsFor = Literal["hold", "burn-in"]
"""What else than its requirement keeps a gate closed: see :attr:`featuregate.Decision.waits`."""

_WAITS: Final[Mapping[str, WaitsFor]] = {HOLD: "hold", BURN_IN: "burn-in"}
SCHEMA_VERSION: Final = 1
MOST_GATES: Final = 1000
"""In one report. An app with more makes their names at run time, and no operator reads them."""
MOST_BYTES: Final = 1_048_576
"""Bytes of one report that is read: what brokers accept by default (``message.max.bytes``)."""
LONGEST_TEXT: Final = 16_384
LONGEST_NAME: Final = 256
_MOST: Final = 2**63 - 1


class Reporter(NamedTuple):
    """The process that a report is of."""

    app: str
    """The name that all instances of the app share."""
    instance: str
    """One process of the app."""
    software_name: str
    software_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedGate:
    """What a report says of one gate."""

    name: str
    requirement: str
    """Its text, in the spelling of :func:`featuregate.parse`. A preset is spelled out."""
    policy: Policy
    state: GateState
    latched: bool
    """Whether the gate stays open whatever the cluster does."""
    levels: Mapping[str, int | None]
    """The finalized level of each feature in the requirement; None while it is unknown."""
    waits: WaitsFor | None = None
    """None where only the requirement decides."""
    open_after: float = 0.0
    """The seconds of the burn-in; 0 without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """The gates of one process of an app, at one moment."""

    reporter: Reporter
    reported_at: float
    """Seconds since the Unix epoch, by the clock of the app."""
    cluster_id: str | None
    """None where brokers report none, or the bootstrap list names the brokers."""
    epoch: int
    """The epoch of the view; -1 where the cluster has none."""
    age_seconds: float
    """Seconds since a broker answered."""
    gates: tuple[ReportedGate, ...]
    """By name."""
    gates_left_out: int = 0
    """How many gates the report has no room for."""
    closing: bool = False
    """Whether the discoverer is being closed, so that this is the last report of the process."""

    def to_json(self) -> str:
        """Return the report as one line of JSON."""
        import json  # noqa: PLC0415 - only once a process reports

        content = asdict(self)
        app, instance, name, version = content.pop("reporter")
        software = {"name": name, "version": version}
        head = {"schema_version": SCHEMA_VERSION, "app": app, "instance": instance, "software": software}
        return json.dumps(head | content, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> UsageReport:
        """Read a report. Unknown fields are skipped: a later release may add some.

        Raises `UsageReportError`: the text is not JSON, has another ``schema_version``, or a value is missing or cannot
        be; the error says where.
        """
        if len(text) > MOST_BYTES:
            raise UsageReportError("report", f"{len(text)} bytes are more than {MOST_BYTES}")
        try:
            return _read(parse_json(text, "report", refuse_halves=False))
        except JsonError as error:
            raise UsageReportError(error.where, error.problem) from error


def make_report(
    reporter: Reporter,
    view: View,
    gates: Iterable[Gate],
    latch_state: LatchState,
    *,
    age_seconds: float,
    reported_at: float,
    closing: bool = False,
) -> UsageReport:
    """Return the report of some gates, sorted by name, which were decided by this view."""
    latched = latch_state.gates if latch_state.cluster_id == view.cluster_id else {}
    reported = [_reported(gate, view, latched) for gate in gates]
    return UsageReport(
        reporter=reporter,
        reported_at=reported_at,
        cluster_id=view.cluster_id,
        epoch=view.epoch,
        age_seconds=age_seconds,
        gates=tuple(reported[:MOST_GATES]),
        gates_left_out=max(len(reported) - MOST_GATES, 0),
        closing=closing,
    )


def _reported(gate: Gate, view: View, latched: Mapping[LatchKey, object]) -> ReportedGate:
    decision = gate.decision
    return ReportedGate(
        name=gate.name,
        requirement=gate.key.requirement,
        policy=gate.policy,
        state=decision.verdict if decision.held is None else "held",
        latched=gate.policy == "sticky" and gate.key in latched,
        levels={feature: view.level(feature) for feature in features_in(gate.requirement)},
        waits=_WAITS[decision.waits.condition] if decision.waits is not None else None,
        open_after=gate.open_after,
    )


# ---------------------------------------------------------------- reading


def _read(report: JsonValue) -> UsageReport:
    check_schema(report, newest=SCHEMA_VERSION)
    _number(report.field("schema_version"), lowest=1)
    software = report.field("software")
    return UsageReport(
        reporter=Reporter(
            _text(report.field("app"), LONGEST_NAME),
            _text(report.field("instance"), LONGEST_NAME),
            _text(software.field("name"), LONGEST_NAME),
            _text(software.field("version"), LONGEST_NAME),
        ),
        reported_at=_seconds(report.field("reported_at")),
        cluster_id=report.field("cluster_id").optional(lambda at: _text(at, LONGEST_NAME)),
        epoch=_number(report.field("epoch"), lowest=-1),
        age_seconds=_seconds(report.field("age_seconds")),
        closing=report.field("closing").of_type(bool, "true or false"),
        gates=tuple(_read_gate(gate) for gate in report.field("gates").items()),
        gates_left_out=_number(report.field("gates_left_out"), lowest=0),
    )


def _read_gate(gate: JsonValue) -> ReportedGate:
    return ReportedGate(
        policy=gate.field("policy").one_of("sticky", "live"),
        name=_text(gate.field("name"), LONGEST_TEXT),
        requirement=_text(gate.field("requirement"), LONGEST_TEXT),
        state=gate.field("state").one_of("open", "closed", "unknown", "held"),
        latched=gate.field("latched").of_type(bool, "true or false"),
        levels=dict(_level(*said) for said in gate.field("levels").fields().items()),
        waits=gate.field("waits").optional(lambda at: _WAITS[at.one_of(*_WAITS)]),
        open_after=_seconds(gate.field("open_after")),
    )


def _level(name: str, level: JsonValue) -> tuple[str, int | None]:
    text = _text(JsonValue(f"{level.where} as a name", name), LONGEST_NAME)
    return text, level.optional(lambda at: _number(at, lowest=0))


def _number(at: JsonValue, *, lowest: int) -> int:
    if not lowest <= at.integer() <= _MOST:
        raise at.wrong(f"an integer from {lowest} to {_MOST}")
    return at.integer()


def _seconds(at: JsonValue) -> float:
    if not 0 <= at.seconds() <= LATEST:
        raise at.wrong(f"a number of seconds from 0 to {LATEST:.0f}")
    return float(at.seconds())


def _text(at: JsonValue, longest: int) -> str:
    """Return a text that any UTF-8 column takes: JSON may hold half of a character."""
    text = at.text()
    if not 0 < len(text) <= longest or as_unicode(text) != text:
        raise at.wrong(f"1 to {longest} characters of Unicode")
    return text
