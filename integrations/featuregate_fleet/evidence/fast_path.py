"""Lines of the request log, a batch at once: Arrow's kernels cut the head and the tail, and skip the bodies. Pure.

The patterns take only lines for which they return what `featuregate_fleet.evidence.one_line` returns, which reads the
others: texts with a backslash, and lines with a second request in them. The cut head of a line and the tail of the next
one would make a request that nobody sent.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from featuregate_fleet.evidence.one_line import MARKER, TIME_AND_LEVEL

__all__ = ["FIELDS", "read_lines"]

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
"""The fields of `featuregate_fleet.evidence.request.Request`."""

_TEXT: Final = r'"(?P<{}>[^"\\\x00-\x1f]*)"'
_HEAD: Final = (
    TIME_AND_LEVEL.replace("(", "(?P<time>", 1).replace("([A-Z]", "(?P<level>[A-Z]")
    + MARKER
    + r'\{"isForwarded":(?P<forwarded>true|false),"requestHeader":\{"requestApiKey":(?P<api_key>0|[1-9]\d{0,3}),'
    + r'"requestApiVersion":(?P<version>0|[1-9]\d{0,3}),"correlationId":-?\d+,"clientId":'
    + _TEXT.format("client_id")
    + r',"requestApiKeyName":"[A-Z_]+"(?:,"requestApiVersionDeprecated":true)?\},"request":'
)
_TAIL: Final = (
    r',"connection":"[^"\\]*","totalTimeMs":[^"]*,(?:"[a-zA-Z]+TimeMs":[\d.E-]+,)*'
    r'"securityProtocol":"[A-Z_]+","principal":'
    + _TEXT.format("principal")
    + r',"listener":'
    + _TEXT.format("listener")
    + r',"clientInformation":\{"softwareName":'
    + _TEXT.format("software_name")
    + r',"softwareVersion":'
    + _TEXT.format("software_version")
    + r"\}\}(?: \(kafka\.request\.logger\))?$"
)
"""One pattern for both would have to go over the body with all groups open, which is five times slower."""

_WITHIN_HEAD: Final = 52
"""A place behind the beginning of the marker of every line that `_HEAD` takes, and before the first body."""


def read_lines(lines: pa.Array) -> pa.StructArray:
    """Return the request of each line as `FIELDS`; null for a line that is for the full parser."""
    head, tail = pc.extract_regex(lines, _HEAD), pc.extract_regex(lines, _TAIL)
    second = pc.match_substring(pc.utf8_slice_codeunits(lines, _WITHIN_HEAD), MARKER)
    valid = pc.and_not(pc.and_(pc.is_valid(head), pc.is_valid(tail)), second)
    columns = {field.name: pc.struct_field(part, field.name) for part in (head, tail) for field in part.type}
    try:
        times = pc.cast(_iso(columns["time"]), FIELDS.field("time").type)
    except pa.ArrowInvalid:  # a day that does not exist: the whole batch is for the full parser
        return pa.nulls(len(lines), FIELDS)
    columns |= {
        "time": times,
        "forwarded": pc.equal(columns["forwarded"], "true"),
        "api_key": pc.cast(columns["api_key"], pa.int32()),
        "version": pc.cast(columns["version"], pa.int32()),
        "software_name": _known(columns["software_name"]),
        "software_version": _known(columns["software_version"]),
    }
    return pa.StructArray.from_arrays(
        [columns[field.name] for field in FIELDS], fields=list(FIELDS), mask=pc.invert(valid)
    )


def _iso(times: pa.Array) -> pa.Array:
    """Return the times as ISO 8601 has them: ``2026-11-22 21:08:39,958`` becomes ``2026-11-22 21:08:39.958Z``."""
    return pc.binary_join_element_wise(pc.replace_substring(times, ",", "."), "Z", "")


def _known(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(texts, "unknown"), None, texts)
