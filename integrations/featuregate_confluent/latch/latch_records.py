"""The latches of an app and its groups as records of a compacted topic: a key for each fact, so that facts only grow.

Pure.

.. code-block:: text

    key      fg1|orders|CLUSTER|level|group.version|1             a level that the cluster has shown
             fg1|orders|CLUSTER|gate|eos-v2|TxnOffsetCommit>=3    a gate that has latched
             fg1|orders|CLUSTER|burn-in|eos-v2|REQUIREMENT|2|60   the attempt and its seconds
             fg1|orders|CLUSTER|group|billing|eos-v2|REQUIREMENT|MEMBER|ready    a member has reached a stage
             fg1|orders|CLUSTER|group|billing|eos-v2|REQUIREMENT|opened          the group has opened, for good
             fg1|billing||model|kip447|v2                  a group has committed in a model: the latch topic (R11)
    value    {"opened_at": ..., "epoch": ...}                     JSON, for people and for times

Each part of a key is percent-encoded. No writer overwrites another one's fact, so writers need no fencing, and the
state is the join of all records in any order. A newer software may write other facts, which are skipped.
Only a member that has gone, and a group that has opened, need no stages any more: a tombstone goes over these.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from featuregate.budgets import MOST_LATCH_BYTES, MOST_LATCH_RECORDS
from featuregate.gating.latch_documents import burn_in_from, canonical, latched_gate_from, level_from
from featuregate.gating.latches import BurnIn, LatchedGate, LatchKey, LatchState, join
from featuregate.json_values import JsonValue, parse_json
from featuregate.printable import shown
from featuregate_confluent.latch.group_agreement import STAGES, GroupLatch, GroupLatchState, Stage

_FORMAT: Final = "fg1"
_OPENED: Final = "opened"
_MOST_DIGITS: Final = 9


def key_prefix(app: str, cluster_id: str) -> bytes:
    """Return what the keys of one app and one cluster begin with: a mirrored topic has those of other clusters, too."""
    return record_key(app, cluster_id, "")


def records_of(app: str, state: LatchState) -> dict[bytes, bytes]:
    """Return the records that hold a state, by key."""
    assert state.cluster_id is not None
    facts: dict[tuple[str, ...], dict[str, float | None]] = {
        ("level", name, str(level)): {} for name, level in state.levels.items()
    }
    for gate in state.gates.values():
        facts["gate", gate.gate, gate.requirement] = {"opened_at": gate.opened_at, "epoch": gate.epoch}
    for each in state.burn_ins.values():
        facts["burn-in", each.gate, each.requirement, str(each.attempt), repr(each.seconds)] = {"since": each.since}
    return {record_key(app, state.cluster_id, *fact): json.dumps(value).encode() for fact, value in facts.items()}


class KeptRecords:
    """The records of a topic whose keys begin so, as far as no tombstone follows them, within the budget of a topic."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._found: dict[bytes, list[bytes]] = {}
        self._number = self._bytes = 0

    def take(self, key: object, value: object) -> None:
        """Take the next record of a partition. Raises `OverflowError` where there are too many."""
        if not isinstance(key, bytes) or not key.startswith(self._prefix):
            return
        if not isinstance(value, bytes):
            self._found.pop(key, None)
            return
        self._number += 1
        self._bytes += len(key) + len(value)
        if self._number > MOST_LATCH_RECORDS or self._bytes > MOST_LATCH_BYTES:
            raise OverflowError(
                f"has more than {MOST_LATCH_RECORDS} records or {MOST_LATCH_BYTES} bytes of this app and cluster: "
                "let the topic be compacted, and write tombstones over what no app has written"
            )
        self._found.setdefault(key, []).append(value)

    def records(self) -> list[tuple[bytes, bytes]]:
        """Return each value with its key, in the order of their partition."""
        return [(key, value) for key, values in self._found.items() for value in values]


class ReadLatches(NamedTuple):
    """What records hold, in any order, and what could not be read of them."""

    state: LatchState
    damaged: Mapping[bytes, str]
    """The key of each record that is left out, and why. To say nothing of it would forget a latch in silence."""


def state_of(app: str, cluster_id: str, records: Iterable[tuple[bytes, bytes]]) -> ReadLatches:
    """Return the state that records hold, in any order; those of other apps and clusters are skipped."""
    prefix = key_prefix(app, cluster_id)
    levels: dict[str, int] = {}
    gates: dict[LatchKey, LatchedGate] = {}
    burn_ins: dict[LatchKey, BurnIn] = {}
    damaged: dict[bytes, str] = {}
    for key, value in records:
        if not key.startswith(prefix):
            continue
        try:
            match _fact_in(key[len(prefix) :], value):
                case (str(name), int(level)):
                    levels[name] = max(levels.get(name, 0), level)
                case LatchedGate() as gate:
                    gates[gate.key] = min(gates.get(gate.key, gate), gate, key=lambda at: (at.opened_at, at.epoch))
                case BurnIn() as counted:
                    burn_ins[counted.key] = burn_ins.get(counted.key, counted).join(counted)
        except (ValueError, OverflowError) as error:
            damaged[key] = _left_out(key, str(error))
    empty = LatchState(cluster_id=cluster_id)
    return ReadLatches(join(empty, replace(empty, levels=levels, gates=gates, burn_ins=burn_ins)), damaged)


