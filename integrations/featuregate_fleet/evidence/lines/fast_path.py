"""Lines of the request log, a batch at once: Arrow's kernels cut the head and the tail, and skip the bodies. Pure.

Most of a head and of a tail is a text that many lines share: which API in which version, and which client over which
listener. Each of these texts is read once for a batch. Read by line are just the time and the client id.

The patterns take only lines for which they return what `featuregate_fleet.evidence.lines.one_line` returns, which reads
the others: texts with a backslash, and lines with a second request in them. The cut head of a line and the tail of the
next one would make a request that no client sent.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import reduce
from operator import methodcaller
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.columns import KEYS, USAGE
from featuregate_fleet.evidence.lines.request import API_VERSIONS, MARKER, OF_CONNECTION

LINES: Final = pa.schema(
    [
        ("value", pa.string()),  # at most LONGEST bytes of the line
        ("at", pa.int64()),  # the byte of the text at which the line begins
        ("length", pa.int64()),  # bytes of the whole line
    ]
)
"""What is parsed: lines of one file."""

FIELDS: Final = pa.struct(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        *(USAGE.field(name) for name in KEYS["usage"] if name not in {"broker", "day", "outcome"}),
    ]
)
"""The fields of `featuregate_fleet.evidence.lines.request.LoggedRequest`, as the rows of usage have them."""

_HEAD_LENGTH: Final = 512
_TAIL_LENGTH: Final = 768
"""Bytes. A longer head or tail is for the full parser."""

_PART: Final = 2**16
"""Bytes."""

_TEXT: Final = r'"(?P<{}>[^"\\\x00-\x1f]*)"'
_INTEGER: Final = r"-?(?:0|[1-9]\d*)"
_NUMBER: Final = _INTEGER + r"(?:\.\d+)?(?:E-?\d+)?"
_INT16: Final = r"(?P<{}>0|[1-9]\d{{0,3}})"

_TIME: Final = r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[,.]\d\d\d)?"
_CRI: Final = r"20\d\d-\d\d-\d\dT[0-9:.]+Z std(?:out|err) F "
_HEAD: Final = (
    rf"\[?(?P<time>{_TIME})\]?"
    r'(?P<api> [^,]*,[^,]*,[^,]*,)"correlationId":'
    + _INTEGER
    + ',"clientId":'
    + _TEXT.format("client_id")
    + r',"requestApiKeyName":"[A-Z_]+"(?:,"requestApiVersionDeprecated":true)?\},"request":\{'
)
"""Up to the first body. RE2 is fast where no byte has two ways to go on, and with at most four groups."""
_API: Final = (
    r"^ +(?P<level>TRACE|DEBUG|INFO|WARN|ERROR|FATAL) +"
    r"(?:\[[a-zA-Z][a-zA-Z-]*-\d+\] )?(?:(?:kafka\.request\.logger|logger:\d+)(?: -|:) )?"  # Strimzi's, Cloudera's
    + MARKER
    + r'\{"isForwarded":(?P<forwarded>true|false),"requestHeader":\{"requestApiKey":'
    + _INT16.format("api_key")
    + r',"requestApiVersion":'
    + _INT16.format("version")
    + ",$"
)
_CONNECTION: Final = '},"connection":"'
"""Behind the last body."""
_TIMES: Final = (
    r'^(?:[0-9a-f.:]+:\d+|INTERNAL_IP)-[0-9a-f.:]+:\d+(?:-\d+){1,2}","totalTimeMs":'
    + _NUMBER
    + rf'(?:,"[a-zA-Z]+TimeMs":{_NUMBER})*$'
)
"""What stands between `_CONNECTION` and `_BEHIND_TIMES`. Groups would make it five times slower."""
_BEHIND_TIMES: Final = ',"securityProtocol":'
_CLIENT: Final = (
    r'^"[A-Z_]+","principal":'
    + _TEXT.format("principal")
    + r',"listener":'
    + _TEXT.format("listener")
    + r',"clientInformation":\{"softwareName":'
    + _TEXT.format("software_name")
    + r',"softwareVersion":'
    + _TEXT.format("software_version")
    + r"\}\}(?: \(kafka\.request\.logger\))?(?: \[[a-zA-Z-]+-\d+\])?$"
)


class SharedTexts(NamedTuple):
    """Texts that many lines share, each read once."""

    index: pa.Int32Array
    """For each line the number of its text in ``values``."""
    values: pa.StructArray
    """Some of `FIELDS`; null for a text that the pattern does not take."""

    def of(self, name: str, index: pa.Array) -> pa.Array:
        """Return one field of the texts with these numbers."""
        return pc.take(pc.struct_field(self.values, name), index)


class FastLines(NamedTuple):
    """What is read of a batch of lines."""

    read: pa.BooleanArray
    """Which lines are read. The others are for the full parser, and their other values mean nothing."""
    time: pa.TimestampArray
    client_id: pa.StringArray
    client_host: pa.StringArray
    connection: pa.StringArray
    api: SharedTexts
    client: SharedTexts


def lines_before(lines: pa.RecordBatch, at: int) -> int:
    """Return how many of the first `LINES` begin before a byte of the text."""
    return bisect_left(lines["at"], at, key=methodcaller("as_py"))


def read_lines(lines: pa.Array) -> FastLines | None:
    """Read the request of each line; None where each is for the full parser."""
    texts = pc.cast(lines, pa.binary())  # kernels for texts look for whole characters
    first = lines[0].as_py() if len(lines) else ""
    pattern = f"^{_CRI}{_HEAD}" if re.match(_CRI, first or "", re.ASCII) else f"^{_HEAD}"
    head = pc.extract_regex(pc.binary_slice(texts, 0, _HEAD_LENGTH), pattern)
    tail, at_mark = _split_at_last(pc.binary_slice(texts, -_TAIL_LENGTH, None), _BEHIND_TIMES)
    client_text = pc.take(tail, pc.add(at_mark, 1))
    before_times, at_mark = _split_at_last(pc.take(tail, at_mark), _CONNECTION)
    times = pc.take(before_times, pc.add(at_mark, 1))
    api, client = _read_once(_API, pc.struct_field(head, "api")), _read_once(_CLIENT, client_text)
    try:
        time = pc.cast(_iso(pc.struct_field(head, "time")), FIELDS.field("time").type)
    except pa.ArrowInvalid:  # a day that does not exist
        return None
    known = [pc.fill_null(pc.take(pc.is_valid(texts.values), texts.index), fill_value=False) for texts in (api, client)]
    read = reduce(pc.and_, [*known, pc.fill_null(pc.match_substring_regex(times, _TIMES), fill_value=False)])
    client_id = pc.cast(pc.struct_field(head, "client_id"), pa.string())
    forwarded = api.of("forwarded", api.index)
    client_host = pc.if_else(forwarded, None, _client_hosts(times))
    negotiate = pc.and_(pc.equal(api.of("api_key", api.index), API_VERSIONS), pc.invert(forwarded))
    connection = _connections(times, pc.and_kleene(read, negotiate))
    return FastLines(_without_second(texts, read), time, client_id, client_host, connection, api, client)


def _split_at_last(texts: pa.Array, mark: str) -> tuple[pa.Array, pa.Array]:
    """Split texts at their last mark; return all halves, and which one is before the mark: null without a mark.

    To take halves is to copy them, so that only the ones that are needed are taken.
    """
    halves = pc.split_pattern(texts, mark, max_splits=1, reverse=True)
    return halves.values, pc.if_else(pc.equal(pc.list_value_length(halves), 2), halves.offsets[:-1], None)


def _client_hosts(times: pa.Array) -> pa.Array:
    parts = pc.split_pattern(times, "-", max_splits=2)
    second = pc.if_else(pc.equal(pc.list_value_length(parts), 3), pc.add(parts.offsets[:-1], 1), None)
    clients = pc.take(parts.values, second)
    return pc.cast(pc.take(*_split_at_last(clients, ":")), pa.string())


def _connections(times: pa.Array, chosen: pa.BooleanArray) -> pa.Array:
    """Return the connection in front of the times of the chosen lines; null for others."""
    parts = pc.split_pattern(times.filter(chosen), '"', max_splits=1)
    connections = pc.cast(pc.take(parts.values, parts.offsets[:-1]), pa.string())
    numbers = pc.subtract(pc.cumulative_sum(pc.cast(chosen, pa.int32())), 1)
    return connections.take(pc.if_else(chosen, numbers, None))


def _read_once(pattern: str, texts: pa.Array) -> SharedTexts:
    """Return the groups of each text, as `FIELDS` have them; each distinct text is read once."""
    shared = pc.dictionary_encode(texts)
    groups = pc.extract_regex(shared.dictionary, pattern)
    columns = []
    for name in groups.type.names:
        text = pc.cast(pc.struct_field(groups, name), pa.string())
        known = pc.if_else(pc.equal(text, "unknown"), None, text) if name.startswith("software") else text
        if name == "principal":
            known = pc.replace_substring_regex(text, OF_CONNECTION, r"\1")
        columns.append(pc.cast(known, FIELDS.field(name).type))
    fields = [FIELDS.field(name) for name in groups.type.names]
    return SharedTexts(shared.indices, pa.StructArray.from_arrays(columns, fields=fields, mask=pc.is_null(groups)))


def _iso(times: pa.Array) -> pa.Array:
    """Return the times as ISO 8601 has them: ``2026-11-22 21:08:39,958`` becomes ``2026-11-22 21:08:39.958Z``."""
    return pc.binary_join_element_wise(pc.replace_substring(pc.cast(times, pa.string()), ",", "."), "Z", "")


def _without_second(texts: pa.Array, read: pa.BooleanArray) -> pa.BooleanArray:
    """Return which lines have one request. A search by line is slow, and needed only where there are too many."""
    _, ends, text = texts.buffers()
    ends = memoryview(ends).cast("i")[texts.offset : texts.offset + len(texts) + 1]
    in_others = pc.count_substring(texts.filter(pc.invert(read)), MARKER)
    expected = pc.sum(read, min_count=0).as_py() + pc.sum(in_others, min_count=0).as_py()
    if _count(MARKER.encode(), memoryview(text)[ends[0] : ends[-1]]) == expected:
        return read
    return pc.and_(read, pc.equal(pc.count_substring(texts, MARKER), 1))


def _count(found: bytes, text: memoryview) -> int:
    """Count what does not overlap itself. Parts are copied into memory that is in the cache."""
    parts = (text[at : at + _PART + len(found) - 1] for at in range(0, len(text), _PART))
    return sum(bytes(part).count(found) for part in parts)
