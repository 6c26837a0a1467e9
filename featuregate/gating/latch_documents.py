"""Latches as JSON, which people can read: of latch files, of pins and of records of a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

from featuregate.errors import RequirementError
from featuregate.gating.latches import BurnIn, LatchedGate, LatchKey, LatchState
from featuregate.json_values import JsonError, JsonValue
from featuregate.requirements import parse

T = TypeVar("T")

SCHEMA_VERSION: Final = 1
_HIGHEST_LEVEL: Final = 2**15 - 1


def latch_document(state: LatchState) -> dict[str, Any]:
    """Return the state as plain JSON-able values, by schema version 1."""
    gates = [asdict(latched) | {"opened_at": _shown(latched.opened_at)} for latched in state.gates.values()]
    burn_ins = [asdict(counted) | {"since": _shown(counted.since)} for counted in state.burn_ins.values()]
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster_id": state.cluster_id,
        "levels": dict(state.levels),
        "gates": gates,
        **({"burn_ins": burn_ins} if burn_ins else {}),
    }


def latch_state_from(document: JsonValue) -> LatchState:
    """Build the state from parsed JSON; raises `ValueError` for any other document, and for a row that is damaged."""
    state, damaged = readable_latches(document)
    if damaged:
        raise ValueError(damaged[0])
    return state


def readable_latches(document: JsonValue) -> tuple[LatchState, list[str]]:
    """Build the state of the rows that can be read, and say what is wrong with each other one.

    Raises `ValueError`: it is another document.
    """
    damaged: list[str] = []

    def found(rows: Iterable[JsonValue], read: Callable[[JsonValue], T]) -> Iterator[T]:
        for row in rows:
            try:
                each = read(row)
            except ValueError as error:
                damaged.append(str(error) if isinstance(error, JsonError) else f"{row.where}: {error}")
            else:
                yield each

    fields = document.fields()
    named = [JsonValue(level.where, (name, level)) for name, level in document.field("levels").fields().items()]
    gates = found(document.field("gates").items(), latched_gate_from)
    burn_ins: dict[LatchKey, BurnIn] = {}
    for counted in found(fields["burn_ins"].items() if "burn_ins" in fields else (), burn_in_from):
        # Two releases that share a folder may spell one requirement in two ways.
        burn_ins[counted.key] = burn_ins.get(counted.key, counted).join(counted)
    state = LatchState(
        cluster_id=document.field("cluster_id").text(),
        gates={latched.key: latched for latched in gates},
        burn_ins=burn_ins,
        levels=dict(found(named, lambda row: (row.value[0], level_from(row.value[1])))),
    )
    return state, damaged


def level_from(level: JsonValue) -> int:
    """Return a finalized level; raises `ValueError` for anything else."""
    if not 0 <= level.integer() <= _HIGHEST_LEVEL:
        raise level.wrong("a level")
    return level.integer()


def latched_gate_from(row: JsonValue) -> LatchedGate:
    """Build a latched gate; raises `ValueError` for anything else."""
    return LatchedGate(
        gate=row.field("gate").text(),
        requirement=canonical(row.field("requirement").text()),
        opened_at=_time(row.field("opened_at")),
        epoch=row.field("epoch").integer(),
    )


def burn_in_from(row: JsonValue) -> BurnIn:
    """Build a burn-in; raises `ValueError` for anything else."""
    return BurnIn(
        gate=row.field("gate").text(),
        requirement=canonical(row.field("requirement").text()),
        attempt=row.field("attempt").integer(),
        seconds=float(row.field("seconds").seconds()),
        since=row.field("since").optional(_time),
    )


def _shown(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()


def _time(at: JsonValue) -> float:
    """Read a time of ISO 8601, as files have it, or seconds since the Unix epoch, as records have them."""
    if type(at.value) is not str:
        return float(at.seconds())
    time = datetime.fromisoformat(at.value)
    return time.replace(tzinfo=time.tzinfo or UTC).timestamp()


@lru_cache(maxsize=1024)
def canonical(requirement: str) -> str:
    """Spell a requirement as this release does.

    A newer catalog may know an API or a feature by name that was a bare number or ``feature:`` when the latch was
    written; the promise is the same, and its latch must be found again.
    """
    try:
        return str(parse(requirement))
    except RequirementError:
        return requirement
