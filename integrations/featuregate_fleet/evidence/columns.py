"""The kinds of rows in the table of a cluster, each with its columns, as Arrow schemas. Pure.

Each kind is a struct, and ``kind`` says which of them a row has. The table has the columns of `ORIGIN`, too, which say
by which batch a row came.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_TIME: Final = pa.timestamp("us", tz="UTC")


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(columns)


USAGE: Final = _schema(
    broker=pa.string(),  # the node id of the broker that logged the request
    day=pa.date32(),  # of the requests, in UTC
    outcome=pa.string(),  # completed, or refused because the broker lacks the version
    listener=pa.string(),  # null for a refused request
    forwarded=pa.bool_(),  # a broker forwarded the request to a controller: the second line of one request
    principal=pa.string(),
    client_id=pa.string(),
    client_host=pa.string(),  # null for a forwarded request
    software_name=pa.string(),  # null where the client did not say it on this connection
    software_version=pa.string(),
    api_key=pa.int32(),
    version=pa.int32(),
    connection=pa.string(),  # of refused requests, and of ApiVersions: the same says who was refused
    count=pa.int64(),
    first_seen=_TIME,
    last_seen=_TIME,
)
"""How often one client used one version of one API on a day: partial sums of a batch, which readers add up."""

HOUR: Final = _schema(
    broker=pa.string(),
    hour=_TIME,  # when it begins
    by=pa.string(),  # what covers it: log, with its requests, or metrics; null where the broker was asked
    level=pa.string(),  # DEBUG or TRACE for all requests, INFO for deprecated ones alone; null if not known
    asked=pa.bool_(),  # the broker was asked for the level of its request log; otherwise its lines say it
    failure=pa.string(),  # why the broker did not tell
    count=pa.int64(),  # completed requests; 0 where the broker was asked
    first_seen=_TIME,  # of the requests; when the broker was asked
    last_seen=_TIME,
)
"""Which hours of a broker are covered by what, and at which level it logged: partial sums, which readers add up."""

BY_LOG: Final = "log"
BY_METRICS: Final = "metrics"
"""What covers an hour: by the requests of its log, or by metrics."""

QUARANTINE: Final = _schema(
    source=pa.string(),  # as in kind source; null for a record of a topic
    path=pa.string(),  # of the file, below the folder of logs; kafka:TOPIC/PARTITION for a record
    broker=pa.string(),  # null if unknown
    at=pa.int64(),  # the byte at which the line begins, in the text of a compressed file; the offset
    reason=pa.string(),  # why it is not evidence
    raw=pa.string(),  # the line, up to 16,384 characters; empty where principals are hashed
    seen_at=_TIME,  # what the head of a request says whose line was cut; null for other lines
    forwarded=pa.bool_(),  # this and the next three as in kind usage
    client_id=pa.string(),
    api_key=pa.int32(),
    version=pa.int32(),
    lines=pa.int64(),  # for which the row stands
)
"""The lines that are not evidence: one row each for the first ones of a file and reason, one for others that are alike.
The rest of a file that cannot be read is not a line: its row of ``source`` has the reason."""

SOURCE: Final = _schema(
    source=pa.string(),  # length and hash of the beginning of a text, or inode and path; id of a topic
    input=pa.string(),  # logs, reports, records or metrics
    path=pa.string(),  # as in QUARANTINE
    uri=pa.string(),  # as Spark names the file; kafka:TOPIC/PARTITION
    broker=pa.string(),  # null if unknown
    size=pa.int64(),  # bytes of the file when it was listed; the offset after the last record
    stamp=pa.string(),  # of the file when it was listed: one that has the same is not opened again
    position=pa.int64(),  # the byte of the text, the offset, or the second of metrics up to which it is read
    tail=pa.string(),  # a hash of the bytes before it, which no other text has; null if not opened
    read=pa.int64(),  # lines or records: read = rows + quarantined
    rows=pa.int64(),
    quarantined=pa.int64(),
    reason=pa.string(),  # why the rest is not read; the newest row of a source counts
    why=pa.string(),  # the same for people
    again=pa.int64(),  # lines that were in quarantine, and count as they are read now; 0 for a damaged file
)
"""How far a file or a partition of a topic is read: a row for each piece of it in each batch."""

FROM_LOGS: Final = "logs"
FROM_REPORTS: Final = "reports"
FROM_RECORDS: Final = "records"
FROM_METRICS: Final = "metrics"
"""The inputs: request logs, reports of apps, records of coordinators, and metrics of brokers."""

UNREAD: Final = pa.struct([("path", pa.string()), ("broker", pa.string()), ("reason", pa.string())])

RUN: Final = _schema(
    logs=pa.string(),  # the URI of the folder of logs; null without one, and for the next and unread
    folders=pa.list_(pa.string()),  # the brokers that have a folder
    listed=pa.list_(pa.string()),  # the brokers that the cluster listed; null where it was not asked
    unread=pa.list_(UNREAD),  # path, broker and reason of the files that are left unread
    asked_at=_TIME,  # when the brokers were asked; null where they were not, and for the next four
    cluster_id=pa.string(),
    epoch=pa.int64(),
    levels=pa.list_(pa.struct([("feature", pa.string()), ("level", pa.int32())])),  # 0: not finalized
    view=pa.string(),  # what all brokers answered, as the JSON of a view
    records_read=_TIME,  # when the topics of coordinators were read to their ends
    names=pa.string(),  # the hash of a probe, by which the key of hashed principals is known; null without
)
"""What a batch saw in addition to lines and records: one row of each batch."""

MEMBER: Final = pa.struct(
    [
        ("member_id", pa.string()),
        ("instance_id", pa.string()),  # of a static member (KIP-345)
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("model", pa.string()),  # legacy, bridge or v2, where client id or instance id has the tag of a model
    ]
)

RECORD: Final = _schema(
    topic=pa.string(),
    partition=pa.int32(),
    offset=pa.int64(),  # of the last record with this key and version in the batch
    at=_TIME,  # the timestamp of that record
    count=pa.int64(),  # how many there were
    key=pa.binary(),
    record_type=pa.int32(),  # the number that begins the key
    kind=pa.string(),  # the name of Kafka's schema without "Key"; null if the type is unknown
    version=pa.int32(),  # of the value; null for a tombstone
    tombstone=pa.bool_(),
    reason=pa.string(),  # why key or value was not decoded
    group=pa.string(),
    protocol=pa.string(),  # classic, consumer, share or streams; null where the record does not say it
    transactional_id=pa.string(),
    state=pa.string(),  # of the transaction
    tagged_fields=pa.list_(pa.string()),  # those of the value, by name
    model=pa.string(),  # of the mark in the metadata of an offset; "unknown" for a mark that is not understood
    members=pa.list_(MEMBER),
)
"""What coordinators wrote: the last record of each key and version in a batch."""

APP: Final = _schema(
    app=pa.string(),
    instance=pa.string(),  # a process of the app
    software_name=pa.string(),
    software_version=pa.string(),
    cluster_id=pa.string(),  # null where the brokers of the app report none
    closing=pa.bool_(),  # the last report of the process
    gate=pa.string(),  # null where the app has no gates
    requirement=pa.string(),
    policy=pa.string(),  # sticky or live
    state=pa.string(),  # open, closed, unknown, or held: open because of its latch alone
    latched=pa.bool_(),
    levels=pa.string(),  # a JSON object: the finalized level of each feature in the requirement
    waits=pa.string(),  # hold or burn-in: what else than its requirement keeps the gate closed
    open_after=pa.float64(),  # the seconds of its burn-in
    epoch=pa.int64(),  # the highest one of these reports
    count=pa.int64(),  # reports
    first_seen=_TIME,  # the timestamp of the first record
    last_seen=_TIME,
)
"""What one process said of one gate: partial sums of a batch, which readers add up."""

REQUESTS: Final = _schema(
    broker=pa.string(),  # its node id, or how its target is called where that is not known; null for names
    api=pa.string(),  # as in the metric, such as FetchConsumer
    version=pa.int32(),
    software_name=pa.string(),  # of deprecated requests: which software sent some of them; null for counts
    software_version=pa.string(),
    count=pa.int64(),  # at least; null for names
    first_seen=_TIME,  # they were answered after this; null where they may be older
    last_seen=_TIME,  # and up to this
)
"""How many requests of an API and version a broker has counted: those of a batch, which readers add up."""

SOFTWARE: Final = _schema(
    broker=pa.string(),  # as in kind requests
    hour=_TIME,  # when it begins
    listener=pa.string(),
    software_name=pa.string(),
    software_version=pa.string(),
    connections=pa.int64(),  # the most at a sample; 0 where it was connected between samples alone
)
"""Which software was connected to a listener of a broker in an hour."""

TARGET: Final = _schema(
    broker=pa.string(),  # as in kind requests
    hosts=pa.list_(pa.string()),  # the names of its machine or container
    since=_TIME,  # the time of the batch
    until=_TIME,
    started=_TIME,  # the newest start; null where no metric has it
    restarts=pa.int32(),
    interval=pa.float64(),  # seconds between two samples
    is_broker=pa.bool_(),  # whether it answered what only brokers do
    has_requests=pa.bool_(),  # whether it has the metric of requests by API and version
    has_software=pa.bool_(),  # whether it has that of connected software
    full_listeners=pa.list_(pa.string()),  # at which more software may be hidden
    unusable=pa.list_(pa.string()),  # labels that the rules of the exporter dropped
    unread=pa.int32(),  # values that are not numbers
    converted=pa.list_(pa.string()),  # fetch or produce, a colon, and a topic of which messages were converted
    problem=pa.string(),  # why nothing of it may be believed; empty where nothing says so
)
"""What a batch saw of the metrics of one broker or controller."""

FINDING: Final = _schema(
    taken_at=_TIME,  # when the question was asked
    move=pa.string(),  # its kind, such as to or downgrade-to
    target=pa.string(),
    since=_TIME,  # the hour from which requests counted; null for all
    evidence=pa.string(),  # a JSON object: the version of the table
    report=pa.string(),  # the verdict of the whole report
    check=pa.string(),
    verdict=pa.string(),  # of this finding
    subject=pa.string(),
    why=pa.string(),
    do=pa.string(),
    client_id=pa.string(),
    principal=pa.string(),
    software=pa.string(),
    app=pa.string(),
    api=pa.string(),
    versions=pa.list_(pa.int32()),
    stop_serving_release=pa.string(),  # the first one that does not serve the oldest of the versions any more
    count=pa.int64(),
    first_seen=_TIME,
    last_seen=_TIME,
    hosts=pa.list_(pa.string()),  # the first ones of the addresses that the requests came from
    host_count=pa.int64(),  # all of them
)
"""The findings of a report, a row for each finding."""

KINDS: Final = {
    "usage": USAGE,
    "hour": HOUR,
    "quarantine": QUARANTINE,
    "source": SOURCE,
    "run": RUN,
    "record": RECORD,
    "app": APP,
    "requests": REQUESTS,
    "software": SOFTWARE,
    "target": TARGET,
}
"""The columns of each kind of rows, by its name."""

AGGREGATED: Final = {"count": "sum", "first_seen": "min", "last_seen": "max", "epoch": "max"}
"""The columns of partial sums, each with how readers add it up."""
KEYS: Final = {kind: [one for one in KINDS[kind].names if one not in AGGREGATED] for kind in ("usage", "hour", "app")}
"""The kinds whose rows are partial sums, each with its other columns."""

ROWS: Final = pa.schema([("kind", pa.string()), *((name, pa.struct(list(schema))) for name, schema in KINDS.items())])
"""What is parsed and committed: rows of all kinds in one pass. Of the structs all but one are null."""

ORIGIN: Final = _schema(
    batch=pa.int64(),  # the number of the commit
    run_id=pa.string(),  # of the process that made it
    written_at=_TIME,
)


def partition_row(uri: str, topic_id: str, read_from: str, **counts: int) -> dict[str, object]:
    """Return a row of kind ``source`` of a partition of a topic: ``counts``, by the names of columns, or 0."""
    numbers = dict.fromkeys(("size", "position", "read", "rows", "quarantined"), 0)
    return {"source": topic_id, "input": read_from, "path": uri, "uri": uri, **numbers, **counts}


def rows_of(kind: str, rows: pa.Array) -> pa.RecordBatch:
    """Return structs of one kind as a batch of `ROWS`."""
    columns = [pa.repeat(pa.scalar(kind), len(rows))]
    columns += [rows if name == kind else pa.nulls(len(rows), ROWS.field(name).type) for name in KINDS]
    return pa.RecordBatch.from_arrays(columns, schema=ROWS)


def rows_from(kind: str, rows: list[dict[str, object]]) -> pa.RecordBatch:
    """Return rows of one kind, by the names of their columns, as a batch of `ROWS`; null where a row lacks one."""
    return rows_of(kind, pa.array(rows, pa.struct(list(KINDS[kind]))))
