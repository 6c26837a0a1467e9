"""The columns of each table, as Arrow schemas. Pure.

Every table has the columns of `ORIGIN` in addition to its own. They name the stream and micro-batch that wrote a row.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_TIME: Final = pa.timestamp("us", tz="UTC")

PARSED_USAGE: Final = pa.schema(
    [
        ("broker", pa.string()),  # the node id of the broker that logged the request
        ("hour", _TIME),  # the hour of the requests
        ("outcome", pa.string()),  # completed, or refused because the broker lacks the version
        ("level", pa.string()),  # of the lines: DEBUG or TRACE for all requests, INFO for deprecated ones alone
        ("listener", pa.string()),  # null for a refused request
        ("forwarded", pa.bool_()),  # a broker forwarded the request to a controller: the second line of one request
        ("principal", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),  # null for a forwarded request, and in rows of releases that counted without it
        ("software_name", pa.string()),  # null where the client did not say it on this connection
        ("software_version", pa.string()),
        ("api_key", pa.int32()),
        ("version", pa.int32()),
        ("count", pa.int64()),
        ("first_seen", _TIME),
        ("last_seen", _TIME),
        ("text_log", pa.bool_()),  # the broker logs requests as text, so that a client can write whole lines; null here
    ]
)
"""How often one client used one version of one API in an hour, as the parser counts it."""

API_USAGE: Final = PARSED_USAGE.append(pa.field("hours", pa.int32()))  # of the requests: 1, or 24 for a day
"""The same in the table: partial sums of a micro-batch, which readers add up."""

KEYS: Final = tuple(name for name in PARSED_USAGE.names if name not in ("count", "first_seen", "last_seen", "text_log"))
"""The columns of ``api_usage`` that are not aggregated."""

ALL: Final = "all"
"""The ``outcome`` of a row with the completed requests of one broker in one hour, whose rows by client are of a day."""

QUARANTINE: Final = pa.schema(
    [
        ("path", pa.string()),  # of the file, below the folder of logs; kafka:TOPIC/PARTITION for a record
        ("uri", pa.string()),  # as Spark names the file
        ("broker", pa.string()),  # null if unknown
        ("time_zone", pa.string()),  # of the times in its lines
        ("layout", pa.string()),  # that of --layout, with which its lines were read; empty without one
        ("not_after", _TIME),  # when the file was written last, or the time of the record: no line is later
        ("at", pa.int64()),  # the byte at which the line begins, in the text of a compressed file; the offset
        ("reason", pa.string()),  # see evidence.reasons
        ("raw", pa.string()),  # the line, cut to RAW_LENGTH characters; why a file cannot be read
        ("whole", pa.bool_()),  # raw is the whole line, so that another parser can read it
        ("parser", pa.int32()),  # the version of the parser
        ("seen_at", _TIME),  # what the head of a request says whose line was cut; null for other lines
        ("forwarded", pa.bool_()),  # these as in API_USAGE
        ("client_id", pa.string()),
        ("api_key", pa.int32()),
        ("version", pa.int32()),
        ("lines", pa.int64()),  # for which the row stands
        ("text_log", pa.bool_()),  # as in API_USAGE
    ]
)
"""The lines that are not evidence: one row each for the first ones of a file and reason, one for others that are alike,
and one for the rest of a file that cannot be read."""

LOG_LINES: Final = pa.schema(
    [
        ("path", pa.string()),  # as in QUARANTINE
        ("uri", pa.string()),
        ("broker", pa.string()),
        ("time_zone", pa.string()),
        ("at", pa.int64()),
        ("length", pa.int64()),  # bytes
        ("hash", pa.string()),  # BLAKE2b of 8 bytes over the text, in hexadecimal; keyed where names are hashed
        ("outcome", pa.string()),  # completed or refused; null for a line without a request of its own
        ("time", _TIME),  # as the line has it, as if its time zone were UTC
        ("level", pa.string()),
        ("listener", pa.string()),
        ("forwarded", pa.bool_()),
        ("principal", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("connection", pa.string()),  # the same for all requests of one connection, with a refused one
        ("software_name", pa.string()),
        ("software_version", pa.string()),
        ("api_key", pa.int32()),
        ("version", pa.int32()),
        ("raw", pa.string()),  # the text, if it is kept
    ]
)
"""Each line of the logs, if they are kept: all but the bodies of requests and responses."""

EVIDENCE_FILES: Final = pa.schema(
    [
        ("path", pa.string()),
        ("uri", pa.string()),  # as Spark names the file
        ("broker", pa.string()),  # null if unknown
        ("size", pa.int64()),  # bytes of the file when it was read; the offset after the last record
        ("read", pa.int64()),  # lines: read = rows + quarantined
        ("rows", pa.int64()),
        ("quarantined", pa.int64()),
        ("content", pa.string()),  # a hash of the beginning of its text, by which it is known under another name
        ("text_log", pa.bool_()),  # it has requests as text, as brokers before 2.8 log them
    ]
)
"""The files that were read, each once, by path and content; and how far partitions of topics were, by several rows."""

BROKERS: Final = pa.schema([("broker", pa.string()), ("source", pa.string())])
"""The brokers that evidence is expected from: those of ``folder``s, and those that the ``cluster`` listed."""

UNREAD_FILES: Final = pa.schema([("path", pa.string()), ("broker", pa.string()), ("reason", pa.string())])
"""The files that the last run left unread, in whole or in part, and for which no line in quarantine stands."""

COVERAGE: Final = pa.schema(
    [
        ("taken_at", _TIME),  # when the broker was asked
        ("broker", pa.string()),
        ("level", pa.string()),  # of its request log; null if the broker did not tell
        ("failure", pa.string()),  # why not
    ]
)
"""The levels that brokers reported when a run began. Hours with lines are in `API_USAGE`."""

MEMBER: Final = pa.struct(
    [
        ("member_id", pa.string()),
        ("instance_id", pa.string()),  # of a static member (KIP-345)
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("model", pa.string()),  # legacy, bridge or v2, where client id or instance id has the tag of a model
    ]
)

COORDINATOR_RECORDS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),  # of the last record with this key and version in the micro-batch
        ("at", _TIME),  # the timestamp of that record
        ("count", pa.int64()),  # how many there were
        ("key", pa.binary()),
        ("record_type", pa.int32()),  # the number that begins the key
        ("kind", pa.string()),  # the name of Kafka's schema without "Key"; null if the type is unknown
        ("version", pa.int32()),  # of the value; null for a tombstone
        ("tombstone", pa.bool_()),
        ("reason", pa.string()),  # why key or value was not decoded; see coordinator_records
        ("group", pa.string()),
        ("protocol", pa.string()),  # classic, consumer, share or streams; null where the record does not say it
        ("transactional_id", pa.string()),
        ("state", pa.string()),  # of the transaction
        ("tagged_fields", pa.list_(pa.string())),  # those of the value, by name
        ("model", pa.string()),  # of the mark in the metadata of an offset; "unknown" for a mark that is not understood
        ("members", pa.list_(MEMBER)),
    ]
)
"""What coordinators wrote: the last record of each key and version in a micro-batch."""

COORDINATOR_TOPICS: Final = pa.schema(
    [
        ("taken_at", _TIME),
        ("topic", pa.string()),
        ("partitions", pa.int32()),  # 0 where the topic does not exist
        ("offsets", pa.int64()),  # the sum of last minus first offsets when the run began
    ]
)
"""The topics of coordinators that one run has read to their ends."""

CLUSTER_VIEWS: Final = pa.schema(
    [("taken_at", _TIME), ("cluster_id", pa.string()), ("epoch", pa.int64()), ("view", pa.string())]
)
"""What all brokers answered when a run began, as the JSON of a view."""

FEATURE_LEVELS: Final = pa.schema(
    [
        ("taken_at", _TIME),
        ("cluster_id", pa.string()),
        ("epoch", pa.int64()),
        ("feature", pa.string()),
        ("level", pa.int32()),  # the finalized one; 0 for a feature that is not finalized, null if unknown
        ("broker", pa.string()),
        ("failure", pa.string()),  # why the broker did not answer
        ("lowest", pa.int32()),  # the supported range of the broker; null where it does not support the feature
        ("highest", pa.int32()),
    ]
)
"""The same for people: a row for each feature and broker."""

FEATURE_USAGE: Final = pa.schema(
    [
        ("app", pa.string()),
        ("instance", pa.string()),  # a process of the app
        ("software_name", pa.string()),
        ("software_version", pa.string()),
        ("cluster_id", pa.string()),  # null where the brokers of the app report none
        ("closing", pa.bool_()),  # the last report of the process
        ("gate", pa.string()),  # null where the app has no gates
        ("requirement", pa.string()),
        ("policy", pa.string()),  # sticky or live
        ("state", pa.string()),  # open, closed, unknown, or held: open because of its latch alone
        ("latched", pa.bool_()),
        ("levels", pa.string()),  # a JSON object: the finalized level of each feature in the requirement
        ("waits", pa.string()),  # hold or burn-in: what keeps the gate closed beside its requirement
        ("open_after", pa.float64()),  # the seconds of its burn-in
        ("epoch", pa.int64()),  # the highest one of these reports
        ("count", pa.int64()),  # reports
        ("first_seen", _TIME),  # the timestamp of the first record
        ("last_seen", _TIME),
    ]
)
"""What one process said of one gate: partial sums of a micro-batch, which readers add up."""

USAGE_KEYS: Final = tuple(
    name for name in FEATURE_USAGE.names if name not in ("epoch", "count", "first_seen", "last_seen")
)
"""The columns of ``feature_usage`` that are not aggregated."""

USAGE_TOPICS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("end", pa.int64()),  # the offset after the last record that was read
        ("read", pa.int64()),  # records: read = rows + quarantined
        ("rows", pa.int64()),
        ("quarantined", pa.int64()),
    ]
)
"""How far the topic of usage reports was read, a row for each partition and micro-batch."""

READINESS: Final = pa.schema(
    [
        ("taken_at", _TIME),  # when the question was asked
        ("move", pa.string()),  # its kind, such as to or downgrade-to
        ("target", pa.string()),
        ("since", _TIME),  # the hour from which requests counted; null for all
        ("evidence", pa.string()),  # a JSON object: the version of each table
        ("report", pa.string()),  # the verdict of the whole report
        ("check", pa.string()),
        ("verdict", pa.string()),  # of this finding
        ("subject", pa.string()),
        ("why", pa.string()),
        ("do", pa.string()),
        ("client_id", pa.string()),
        ("principal", pa.string()),
        ("software", pa.string()),
        ("app", pa.string()),
        ("api", pa.string()),
        ("versions", pa.list_(pa.int32())),
        ("stop_serving_release", pa.string()),  # the first one that does not serve the oldest of the versions any more
        ("count", pa.int64()),
        ("first_seen", _TIME),
        ("last_seen", _TIME),
        ("hosts", pa.list_(pa.string())),  # the first ones of the addresses that the requests came from
        ("host_count", pa.int64()),  # all of them
    ]
)
"""The findings of the reports of `fleet readiness --keep`, a row for each finding."""

ORIGIN: Final = pa.schema(
    [
        ("cluster", pa.string()),
        ("query_id", pa.string()),
        ("batch_id", pa.int64()),
        ("written_at", _TIME),  # null in rows of an older release
    ]
)

PARSED: Final = pa.schema(
    [
        (name, pa.struct(list(schema)))
        for name, schema in (
            ("api_usage", PARSED_USAGE),
            ("quarantine", QUARANTINE),
            ("evidence_files", EVIDENCE_FILES),
            ("log_lines", LOG_LINES),
        )
    ]
)
"""What the parser returns: a row of one of four tables in one pass. The other columns are null."""


def parsed_rows(table: str, rows: pa.Array) -> pa.RecordBatch:
    """Return rows of one table as a batch of `PARSED`."""
    columns = [rows if field.name == table else pa.nulls(len(rows), field.type) for field in PARSED]
    return pa.RecordBatch.from_arrays(columns, schema=PARSED)
