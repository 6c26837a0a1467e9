"""The agreement of a group as records in the topic of its app's latches: one key for each fact. Pure.

.. code-block:: text

    fg1|orders|CLUSTER|group|billing|eos-v2|TxnOffsetCommit>=3|MEMBER|ready    a member has reached a stage
    fg1|orders|CLUSTER|group|billing|eos-v2|TxnOffsetCommit>=3|opened          the group has opened, for good

Only a member that has gone, and a group that has opened, need no stages any more: a tombstone goes over these.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import unquote

from featuregate.errors import LatchStoreError
from featuregate.json_values import parse_json
from featuregate_confluent.latch.group_agreement import STAGES, GroupLatch, GroupLatchState
from featuregate_confluent.latch.latch_records import record_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_OPENED = "opened"


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
