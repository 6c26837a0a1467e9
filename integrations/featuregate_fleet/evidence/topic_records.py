"""Records of topics become rows: reports of apps, and what coordinators wrote. Pure: executors run it.

Each report is counted once: it is a row for each gate, or in quarantine. Which records of coordinators exist, and what
is in them, says `featuregate.records`. One that it does not know, or whose bytes do not parse, is a row like any other,
with a reason. Of those with one key and one version of the value, a batch keeps the last, because compaction does the
same; a group commits offsets much more often than anything else happens.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate.errors import RemoteWireError, UsageReportError
from featuregate.group_marks import read_mark, read_tag
from featuregate.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, UnknownKey, UnknownValue
from featuregate.records.schemas import TransactionState, tagged_fields
from featuregate.usage.report import UsageReport
from featuregate_fleet.evidence.columns import APP, FROM_REPORTS, RECORD, partition_row, rows_from, rows_of
from featuregate_fleet.evidence.paths import partition_uri
from featuregate_fleet.evidence.reasons import MALFORMED_REPORT, NEWER_REPORT, OTHER_CLUSTER, RAW_LENGTH
from featuregate_fleet.evidence.usage import add_up

if TYPE_CHECKING:
    from featuregate_fleet.evidence.pseudonyms import Pseudonyms

RECORDS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),  # of a record of a topic of logs the node id of the broker, also where a header has it
        ("value", pa.binary()),
    ]
)
"""What parsers of topics take: the records of a task, which are in the order of their offsets."""
TOPICS: Final = {log.topic: log for log in (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)}
"""The topics of coordinators, and what decodes their records."""

UNKNOWN_TYPE: Final = "unknown-type"
UNKNOWN_VERSION: Final = "unknown-version"
UNREADABLE: Final = "unreadable"

_MOST: Final = 200_000
_MOST_BYTES: Final = 64 * 2**20
"""Records that are kept until they are decoded. It bounds the memory of a task."""
_NUMBER: Final = 2
"""Bytes of the type of a record, which begins its key, and of a version, which begins its value."""
_IDENTITY: Final = ("topic", "partition", "key", "head", "tombstone")
"""Columns that identify a record: of records that are equal in these, the last one counts."""
_OF_LAST: Final = ("offset", "at", "value")
_SAID: Final = pa.schema([field for field in RECORD if field.name not in {*_IDENTITY, *_OF_LAST, "count"}])
"""What is decoded from bytes."""
_PROTOCOLS: Final = {"GroupMetadata": "classic", "ConsumerGroup": "consumer", "Share": "share", "Streams": "streams"}


# ---------------------------------------------------------------- reports of apps


def parse_reports(
    batches: Iterable[pa.RecordBatch], *, topic_id: str, cluster_id: str | None, names: Pseudonyms | None = None
) -> Iterator[pa.RecordBatch]:
    """Parse `RECORDS`, the reports of apps that use the cluster with this id.

    Yield `featuregate_fleet.evidence.columns.ROWS`: what apps said, added up, what is in quarantine, and a row of kind
    ``source`` for each partition with its counts alone. With ``names``, quarantine has no texts.
    """
    return add_up(_parsed(batches, topic_id, cluster_id), names)


def _parsed(batches: Iterable[pa.RecordBatch], topic_id: str, cluster_id: str | None) -> Iterator[pa.RecordBatch]:
    read, lost = Counter[str](), Counter[str]()
    for batch in batches:
        apps: list[dict[str, Any]] = []
        quarantined: list[dict[str, Any]] = []
        for record in batch.to_pylist():
            uri = partition_uri(record["topic"], record["partition"])
            rows, why = _rows_of(record, cluster_id)
            apps += rows
            read[uri] += 1
            if why:
                raw = (record["value"] or b"").decode(errors="replace")[:RAW_LENGTH]
                quarantined.append({"path": uri, "at": record["offset"], "reason": why, "raw": raw, "lines": 1})
                lost[uri] += 1
        if quarantined:
            yield rows_from("quarantine", quarantined)
        if apps:
            yield rows_from("app", apps)
    if read:
        counts = {uri: {"read": read[uri], "rows": read[uri] - lost[uri], "quarantined": lost[uri]} for uri in read}
        yield rows_from("source", [partition_row(uri, topic_id, FROM_REPORTS, **of) for uri, of in counts.items()])


def _rows_of(record: Mapping[str, Any], cluster_id: str | None) -> tuple[list[dict[str, Any]], str | None]:
    """Return the rows of a report, or why the record is in quarantine, as is one at which reader or table fails."""
    try:
        report = UsageReport.from_json(record["value"] or b"")
        if report.cluster_id is not None and report.cluster_id != cluster_id:
            return [], OTHER_CLUSTER
        rows = list(_rows(report, record["timestamp"]))
        pa.array(rows, pa.struct(list(APP)))
    except UsageReportError as error:
        is_newer = error.where == "report.schema_version" and "newer" in error.problem
        return [], NEWER_REPORT if is_newer else MALFORMED_REPORT
    except Exception:  # noqa: BLE001 - one record may not end the reading of all others
        return [], MALFORMED_REPORT
    return rows, None


def _rows(report: UsageReport, seen_at: datetime) -> Iterator[dict[str, Any]]:
    """Yield a row for each gate; a report without gates has one, too, because its app reports."""
    common = {
        **report.reporter._asdict(),
        "cluster_id": report.cluster_id,
        "closing": report.closing,
        "epoch": report.epoch,
        "count": 1,
        "first_seen": seen_at,
        "last_seen": seen_at,
    }
    for gate in report.gates:
        yield common | {
            "gate": gate.name,
            "requirement": gate.requirement,
            "policy": gate.policy,
            "state": gate.state,
            "latched": gate.latched,
            "levels": json.dumps(dict(sorted(gate.levels.items()))),
            "waits": gate.waits,
            "open_after": gate.open_after,
        }
    if not report.gates:
        yield common


# ---------------------------------------------------------------- records of coordinators


def decode_batches(batches: Iterable[pa.RecordBatch], *, names: Pseudonyms | None = None) -> Iterator[pa.RecordBatch]:
    """Decode `RECORDS` to `featuregate_fleet.evidence.columns.ROWS`; with ``names``, members' addresses are hashed."""
    return add_up((rows_of("record", rows) for rows in _each_decoded(batches)), names)


