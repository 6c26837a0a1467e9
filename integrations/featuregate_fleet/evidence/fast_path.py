"""Lines of the request log, a batch at once: Arrow's kernels cut the head and the tail, and skip the bodies. Pure.

The pattern takes only lines for which it returns what `featuregate_fleet.evidence.one_line` returns; that one reads the
others. Texts with a backslash go there, too, and so do lines with a second request in them: the cut head of a line and
the tail of the next one would make a request that nobody sent.
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
"""The fields of `featuregate_fleet.evidence.one_line.Request`."""

_TEXT: Final = r'"([^"\\\x00-\x1f]*)"'
_PATTERN: Final = (
    TIME_AND_LEVEL
    + MARKER
    + r'\{"isForwarded":(true|false),"requestHeader":\{"requestApiKey":(0|[1-9]\d{0,3}),'
    + r'"requestApiVersion":(0|[1-9]\d{0,3}),"correlationId":-?\d+,"clientId":'
    + _TEXT
    + r',"requestApiKeyName":"[A-Z_]+"(?:,"requestApiVersionDeprecated":true)?\},"request":.*'
    + r',"connection":"[^"\\]*","totalTimeMs":[^"]*,(?:"[a-zA-Z]+TimeMs":[\d.E-]+,)*'
    + r'"securityProtocol":"[A-Z_]+","principal":'
    + _TEXT
    + r',"listener":'
    + _TEXT
    + r',"clientInformation":\{"softwareName":'
    + _TEXT
    + r',"softwareVersion":'
    + _TEXT
    + r"\}\}(?: \(kafka\.request\.logger\))?$"
)
_NAMES: Final = [field.name for field in FIELDS]


def _named(pattern: str) -> str:
    """Name the groups of the pattern as the fields, because the kernel returns named groups alone."""
    parts = pattern.replace(r"\(", "\0").replace("(?:", "\1").split("(")
    assert len(parts) == len(_NAMES) + 1
    named = parts[0] + "".join(f"(?P<{name}>{part}" for name, part in zip(_NAMES, parts[1:], strict=True))
    return named.replace("\0", r"\(").replace("\1", "(?:")


_NAMED: Final = _named(_PATTERN)


def read_lines(lines: pa.Array) -> pa.StructArray:
    """Return the request of each line as `FIELDS`; null for a line that is for the full parser."""
    found = pc.extract_regex(lines, _NAMED)
    single = pc.equal(pc.count_substring(lines, MARKER), 1)
    valid = pc.and_(pc.is_valid(found), pc.fill_null(single, False))  # noqa: FBT003 - the kernel's own signature
    columns = {name: pc.struct_field(found, name) for name in _NAMES}
    try:
        times = pc.cast(_iso(columns["time"]), FIELDS.field("time").type)
    except (
        pa.ArrowInvalid
    ):  # a day that does not exist: one such line in a batch is for the full parser, and all with it
        return pa.nulls(len(lines), FIELDS)
    typed = {
        "time": times,
        "forwarded": pc.equal(columns["forwarded"], "true"),
        "api_key": pc.cast(columns["api_key"], pa.int32()),
        "version": pc.cast(columns["version"], pa.int32()),
        "software_name": _known(columns["software_name"]),
        "software_version": _known(columns["software_version"]),
    }
    return pa.StructArray.from_arrays(
        [typed.get(name, columns[name]) for name in _NAMES], fields=list(FIELDS), mask=pc.invert(valid)
    )


def _iso(times: pa.Array) -> pa.Array:
    """Return the times as ISO 8601 has them: ``2026-11-22 21:08:39,958`` becomes ``2026-11-22 21:08:39.958Z``."""
    return pc.binary_join_element_wise(pc.replace_substring(times, ",", "."), "Z", "")


def _known(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(texts, "unknown"), None, texts)
