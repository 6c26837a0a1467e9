"""Records of coordinators, in Arrow batches, become rows of ``coordinator_records``. Pure: executors run it.

Which records exist, and what is in them, says `featuregate.records`. A record that it does not know, or whose bytes do
not parse, is a row like any other, with a reason. Of the records with one key and one version of the value, a batch
keeps the last, because compaction does the same; a group commits offsets much more often than anything else happens.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from featuregate.errors import RemoteWireError
from featuregate.records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    UnknownKey,
    UnknownValue,
    tagged_fields,
)
from featuregate.records.transactions import TransactionState
from featuregate_fleet.evidence.columns import COORDINATOR_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from featuregate.records import CoordinatorRecord

__all__ = ["RAW", "TOPICS", "UNKNOWN_TYPE", "UNKNOWN_VERSION", "UNREADABLE", "decode_batches", "kinds", "model_of_mark"]

TOPICS: Final = {log.topic: log for log in (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)}
"""The topics of coordinators, and what decodes their records."""

UNKNOWN_TYPE: Final = "unknown-type"
UNKNOWN_VERSION: Final = "unknown-version"
UNREADABLE: Final = "unreadable"

RAW: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("record_type", pa.int32()),
        ("kind", pa.string()),
        ("version", pa.int32()),
    ]
)
"""What `decode_batches` takes: Kafka's columns, and what Spark's SQL decodes of them."""

_MOST: Final = 50_000
"""Keys that are kept until they are decoded. It bounds the memory of a task."""
_MARK: Final = re.compile(r"fg[0-9]+;")
_MODELS: Final = frozenset({"legacy", "bridge", "v2"})
_NO_MODEL: Final = "unknown"
_PROTOCOLS: Final = {"GroupMetadata": "classic", "ConsumerGroup": "consumer", "Share": "share", "Streams": "streams"}


def kinds() -> dict[str, dict[int, str]]:
    """Return the name of each type of record, by topic."""
    return {
        topic: {number: key.__name__.removesuffix("Key") for number, (key, _) in log.records.items()}
        for topic, log in TOPICS.items()
    }


def decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the records of one task, which are in the order of their offsets. Columns: `RAW`."""
    last: dict[tuple[Any, ...], list[Any]] = {}
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in RAW.names]
        for topic, partition, offset, at, key, value, record_type, kind, version in zip(*columns, strict=True):
            known = last.get(identity := (topic, partition, key, version, value is None))
            if known is None:
                last[identity] = [1, offset, at, value, record_type, kind]
            else:
                known[0] += 1
                known[1:4] = offset, at, value
        if len(last) >= _MOST:
            yield _decoded(last)
            last = {}
    if last:
        yield _decoded(last)


def _decoded(last: dict[tuple[Any, ...], list[Any]]) -> pa.RecordBatch:
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "at": at,
            "count": count,
            "key": key or b"",
            "record_type": record_type,
            "kind": kind,
            "version": version,
            "tombstone": tombstone,
            **_fields(topic, key, value),
        }
        for (topic, partition, key, version, tombstone), (count, offset, at, value, record_type, kind) in last.items()
    ]
    return pa.RecordBatch.from_pylist(rows, COORDINATOR_RECORDS)


def _fields(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """Return what a record says; a key that is understood counts, also where its value is not."""
    log = TOPICS[topic]
    try:
        record = log.decode(key or b"", value)
    except RemoteWireError:
        try:
            record = log.decode(key or b"", None)
        except RemoteWireError:
            return {"reason": UNREADABLE}
        return _of_key(record) | {"reason": UNREADABLE}
    if isinstance(record.key, UnknownKey):
        return {"reason": UNKNOWN_TYPE}
    if isinstance(record.value, UnknownValue):
        return _of_key(record) | {"reason": UNKNOWN_VERSION}
    return _of_key(record) | _of_value(record)


def _of_key(record: CoordinatorRecord) -> dict[str, Any]:
    key: Any = record.key
    kind = type(key).__name__
    return {
        "group": getattr(key, "group", None) or getattr(key, "group_id", None),
        "transactional_id": getattr(key, "transactional_id", None),
        "protocol": next((protocol for head, protocol in _PROTOCOLS.items() if kind.startswith(head)), None),
    }


def _of_value(record: CoordinatorRecord) -> dict[str, Any]:
    value: Any = record.value
    if value is None:
        return {}
    found: dict[str, Any] = {"tagged_fields": list(tagged_fields(value))}
    if (metadata := getattr(value, "metadata", None)) is not None:
        found["model"] = model_of_mark(metadata)
    elif (status := getattr(value, "transaction_status", None)) is not None:
        found["state"] = _state(status)
    elif (members := getattr(value, "members", None)) is not None:
        found["members"] = [_member(member.member_id, member, member.group_instance_id) for member in members]
    elif hasattr(value, "client_id"):
        member_id = getattr(record.key, "member_id", None)
        found["members"] = [_member(member_id, value, getattr(value, "instance_id", None))]
    return found


def _member(member_id: str | None, said: Any, instance_id: str | None) -> dict[str, str | None]:
    return {
        "member_id": member_id,
        "instance_id": instance_id,
        "client_id": said.client_id,
        "client_host": said.client_host,
        "model": _model_of_tag(instance_id) or _model_of_tag(said.client_id),
    }


def _state(status: int) -> str:
    try:
        name = TransactionState(status).name
    except ValueError:
        return str(status)
    return "".join(word.capitalize() for word in name.split("_"))


def model_of_mark(metadata: str) -> str | None:
    """Return the model that the mark in the metadata of an offset says; None where there is no mark.

    The grammar is that of ``featuregate_confluent.latch.marks``. A mark that is not understood is of the model
    ``unknown``: it may be any.
    """
    if not _MARK.match(metadata):
        return None
    head, *pairs = metadata.partition("\0")[0].partition("|")[0].split(";")
    models = [text for name, _, text in (pair.partition("=") for pair in pairs) if name == "model"]
    return models[0] if head == "fg1" and len(models) == 1 and models[0] in _MODELS else _NO_MODEL


def _model_of_tag(name: str | None) -> str | None:
    tag = (name or "").rpartition("#fg=")
    return tag[2] if tag[1] and tag[2] in _MODELS else None