def _each_decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.StructArray]:
    held: list[pa.Table] = []
    records = size = 0
    for batch in batches:
        held.append(_one_each(batch))
        records += batch.num_rows
        size += batch.nbytes
        if records >= _MOST or size >= _MOST_BYTES:
            held = [_last(held)]
            records, size = len(held[0]), held[0].nbytes
            if records >= _MOST // 2 or size >= _MOST_BYTES // 2:
                yield _decoded(held.pop())
                records = size = 0
    if records:
        yield _decoded(_last(held))


def _one_each(records: pa.RecordBatch) -> pa.Table:
    table = pa.Table.from_batches([records]).cast(RECORDS)  # Spark's timestamps are in the zone of its session
    columns = {
        **{name: table[name] for name in ("topic", "partition", "offset", "value")},
        "at": table["timestamp"],
        "key": pc.fill_null(table["key"], b""),
        "head": pc.binary_slice(table["value"], 0, _NUMBER),
        "tombstone": pc.is_null(table["value"]),
        "count": pa.repeat(pa.scalar(1, pa.int64()), len(table)),
    }
    return pa.table(columns)


def _last(held: list[pa.Table]) -> pa.Table:
    """Return the last record of each key and version, with the number of all of them."""
    grouped = pa.concat_tables(held).group_by(list(_IDENTITY), use_threads=False)  # in order
    last = grouped.aggregate([*((name, "last") for name in _OF_LAST), ("count", "sum")])
    return last.rename_columns([*_IDENTITY, *_OF_LAST, "count"]).select(held[0].column_names)


