"""The latches of an app and its groups as records of a compacted topic: a key for each fact, so that facts only grow.

Pure.

.. code-block:: text

    key      fg1|orders|CLUSTER|level|group.version|1             a level that the cluster has shown
             fg1|orders|CLUSTER|gate|eos-v2|TxnOffsetCommit>=3    a gate that has latched
             fg1|orders|CLUSTER|burn-in|eos-v2|REQUIREMENT|2|60   the attempt and its seconds
             fg1|orders|CLUSTER|group|billing|eos-v2|REQUIREMENT|MEMBER|ready    a member has reached a stage
             fg1|orders|CLUSTER|group|billing|eos-v2|REQUIREMENT|opened          the group has opened, for good
    value    {"opened_at": ..., "epoch": ...}                     JSON, for people and for times

Each part of a key is percent-encoded. No writer overwrites another one's fact, so writers need no fencing, and the
state is the join of all records in any order. A newer software may write other facts, which are skipped.
Only a member that has gone, and a group that has opened, need no stages any more: a tombstone goes over these.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Final
from urllib.parse import quote, unquote

from featuregate.errors import LatchStoreError
from featuregate.gating.latches import BurnIn, LatchedGate, LatchState, join
from featuregate.json_values import JsonValue, parse_json
from featuregate_confluent.latch.group_agreement import STAGES, GroupLatch, GroupLatchState

_FORMAT: Final = "fg1"
_OPENED: Final = "opened"


def key_prefix(app: str, cluster_id: str) -> bytes:
    """Return what the keys of one app and one cluster begin with: a mirrored topic has those of other clusters, too."""
    return record_key(app, cluster_id, "")


def records_of(app: str, state: LatchState) -> dict[bytes, bytes]:
    """Return the records that hold a state, by key."""
    assert state.cluster_id is not None
    cluster = app, state.cluster_id
    levels: dict[bytes, dict[str, float | None]] = {
        record_key(*cluster, "level", name, str(level)): {} for name, level in state.levels.items()
    }
    gates: dict[bytes, dict[str, float | None]] = {
        record_key(*cluster, "gate", gate.gate, gate.requirement): {"opened_at": gate.opened_at, "epoch": gate.epoch}
        for gate in state.gates.values()
    }
    burn_ins: dict[bytes, dict[str, float | None]] = {
        record_key(*cluster, "burn-in", each.gate, each.requirement, str(each.attempt), repr(each.seconds)): {
            "since": each.since
        }
        for each in state.burn_ins.values()
    }
    return {key: json.dumps(value).encode() for key, value in {**levels, **gates, **burn_ins}.items()}


def state_of(app: str, cluster_id: str, records: Iterable[tuple[bytes, bytes]]) -> LatchState:
    """Return the state that records hold, in any order; those of other apps and clusters are skipped.

    Raises
    ------
    LatchStoreError
        A record cannot be read. To read it as none would forget a latch in silence.
    """
    state, prefix = LatchState(cluster_id=cluster_id), key_prefix(app, cluster_id)
    for key, value in records:
        if key.startswith(prefix):
            try:
                state = join(state, _state_of_one(cluster_id, key[len(prefix) :], value))
            except ValueError as error:
                problem = f"the record with this key is damaged ({error}): write a tombstone over it"
                raise LatchStoreError(key.decode(errors="replace"), problem) from error
    return state


def superseded(records: Mapping[bytes, bytes], app: str, state: LatchState) -> list[bytes]:
    """Return the keys of burn-ins that a state supersedes: a tombstone over them loses nothing."""
    assert state.cluster_id is not None
    prefix, wanted = key_prefix(app, state.cluster_id), records_of(app, state)
    return [key for key in records if key.startswith(prefix + b"burn-in|") and key not in wanted]


def record_key(*parts: str) -> bytes:
    """Return the key of a fact: of an app, of a cluster, and what the fact is."""
    return "|".join([_FORMAT, *(quote(part, safe="") for part in parts)]).encode()


def _state_of_one(cluster_id: str, key: bytes, value: bytes) -> LatchState:
    kind, *parts = (unquote(part) for part in key.decode().split("|"))
    fields = parse_json(value, "value")
    match kind, parts:
        case "level", [name, level]:
            return LatchState(cluster_id=cluster_id, levels={name: int(level)})
        case "gate", [name, requirement]:
            opened_at, epoch = float(fields.field("opened_at").seconds()), fields.field("epoch").integer()
            gate = LatchedGate(gate=name, requirement=requirement, opened_at=opened_at, epoch=epoch)
            return LatchState(cluster_id=cluster_id, gates={gate.key: gate})
        case "burn-in", [name, requirement, attempt, seconds]:
            since = fields.field("since").optional(lambda at: float(JsonValue.seconds(at)))
            burn_in = BurnIn(
                gate=name, requirement=requirement, attempt=int(attempt), seconds=float(seconds), since=since
            )
            return LatchState(cluster_id=cluster_id, burn_ins={burn_in.key: burn_in})
    return LatchState(cluster_id=cluster_id)


def group_records_of(app: str, key: GroupLatch, state: GroupLatchState) -> dict[bytes, bytes]:
    """Return the records that hold what members have written, by key."""
    records = {_key(app, key, member, stage): b"{}" for member, stage in state.stages.items()}
    if state.opened_at is not None:
        records[_key(app, key, _OPENED)] = json.dumps({"opened_at": state.opened_at}).encode()
    return records


def group_state_of(app: str, key: GroupLatch, records: Iterable[tuple[bytes, bytes]]) -> GroupLatchState:
    """Return what members have written, from records in any order; those of others are skipped.

    Raises
    ------
    LatchStoreError
        The record of an opening cannot be read.
    """
    state, prefix = GroupLatchState(), _key(app, key, "")
    for name, value in records:
        if not name.startswith(prefix):
            continue
        match [unquote(part) for part in name[len(prefix) :].decode().split("|")]:
            case [member, stage] if stage in STAGES:
                state = state.join(GroupLatchState({member: STAGES[STAGES.index(stage)]}))
            case [kind] if kind == _OPENED:
                state = state.join(GroupLatchState(opened_at=_opened_at(name, value)))
    return state


def stage_keys(app: str, key: GroupLatch, records: Collection[bytes], gone: Collection[str]) -> list[bytes]:
    """Return the keys of the stages that these members have written."""
    wanted = {_key(app, key, member, stage) for member in gone for stage in STAGES}
    return [name for name in records if name in wanted]


def _key(app: str, key: GroupLatch, *parts: str) -> bytes:
    return record_key(app, key.cluster_id, "group", key.group, key.gate, key.requirement, *parts)


def _opened_at(name: bytes, value: bytes) -> float:
    try:
        return float(parse_json(value, "value").field("opened_at").seconds())
    except ValueError as error:
        problem = f"the record with this key is damaged ({error}): write a tombstone over it"
        raise LatchStoreError(name.decode(errors="replace"), problem) from error