def superseded(
    records: Mapping[bytes, bytes], prefix: bytes, wanted: Collection[bytes], unread: Collection[bytes]
) -> list[bytes]:
    """Return the keys of burn-ins that no wanted record has: a tombstone over them loses nothing.

    What was not read may be of a newer software, and stays.
    """
    return [key for key in records if key.startswith(prefix + b"burn-in|") and key not in wanted and key not in unread]


def record_key(*parts: str) -> bytes:
    """Return the key of a fact: of an app, of a cluster, and what the fact is."""
    return "|".join([_FORMAT, *(quote(part, safe="") for part in parts)]).encode()


def _left_out(key: bytes, problem: str) -> str:
    name = shown(key.decode(errors="replace"))
    return f"the record with the key {name} is damaged ({shown(problem)}), and left out: write a tombstone over it"


def _fact_in(key: bytes, value: bytes) -> tuple[str, int] | LatchedGate | BurnIn | None:
    """Read a fact by the reader of all latch stores; None for one that is not known. Raises `ValueError`."""
    kind, *parts = (unquote(part) for part in key.decode().split("|"))
    match kind, parts:
        case "level", [name, level]:
            return name, level_from(JsonValue("level", _number(level)))
        case "gate", [name, requirement]:
            return latched_gate_from(_row(value, gate=name, requirement=requirement))
        case "burn-in", [name, requirement, attempt, seconds]:
            counted = {"attempt": _number(attempt), "seconds": float(seconds)}
            return burn_in_from(_row(value, gate=name, requirement=requirement, **counted))
    return None


def _row(value: bytes, **parts: object) -> JsonValue:
    return JsonValue("value", {**parse_json(value, "value").of_type(dict, "an object"), **parts})


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise ValueError(f"{shown(text)!r} is not a number")
    return int(text)


def group_records_of(app: str, key: GroupLatch, state: GroupLatchState) -> dict[bytes, bytes]:
    """Return the records that hold what members have written, by key."""
    records = {_key(app, key, member, stage): b"{}" for member, stage in state.stages.items()}
    if state.opened_at is not None:
        records[_key(app, key, _OPENED)] = json.dumps({"opened_at": state.opened_at}).encode()
    return records


def group_state_of(app: str, key: GroupLatch, records: Iterable[tuple[bytes, bytes]]) -> GroupLatchState:
    """Return what members have written, from records in any order; those of others are skipped.

    An opening is in the key of its record: to read one whose time is damaged as none would close the group.
    """
    stages: dict[str, Stage] = {}
    opened: list[float] = []
    for name, value in records:
        match _of_group(app, key, name):
            case [member, stage] if stage in STAGES:
                stages[member] = max(stages.get(member, "waits"), STAGES[STAGES.index(stage)], key=STAGES.index)
            case [kind] if kind == _OPENED:
                opened.append(_opened_at(value))
    return GroupLatchState(stages, min(opened, default=None))


def stage_keys(app: str, key: GroupLatch, records: Collection[bytes], gone: Collection[str]) -> list[bytes]:
    """Return the keys of the stages that these members have written."""
    return [name for name in records if (parts := _of_group(app, key, name)) and parts[0] in gone and len(parts) > 1]


def _of_group(app: str, key: GroupLatch, name: bytes) -> list[str]:
    """Return what a key says of this group and this gate behind their names; nothing for any other key.

    The requirement may be spelled as another release does: see :func:`~featuregate.gating.latch_store.canonical`.
    """
    prefix = record_key(app, key.cluster_id, "group", key.group, key.gate, "")
    if not name.startswith(prefix):
        return []
    requirement, *parts = (unquote(part) for part in name[len(prefix) :].decode(errors="replace").split("|"))
    return parts if canonical(requirement) == canonical(key.requirement) else []


def _key(app: str, key: GroupLatch, *parts: str) -> bytes:
    return record_key(app, key.cluster_id, "group", key.group, key.gate, key.requirement, *parts)


def _opened_at(value: bytes) -> float:
    try:
        return float(parse_json(value, "value").field("opened_at").seconds())
    except (ValueError, OverflowError):
        return 0.0