def _decoded(last: pa.Table) -> pa.StructArray:
    texts = list(zip(*(last[name].to_pylist() for name in ("topic", "key", "value")), strict=True))
    fields = [_kept(*each) for each in texts]
    said = _batch(fields) or _batch([f if _batch([f]) else _lost(*each) for f, each in zip(fields, texts, strict=True)])
    assert said is not None
    columns = [(said if name in _SAID.names else last).column(name) for name in RECORD.names]
    return pa.Table.from_arrays(columns, schema=RECORD).to_struct_array().combine_chunks()


def _batch(fields: list[dict[str, Any]]) -> pa.RecordBatch | None:
    """Return rows; None where a table cannot keep one of them."""
    try:
        return pa.RecordBatch.from_pylist(fields, _SAID)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _kept(topic: str, key: bytes, value: bytes | None) -> dict[str, Any]:
    """Return what a record says, or that it is not known: one record may not end the reading of all others."""
    try:
        return _numbers(topic, key, value) | _fields(topic, key, value)
    except Exception:  # noqa: BLE001 - also what nobody foresaw
        return _lost(topic, key, value)


def _lost(topic: str, key: bytes, value: bytes | None) -> dict[str, Any]:
    return _numbers(topic, key, value) | {"reason": UNREADABLE}


def _numbers(topic: str, key: bytes, value: bytes | None) -> dict[str, Any]:
    number, version = (
        int.from_bytes(text[:_NUMBER], "big", signed=True) if text and len(text) >= _NUMBER else None
        for text in (key, value)
    )
    known = TOPICS[topic].records.get(number) if number is not None else None
    return {"record_type": number, "version": version, "kind": known and known[0].__name__.removesuffix("Key")}


def _fields(topic: str, key: bytes, value: bytes | None) -> dict[str, Any]:
    """Return what a record says; a key that is understood counts, also where its value is not."""
    log = TOPICS[topic]
    try:
        record = log.decode(key, value)
    except RemoteWireError:
        return _of_key(log.decode(key, None).key) | {"reason": UNREADABLE}
    if isinstance(record.key, UnknownKey):
        return {"reason": UNKNOWN_TYPE}
    if isinstance(record.value, UnknownValue):
        return _of_key(record.key) | {"reason": UNKNOWN_VERSION}
    return _of_key(record.key) | _of_value(record.key, record.value)


def _of_key(key: Any) -> dict[str, Any]:
    return {
        "group": getattr(key, "group", None) or getattr(key, "group_id", None),
        "transactional_id": getattr(key, "transactional_id", None),
        "protocol": _protocol(type(key).__name__),
    }


@cache
def _protocol(kind: str) -> str | None:
    return next((protocol for head, protocol in _PROTOCOLS.items() if kind.startswith(head)), None)


def _of_value(key: Any, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    found: dict[str, Any] = {"tagged_fields": list(tagged_fields(value))}
    if (metadata := getattr(value, "metadata", None)) is not None:
        found["model"] = read_mark(metadata)[0]
    elif (status := getattr(value, "transaction_status", None)) is not None:
        found["state"] = _state(status)
    elif (members := getattr(value, "members", None)) is not None:
        found["members"] = [_member(member.member_id, member, member.group_instance_id) for member in members]
    elif hasattr(value, "client_id"):
        member_id = getattr(key, "member_id", None)
        found["members"] = [_member(member_id, value, getattr(value, "instance_id", None))]
    return found


def _member(member_id: str | None, said: Any, instance_id: str | None) -> dict[str, str | None]:
    return {
        "member_id": member_id,
        "instance_id": instance_id,
        "client_id": said.client_id,
        "client_host": said.client_host,
        "model": read_tag(instance_id) or read_tag(said.client_id),
    }


def _state(status: int) -> str:
    try:
        name = TransactionState(status).name
    except ValueError:
        return str(status)
    return "".join(word.capitalize() for word in name.split("_"))
