"""Lines of the request log, a batch at once: Arrow's kernels cut the head and the tail, and skip the bodies. Pure.

Most of a head and of a tail is a text that many lines share: which API in which version, and which client over which
listener. Each of these texts is read once for a batch. Read by line are just the time and the client id.

The patterns take only lines for which they return what `featuregate_fleet.evidence.lines.one_line` returns, which reads
the others: texts with a backslash, and lines with a second request in them. The cut head of a line and the tail of the
next one would make a request that no client sent.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.lines.one_line import LEVEL, TIME
from featuregate_fleet.evidence.lines.request import MARKER

FIELDS: Final = pa.struct(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("level", pa.string()),
        ("forwarded", pa.bool_()),
        ("api_key", pa.int32()),
        ("version", pa.int32()),
        ("client_id", pa.string()),
        ("principal", pa.string()),
        ("listener", pa.string()),
        ("software_name", pa.string()),
        ("software_version", pa.string()),
    ]
)
"""The fields of `featuregate_fleet.evidence.lines.request.Request`."""

_HEAD_LENGTH: Final = 512
_TAIL_LENGTH: Final = 768
"""Bytes. A longer head or tail is for the full parser."""

_TEXT: Final = r'"(?P<{}>[^"\\\x00-\x1f]*)"'
_INTEGER: Final = r"-?(?:0|[1-9]\d*)"
_NUMBER: Final = _INTEGER + r"(?:\.\d+)?(?:E-?\d+)?"
_INT16: Final = r"(?P<{}>0|[1-9]\d{{0,3}})"

_HEAD: Final = (
    TIME.replace("(", "(?P<time>", 1)
    + rf'(?P<api> [^,]*,[^,]*,[^,]*,)"correlationId":{_INTEGER},"clientId":'
    + _TEXT.format("client_id")
    + r',"requestApiKeyName":"[A-Z_]+"(?:,"requestApiVersionDeprecated":true)?\},"request":\{'
)
"""Up to the first body. RE2 is fast where no byte has two ways to go on, and with at most four groups."""
_API: Final = (
    "^"
    + LEVEL.replace("(", "(?P<level>", 1)
    + MARKER
    + r'\{"isForwarded":(?P<forwarded>true|false),"requestHeader":\{"requestApiKey":'
    + _INT16.format("api_key")
    + r',"requestApiVersion":'
    + _INT16.format("version")
    + ",$"
)
_TIMES: Final = r'\},"connection":"[^"\\\x00-\x1f]*","totalTimeMs":' + _NUMBER + rf'(?:,"[a-zA-Z]+TimeMs":{_NUMBER})*$'
"""Between the last body and `_BEHIND_TIMES`."""
_BEHIND_TIMES: Final = b',"securityProtocol":'
_CLIENT: Final = (
    r'^"[A-Z_]+","principal":'
    + _TEXT.format("principal")
    + r',"listener":'
    + _TEXT.format("listener")
    + r',"clientInformation":\{"softwareName":'
    + _TEXT.format("software_name")
    + r',"softwareVersion":'
    + _TEXT.format("software_version")
    + r"\}\}(?: \(kafka\.request\.logger\))?$"
)


def read_lines(lines: pa.Array) -> pa.StructArray:
    """Return the request of each line as `FIELDS`; null for a line that is for the full parser."""
    texts = pc.cast(lines, pa.binary())  # kernels for texts look for whole characters
    head = pc.extract_regex(pc.binary_slice(texts, 0, _HEAD_LENGTH), _HEAD)
    tail = pc.split_pattern(pc.binary_slice(texts, -_TAIL_LENGTH, None), _BEHIND_TIMES, max_splits=1, reverse=True)
    times, client = (pc.list_element(_padded(tail), half) for half in (0, 1))
    columns = {
        "time": _iso(pc.struct_field(head, "time")),
        "client_id": pc.struct_field(head, "client_id"),
        **_read_once(_API, pc.struct_field(head, "api")),
        **_read_once(_CLIENT, client),
    }
    read = [pc.is_valid(columns[name]) for name in ("level", "principal")]
    valid = reduce(pc.and_, [*read, pc.fill_null(pc.match_substring_regex(times, _TIMES), fill_value=False)])
    valid = _without_second(texts, valid)
    try:
        typed = [pc.cast(columns[field.name], field.type) for field in FIELDS]
    except pa.ArrowInvalid:  # a day that does not exist: the whole batch is for the full parser
        return pa.nulls(len(lines), FIELDS)
    return pa.StructArray.from_arrays(typed, fields=list(FIELDS), mask=pc.invert(valid))


def _padded(halves: pa.ListArray) -> pa.Array:
    """Return lists of two; a null is the second half of what was not split."""
    if pc.min(pc.list_value_length(halves)).as_py() == 2:  # noqa: PLR2004 - there is nothing to pad
        return halves
    return pc.list_slice(halves, 0, 2, return_fixed_size_list=True)


def _read_once(pattern: str, texts: pa.Array) -> dict[str, pa.Array]:
    """Return the groups of each text, as `FIELDS` have them; each distinct text is read once."""
    shared = pc.dictionary_encode(texts)
    groups = pc.extract_regex(shared.dictionary, pattern)
    columns = {}
    for name in groups.type.names:
        text = pc.cast(pc.struct_field(groups, name), pa.string())
        known = pc.if_else(pc.equal(text, "unknown"), None, text) if name.startswith("software") else text
        columns[name] = pc.take(pc.cast(known, FIELDS.field(name).type), shared.indices)
    return columns


def _iso(times: pa.Array) -> pa.Array:
    """Return the times as ISO 8601 has them: ``2026-11-22 21:08:39,958`` becomes ``2026-11-22 21:08:39.958Z``."""
    return pc.binary_join_element_wise(pc.replace_substring(pc.cast(times, pa.string()), ",", "."), "Z", "")


def _without_second(texts: pa.Array, valid: pa.Array) -> pa.Array:
    """Return which lines have one request. A search by line is slow, and needed only where there are too many."""
    _, ends, text = texts.buffers()
    ends = memoryview(ends).cast("i")[texts.offset : texts.offset + len(texts) + 1]
    in_others = pc.count_substring(texts.filter(pc.invert(valid)), MARKER)
    expected = pc.sum(valid, min_count=0).as_py() + pc.sum(in_others, min_count=0).as_py()
    if text[ends[0] : ends[-1]].to_pybytes().count(MARKER.encode()) == expected:
        return valid
    return pc.and_(valid, pc.equal(pc.count_substring(texts, MARKER), 1))
